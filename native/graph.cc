/**
 * Graphs of hnswlib over vectors of few bits a number: what `graph-engine.ts` says, in C++. hnswlib builds, saves and loads; the walk
 * is our own, because most of its time is waiting for memory: all neighbours of a point are asked for at once, and a
 * vector takes half a byte a dimension. Plain Node-API. A graph belongs to one thread; only writing and reading a file goes
 * on beside it, and the caller leaves the graph as it is meanwhile.
 */
#include <node_api.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <exception>
#include <fstream>
#include <functional>
#include <limits>
#include <memory>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "arguments.h"
#include "hnswlib/hnswlib.h"

#if defined(__x86_64__) && (defined(__GNUC__) || defined(__clang__))
#define UNDERSTUDY_X64 1
#include <immintrin.h>
#endif

namespace {

constexpr size_t kLineBytes = 64;
/**
 * A row takes half a byte a dimension. Each step of it holds the dimensions of one half step in the lower halves of its
 * bytes and those of the next in the upper ones. Rows are filled up with zeros to whole steps.
 */
constexpr size_t kStepBytes = 32;
constexpr size_t kStepDimensions = 2 * kStepBytes;
/** The greatest number of a row, and of what is looked for. A row's are stored with eight added to each. */
constexpr int kRowMax = 7;
constexpr int kQueryMax = 127;
constexpr int kOffset = 8;

// Sums of products of bytes are whole numbers: every machine comes to the same ones, in whatever order it adds.

/** `query` by the row as it is stored, eight added to each number. */
int32_t MultiplyAnywhere(const int8_t* query, const uint8_t* row, size_t steps) {
  int32_t sum = 0;
  for (; steps > 0; steps--, query += kStepDimensions, row += kStepBytes) {
    for (size_t i = 0; i < kStepBytes; i++) sum += query[i] * (row[i] & 15) + query[kStepBytes + i] * (row[i] >> 4);
  }
  return sum;
}

int32_t MultiplyRowsAnywhere(const uint8_t* a, const uint8_t* b, size_t steps) {
  int32_t sum = 0;
  for (size_t i = 0; i < steps * kStepBytes; i++) {
    sum += ((a[i] & 15) - kOffset) * ((b[i] & 15) - kOffset) + ((a[i] >> 4) - kOffset) * ((b[i] >> 4) - kOffset);
  }
  return sum;
}

#if defined(UNDERSTUDY_X64)
/** Steps whose products fit sums of 16 bits: each adds two of 15 by 127 at most. */
constexpr size_t kQuerySteps = 8;
/** The same of two by 7 by 7. */
constexpr size_t kRowSteps = 256;

__attribute__((target("avx2"))) inline int32_t AddLanes(__m256i sums) {
  __m128i four = _mm_add_epi32(_mm256_castsi256_si128(sums), _mm256_extracti128_si256(sums, 1));
  four = _mm_add_epi32(four, _mm_shuffle_epi32(four, 0x4e));
  four = _mm_add_epi32(four, _mm_shuffle_epi32(four, 0xb1));
  return _mm_cvtsi128_si32(four);
}

__attribute__((target("avx2"))) inline __m256i Load(const void* bytes) {
  return _mm256_loadu_si256(static_cast<const __m256i*>(bytes));
}

__attribute__((target("avx2"))) inline __m256i LowerHalves(__m256i bytes) {
  return _mm256_and_si256(bytes, _mm256_set1_epi8(15));
}

__attribute__((target("avx2"))) inline __m256i UpperHalves(__m256i bytes) {
  return LowerHalves(_mm256_srli_epi16(bytes, 4));
}

/** Sums of 16 bits as half as many of 32. */
__attribute__((target("avx2"))) inline __m256i Widen(__m256i sums) {
  return _mm256_madd_epi16(sums, _mm256_set1_epi16(1));
}

__attribute__((target("avx2"))) int32_t MultiplyAvx2(const int8_t* query, const uint8_t* row, size_t steps) {
  __m256i sums = _mm256_setzero_si256();
  while (steps > 0) {
    const size_t some = std::min(steps, kQuerySteps);
    __m256i lower = _mm256_setzero_si256();
    __m256i upper = _mm256_setzero_si256();
    for (size_t i = 0; i < some; i++, query += kStepDimensions, row += kStepBytes) {
      const __m256i bytes = Load(row);
      lower = _mm256_add_epi16(lower, _mm256_maddubs_epi16(LowerHalves(bytes), Load(query)));
      upper = _mm256_add_epi16(upper, _mm256_maddubs_epi16(UpperHalves(bytes), Load(query + kStepBytes)));
    }
    sums = _mm256_add_epi32(sums, _mm256_add_epi32(Widen(lower), Widen(upper)));
    steps -= some;
  }
  return AddLanes(sums);
}

/** Products of what two rows' halves stand for, in pairs: the instruction takes one side without a sign. */
__attribute__((target("avx2"))) inline __m256i MultiplyHalves(__m256i a, __m256i b) {
  const __m256i offset = _mm256_set1_epi8(kOffset);
  const __m256i first = _mm256_sub_epi8(a, offset);
  const __m256i second = _mm256_sub_epi8(b, offset);
  return _mm256_maddubs_epi16(_mm256_abs_epi8(first), _mm256_sign_epi8(second, first));
}

__attribute__((target("avx2"))) int32_t MultiplyRowsAvx2(const uint8_t* a, const uint8_t* b, size_t steps) {
  __m256i sums = _mm256_setzero_si256();
  while (steps > 0) {
    const size_t some = std::min(steps, kRowSteps);
    __m256i lower = _mm256_setzero_si256();
    __m256i upper = _mm256_setzero_si256();
    for (size_t i = 0; i < some; i++, a += kStepBytes, b += kStepBytes) {
      lower = _mm256_add_epi16(lower, MultiplyHalves(LowerHalves(Load(a)), LowerHalves(Load(b))));
      upper = _mm256_add_epi16(upper, MultiplyHalves(UpperHalves(Load(a)), UpperHalves(Load(b))));
    }
    sums = _mm256_add_epi32(sums, _mm256_add_epi32(Widen(lower), Widen(upper)));
    steps -= some;
  }
  return AddLanes(sums);
}

#endif

auto multiply = MultiplyAnywhere;
auto multiply_rows = MultiplyRowsAnywhere;

uint32_t UseLevel([[maybe_unused]] uint32_t level) {
#if defined(UNDERSTUDY_X64)
  __builtin_cpu_init();
  const bool is_wide = level > 0 && __builtin_cpu_supports("avx2");
  multiply = is_wide ? MultiplyAvx2 : MultiplyAnywhere;
  multiply_rows = is_wide ? MultiplyRowsAvx2 : MultiplyRowsAnywhere;
#endif
  return multiply == MultiplyAnywhere ? 0 : 1;
}

// Once, as the addon is loaded.
const uint32_t kWidest = UseLevel(UINT32_MAX);

/** What is beyond comes from a mistake: the library would take memory for all of it at once. */
constexpr uint32_t kDimensionsMax = 1 << 16;
constexpr uint32_t kCapacityMax = 1 << 24;
constexpr uint32_t kLinksMax = 1 << 10;

inline void Prefetch(const char* from, size_t bytes) {
  for (size_t at = 0; at < bytes + kLineBytes - 1; at += kLineBytes) __builtin_prefetch(from + at);
}

/** A row: a vector's numbers by halves of bytes, then what 1 of them stands for. */
float ReadScale(const void* row, size_t bytes) {
  float scale;
  memcpy(&scale, static_cast<const uint8_t*>(row) + bytes, sizeof(scale));
  return scale;
}

float MeasureRows(const void* a, const void* b, const void* steps_of_rows) {
  const size_t steps = *static_cast<const size_t*>(steps_of_rows);
  const int32_t product = multiply_rows(static_cast<const uint8_t*>(a), static_cast<const uint8_t*>(b), steps);
  return 1 - static_cast<float>(product) * ReadScale(a, steps * kStepBytes) * ReadScale(b, steps * kStepBytes);
}

class RowSpace : public hnswlib::SpaceInterface<float> {
 public:
  explicit RowSpace(size_t dimensions)
      : dimensions_(dimensions), steps_((dimensions + kStepDimensions - 1) / kStepDimensions) {}

  size_t get_data_size() override { return row_bytes() + sizeof(float); }
  hnswlib::DISTFUNC<float> get_dist_func() override { return MeasureRows; }
  void* get_dist_func_param() override { return &steps_; }

  size_t dimensions() const { return dimensions_; }
  size_t steps() const { return steps_; }
  /** Of a row's numbers. */
  size_t row_bytes() const { return steps_ * kStepBytes; }

  /** Into whole numbers, the greatest as `most`; those beyond the vector are zeros. @returns what 1 stands for */
  float Quantise(const float* vector, int most, std::vector<int8_t>* into) const {
    float greatest = 0;
    for (size_t i = 0; i < dimensions_; i++) greatest = std::max(greatest, std::fabs(vector[i]));
    const float factor = greatest > 0 ? most / greatest : 0;
    into->assign(steps_ * kStepDimensions, 0);
    for (size_t i = 0; i < dimensions_; i++) (*into)[i] = static_cast<int8_t>(std::lrintf(vector[i] * factor));
    return greatest / most;
  }

  std::vector<uint8_t> MakeRow(const float* vector) {
    std::vector<int8_t> numbers;
    const float scale = Quantise(vector, kRowMax, &numbers);
    std::vector<uint8_t> row(get_data_size());
    for (size_t i = 0; i < row_bytes(); i++) {
      const int8_t* lower = &numbers[i / kStepBytes * kStepDimensions + i % kStepBytes];
      row[i] = static_cast<uint8_t>((lower[0] + kOffset) | (lower[kStepBytes] + kOffset) << 4);
    }
    memcpy(&row[row_bytes()], &scale, sizeof(scale));
    return row;
  }

 private:
  size_t dimensions_;
  size_t steps_;
};

using Points = hnswlib::HierarchicalNSW<float>;
using hnswlib::tableint;

/** Distance first, so that pairs are in its order. */
using Near = std::pair<float, tableint>;

struct Graph {
  explicit Graph(size_t dimensions) : space(dimensions) {}
  RowSpace space;
  std::unique_ptr<Points> points;
};

class Walk {
 public:
  Walk(const Graph& graph, const float* vector)
      : points_(*graph.points), steps_(graph.space.steps()), row_bytes_(graph.space.row_bytes()) {
    scale_ = graph.space.Quantise(vector, kQueryMax, &query_);
    for (const int8_t number : query_) excess_ += kOffset * number;
  }

  /** The nearest points that are not marked as removed, nearest first: `wanted` of the `ef` that are kept on the way. */
  std::vector<Near> Run(size_t wanted, size_t ef) {
    const size_t count = points_.cur_element_count;
    if (count == 0) return {};
    std::vector<Near> kept = WalkGround(Descend(), std::min(std::max(ef, wanted), count));
    std::sort_heap(kept.begin(), kept.end());
    if (kept.size() > wanted) kept.resize(wanted);
    return kept;
  }

 private:
  float Measure(tableint id) const {
    const char* row = points_.getDataByInternalId(id);
    const int32_t product = multiply(query_.data(), reinterpret_cast<const uint8_t*>(row), steps_) - excess_;
    return 1 - static_cast<float>(product) * scale_ * ReadScale(row, row_bytes_);
  }

  void Expect(tableint id) const { Prefetch(points_.getDataByInternalId(id), row_bytes_ + sizeof(float)); }

  /** From the top to the floor above the ground, always to the nearest neighbour. */
  tableint Descend() const {
    tableint at = points_.enterpoint_node_;
    float distance = Measure(at);
    for (int level = points_.maxlevel_; level > 0; level--) {
      for (bool has_moved = true; has_moved;) {
        has_moved = false;
        auto* list = points_.get_linklist(at, level);
        const size_t size = points_.getListCount(list);
        const auto* ids = reinterpret_cast<const tableint*>(list + 1);
        for (size_t i = 0; i < size; i++) Expect(ids[i]);
        for (size_t i = 0; i < size; i++) {
          const float other = Measure(ids[i]);
          if (other >= distance) continue;
          distance = other;
          at = ids[i];
          has_moved = true;
        }
      }
    }
    return at;
  }

  /** @returns a heap, the farthest first */
  std::vector<Near> WalkGround(tableint start, size_t ef) const {
    hnswlib::VisitedList* visited = points_.visited_list_pool_->getFreeVisitedList();
    hnswlib::vl_type* marks = visited->mass;
    const hnswlib::vl_type mark = visited->curV;
    std::vector<Near> kept;
    kept.reserve(ef + 1);
    std::vector<Near> open;
    open.reserve(4 * ef);
    std::vector<tableint> fresh(points_.maxM0_);
    float bound = std::numeric_limits<float>::infinity();
    const auto note = [&](float distance, tableint id) {
      open.emplace_back(distance, id);
      std::push_heap(open.begin(), open.end(), std::greater<Near>());
      if (points_.isMarkedDeleted(id)) return;
      kept.emplace_back(distance, id);
      std::push_heap(kept.begin(), kept.end());
      if (kept.size() > ef) {
        std::pop_heap(kept.begin(), kept.end());
        kept.pop_back();
      }
      if (kept.size() == ef) bound = kept.front().first;
    };
    marks[start] = mark;
    note(Measure(start), start);
    while (!open.empty() && open.front().first <= bound) {
      const tableint at = open.front().second;
      std::pop_heap(open.begin(), open.end(), std::greater<Near>());
      open.pop_back();
      auto* list = points_.get_linklist0(at);
      const size_t size = points_.getListCount(list);
      const auto* ids = reinterpret_cast<const tableint*>(list + 1);
      size_t count = 0;
      for (size_t i = 0; i < size; i++) {
        const tableint id = ids[i];
        if (marks[id] == mark) continue;
        marks[id] = mark;
        Expect(id);
        fresh[count++] = id;
      }
      for (size_t i = 0; i < count; i++) {
        const float distance = Measure(fresh[i]);
        if (distance < bound) note(distance, fresh[i]);
      }
      if (!open.empty()) Prefetch(reinterpret_cast<const char*>(points_.get_linklist0(open.front().second)), points_.size_links_level0_);
    }
    points_.visited_list_pool_->releaseVisitedList(visited);
    return kept;
  }

  const Points& points_;
  const size_t steps_;
  const size_t row_bytes_;
  std::vector<int8_t> query_;
  float scale_;
  /** What the eights that are added to a row's numbers bring. */
  int32_t excess_ = 0;
};

// Node-API.

constexpr napi_type_tag kGraphTag = {0x756e646572737475, 0x64792d6772617068};

Graph* ReadGraphHandle(napi_env env, napi_value value) {
  bool is_graph = false;
  void* graph = nullptr;
  if (napi_check_object_type_tag(env, value, &kGraphTag, &is_graph) != napi_ok || !is_graph ||
      napi_get_value_external(env, value, &graph) != napi_ok) {
    napi_throw_type_error(env, nullptr, "a graph is expected");
    return nullptr;
  }
  return static_cast<Graph*>(graph);
}

bool ReadBounded(napi_env env, napi_value value, uint32_t least, uint32_t most, uint32_t* into) {
  if (!ReadWhole(env, value, least, into)) return false;
  if (*into <= most) return true;
  napi_throw_range_error(env, nullptr, "a smaller number is expected");
  return false;
}

/** A vector of as many dimensions as the graph's. */
bool ReadVector(napi_env env, const Graph& graph, napi_value value, const float** vector) {
  size_t length;
  if (!ReadNumbers(env, value, napi_float32_array, vector, &length)) return false;
  if (length == graph.space.dimensions()) return true;
  napi_throw_range_error(env, nullptr, "a vector of another number of dimensions");
  return false;
}

bool ReadText(napi_env env, napi_value value, std::string* into) {
  size_t length = 0;
  if (napi_get_value_string_utf8(env, value, nullptr, 0, &length) != napi_ok) {
    napi_throw_type_error(env, nullptr, "a text is expected");
    return false;
  }
  into->resize(length + 1);
  if (napi_get_value_string_utf8(env, value, &(*into)[0], length + 1, &length) != napi_ok) return false;
  into->resize(length);
  return true;
}

void FreeGraph(napi_env, void* data, void*) { delete static_cast<Graph*>(data); }

napi_value WrapGraph(napi_env env, std::unique_ptr<Graph> graph) {
  napi_value value;
  if (napi_create_external(env, graph.get(), FreeGraph, nullptr, &value) != napi_ok) return nullptr;
  graph.release();
  return napi_type_tag_object(env, value, &kGraphTag) == napi_ok ? value : nullptr;
}

/** Runs `work`; what it throws is thrown in JavaScript. */
template <typename Work>
bool Attempt(napi_env env, Work work) {
  try {
    work();
    return true;
  } catch (const std::exception& error) {
    napi_throw_error(env, nullptr, error.what());
    return false;
  }
}

/** createGraph(dimensions, capacity, links, efConstruction, seed) */
napi_value CreateGraph(napi_env env, napi_callback_info info) {
  napi_value arguments[5];
  uint32_t dimensions;
  uint32_t capacity;
  uint32_t links;
  uint32_t ef;
  uint32_t seed;
  if (!ReadArguments(env, info, 5, arguments) || !ReadBounded(env, arguments[0], 1, kDimensionsMax, &dimensions) ||
      !ReadBounded(env, arguments[1], 1, kCapacityMax, &capacity) ||
      !ReadBounded(env, arguments[2], 2, kLinksMax, &links) || !ReadWhole(env, arguments[3], 1, &ef) || !ReadWhole(env, arguments[4], 0, &seed)) {
    return nullptr;
  }
  std::unique_ptr<Graph> graph;
  const bool is_made = Attempt(env, [&] {
    graph.reset(new Graph(dimensions));
    graph->points.reset(new Points(&graph->space, capacity, links, ef, seed));
  });
  return is_made ? WrapGraph(env, std::move(graph)) : nullptr;
}

/** addPoint(graph, vector, label) */
napi_value AddPoint(napi_env env, napi_callback_info info) {
  napi_value arguments[3];
  uint32_t label;
  const float* vector;
  if (!ReadArguments(env, info, 3, arguments)) return nullptr;
  Graph* graph = ReadGraphHandle(env, arguments[0]);
  if (graph == nullptr || !ReadVector(env, *graph, arguments[1], &vector) ||
      !ReadWhole(env, arguments[2], 0, &label)) {
    return nullptr;
  }
  Attempt(env, [&] {
    // The library would move the point that has it, and reads beyond the points' links as it does.
    if (graph->points->label_lookup_.count(label) != 0) throw std::runtime_error("the label is taken");
    graph->points->addPoint(graph->space.MakeRow(vector).data(), label);
  });
  return nullptr;
}

/** markRemoved(graph, label) */
napi_value MarkRemoved(napi_env env, napi_callback_info info) {
  napi_value arguments[2];
  uint32_t label;
  if (!ReadArguments(env, info, 2, arguments)) return nullptr;
  Graph* graph = ReadGraphHandle(env, arguments[0]);
  if (graph == nullptr || !ReadWhole(env, arguments[1], 0, &label)) return nullptr;
  Attempt(env, [&] { graph->points->markDelete(label); });
  return nullptr;
}

/** resizeGraph(graph, capacity) */
napi_value ResizeGraph(napi_env env, napi_callback_info info) {
  napi_value arguments[2];
  uint32_t capacity;
  if (!ReadArguments(env, info, 2, arguments)) return nullptr;
  Graph* graph = ReadGraphHandle(env, arguments[0]);
  if (graph == nullptr || !ReadBounded(env, arguments[1], 1, kCapacityMax, &capacity)) return nullptr;
  Attempt(env, [&] { graph->points->resizeIndex(capacity); });
  return nullptr;
}

/** countPoints(graph) */
napi_value CountPoints(napi_env env, napi_callback_info info) {
  napi_value arguments[1];
  if (!ReadArguments(env, info, 1, arguments)) return nullptr;
  Graph* graph = ReadGraphHandle(env, arguments[0]);
  return graph == nullptr ? nullptr : MakeNumber(env, static_cast<double>(graph->points->getCurrentElementCount()));
}

/** capacityOf(graph) */
napi_value CapacityOf(napi_env env, napi_callback_info info) {
  napi_value arguments[1];
  if (!ReadArguments(env, info, 1, arguments)) return nullptr;
  Graph* graph = ReadGraphHandle(env, arguments[0]);
  return graph == nullptr ? nullptr : MakeNumber(env, static_cast<double>(graph->points->getMaxElements()));
}

/** searchGraph(graph, vector, wanted, ef, labels, similarities) */
napi_value SearchGraph(napi_env env, napi_callback_info info) {
  napi_value arguments[6];
  const float* vector;
  uint32_t wanted;
  uint32_t ef;
  uint32_t* labels;
  size_t label_room;
  float* similarities;
  size_t similarity_room;
  if (!ReadArguments(env, info, 6, arguments)) return nullptr;
  Graph* graph = ReadGraphHandle(env, arguments[0]);
  if (graph == nullptr || !ReadVector(env, *graph, arguments[1], &vector) ||
      !ReadWhole(env, arguments[2], 0, &wanted) || !ReadWhole(env, arguments[3], 1, &ef) ||
      !ReadNumbers(env, arguments[4], napi_uint32_array, &labels, &label_room) ||
      !ReadNumbers(env, arguments[5], napi_float32_array, &similarities, &similarity_room)) {
    return nullptr;
  }
  if (wanted > label_room || wanted > similarity_room) {
    napi_throw_range_error(env, nullptr, "there is no room for so many");
    return nullptr;
  }
  size_t count = 0;
  const bool is_done = Attempt(env, [&] {
    for (const auto& [distance, id] : Walk(*graph, vector).Run(wanted, ef)) {
      labels[count] = static_cast<uint32_t>(graph->points->getExternalLabel(id));
      similarities[count++] = 1 - distance;
    }
  });
  return is_done ? MakeNumber(env, static_cast<double>(count)) : nullptr;
}

/** A file that is written or read beside the thread. */
struct FileWork {
  std::string file;
  /** Written: the graph of the thread, which `handle` keeps. */
  Graph* written = nullptr;
  napi_ref handle = nullptr;
  /** Read: one of its own. */
  std::unique_ptr<Graph> read;
  std::string error;
  napi_deferred deferred = nullptr;
  napi_async_work work = nullptr;
};

void CheckLayout(const Graph& graph) {
  const Points& points = *graph.points;
  const size_t data_size = points.label_offset_ - points.offsetData_;
  if (data_size != points.data_size_ ||
      points.size_data_per_element_ != points.size_links_level0_ + points.data_size_ + sizeof(hnswlib::labeltype)) {
    throw std::runtime_error("the graph is of other vectors");
  }
}

void WorkOnFile(napi_env, void* data) {
  auto& work = *static_cast<FileWork*>(data);
  try {
    if (work.written != nullptr) {
      work.written->points->saveIndex(work.file);
      // It does not look whether the disk took it.
      std::ifstream written(work.file, std::ios::binary | std::ios::ate);
      if (!written || static_cast<size_t>(written.tellg()) != work.written->points->indexFileSize()) {
        throw std::runtime_error("the file cannot be written");
      }
    } else {
      work.read->points.reset(new Points(&work.read->space, work.file));
      CheckLayout(*work.read);
    }
  } catch (const std::exception& error) {
    work.error = error.what();
    if (work.error.empty()) work.error = "the file cannot be used";
  }
}

void FinishFile(napi_env env, napi_status, void* data) {
  std::unique_ptr<FileWork> work(static_cast<FileWork*>(data));
  napi_value result = nullptr;
  if (!work->error.empty()) {
    napi_value message;
    napi_create_string_utf8(env, work->error.data(), work->error.size(), &message);
    napi_create_error(env, nullptr, message, &result);
    napi_reject_deferred(env, work->deferred, result);
  } else {
    if (work->written != nullptr) napi_get_undefined(env, &result);
    else result = WrapGraph(env, std::move(work->read));
    napi_resolve_deferred(env, work->deferred, result);
  }
  if (work->handle != nullptr) napi_delete_reference(env, work->handle);
  napi_delete_async_work(env, work->work);
}

napi_value StartFile(napi_env env, std::unique_ptr<FileWork> work) {
  napi_value promise;
  napi_value name;
  if (napi_create_promise(env, &work->deferred, &promise) != napi_ok ||
      napi_create_string_utf8(env, "understudy graph", NAPI_AUTO_LENGTH, &name) != napi_ok ||
      napi_create_async_work(env, nullptr, name, WorkOnFile, FinishFile, work.get(), &work->work) != napi_ok ||
      napi_queue_async_work(env, work->work) != napi_ok) {
    napi_throw_error(env, nullptr, "no thread can be asked");
    return nullptr;
  }
  work.release();
  return promise;
}

/** writeGraph(graph, file) */
napi_value WriteGraph(napi_env env, napi_callback_info info) {
  napi_value arguments[2];
  std::unique_ptr<FileWork> work(new FileWork());
  if (!ReadArguments(env, info, 2, arguments)) return nullptr;
  work->written = ReadGraphHandle(env, arguments[0]);
  if (work->written == nullptr || !ReadText(env, arguments[1], &work->file) ||
      napi_create_reference(env, arguments[0], 1, &work->handle) != napi_ok) {
    return nullptr;
  }
  return StartFile(env, std::move(work));
}

/** readGraph(dimensions, file) */
napi_value ReadGraph(napi_env env, napi_callback_info info) {
  napi_value arguments[2];
  uint32_t dimensions;
  std::unique_ptr<FileWork> work(new FileWork());
  if (!ReadArguments(env, info, 2, arguments) || !ReadBounded(env, arguments[0], 1, kDimensionsMax, &dimensions) ||
      !ReadText(env, arguments[1], &work->file)) {
    return nullptr;
  }
  work->read.reset(new Graph(dimensions));
  return StartFile(env, std::move(work));
}

napi_value Init(napi_env env, napi_value exports) {
  return Export(env, exports, {
      {"createGraph", CreateGraph},
      {"addPoint", AddPoint},
      {"markRemoved", MarkRemoved},
      {"resizeGraph", ResizeGraph},
      {"countPoints", CountPoints},
      {"capacityOf", CapacityOf},
      {"searchGraph", SearchGraph},
      {"writeGraph", WriteGraph},
      {"readGraph", ReadGraph},
      {"setWidestLevel", SetWidestLevel<UseLevel>},
  });
}

}  // namespace

NAPI_MODULE(NODE_GYP_MODULE_NAME, Init)
