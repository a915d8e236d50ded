/**
 * Graphs of hnswlib over vectors of bytes: what `graph-engine.ts` says, in C++. hnswlib builds, saves and loads; the walk
 * is our own, because most of its time is waiting for memory: all neighbours of a point are asked for at once, and a
 * vector takes one byte a dimension. Plain Node-API. A graph belongs to one thread; only writing and reading a file goes
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
/** Vectors are filled up with zeros to a multiple of this. */
constexpr size_t kStepBytes = 32;
constexpr float kByteMax = 127;

// Sums of products of bytes are whole numbers: every machine comes to the same ones, in whatever order it adds.

int32_t MultiplyAnywhere(const int16_t* query, const int8_t* row, size_t length) {
  int32_t sum = 0;
  for (size_t i = 0; i < length; i++) sum += static_cast<int32_t>(query[i]) * row[i];
  return sum;
}

int32_t MultiplyRowsAnywhere(const int8_t* a, const int8_t* b, size_t length) {
  int32_t sum = 0;
  for (size_t i = 0; i < length; i++) sum += static_cast<int32_t>(a[i]) * b[i];
  return sum;
}

#if defined(UNDERSTUDY_X64)
__attribute__((target("avx2"))) inline int32_t AddLanes(__m256i sums) {
  __m128i four = _mm_add_epi32(_mm256_castsi256_si128(sums), _mm256_extracti128_si256(sums, 1));
  four = _mm_add_epi32(four, _mm_shuffle_epi32(four, 0x4e));
  four = _mm_add_epi32(four, _mm_shuffle_epi32(four, 0xb1));
  return _mm_cvtsi128_si32(four);
}

__attribute__((target("avx2"))) inline __m256i Widen(const int8_t* bytes) {
  return _mm256_cvtepi8_epi16(_mm_loadu_si128(reinterpret_cast<const __m128i*>(bytes)));
}

__attribute__((target("avx2"))) int32_t MultiplyAvx2(const int16_t* query, const int8_t* row, size_t length) {
  __m256i even = _mm256_setzero_si256();
  __m256i odd = _mm256_setzero_si256();
  for (size_t i = 0; i < length; i += kStepBytes) {
    const __m256i first = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(query + i));
    const __m256i second = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(query + i + 16));
    even = _mm256_add_epi32(even, _mm256_madd_epi16(first, Widen(row + i)));
    odd = _mm256_add_epi32(odd, _mm256_madd_epi16(second, Widen(row + i + 16)));
  }
  return AddLanes(_mm256_add_epi32(even, odd));
}

__attribute__((target("avx2"))) int32_t MultiplyRowsAvx2(const int8_t* a, const int8_t* b, size_t length) {
  __m256i even = _mm256_setzero_si256();
  __m256i odd = _mm256_setzero_si256();
  for (size_t i = 0; i < length; i += kStepBytes) {
    even = _mm256_add_epi32(even, _mm256_madd_epi16(Widen(a + i), Widen(b + i)));
    odd = _mm256_add_epi32(odd, _mm256_madd_epi16(Widen(a + i + 16), Widen(b + i + 16)));
  }
  return AddLanes(_mm256_add_epi32(even, odd));
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

/** A row: the bytes of a vector, filled up, then what one of them stands for. */
float ReadScale(const void* row, size_t length) {
  float scale;
  memcpy(&scale, static_cast<const int8_t*>(row) + length, sizeof(scale));
  return scale;
}

float MeasureRows(const void* a, const void* b, const void* length_of_rows) {
  const size_t length = *static_cast<const size_t*>(length_of_rows);
  const int32_t product = multiply_rows(static_cast<const int8_t*>(a), static_cast<const int8_t*>(b), length);
  return 1 - static_cast<float>(product) * ReadScale(a, length) * ReadScale(b, length);
}

class ByteSpace : public hnswlib::SpaceInterface<float> {
 public:
  explicit ByteSpace(size_t dimensions)
      : dimensions_(dimensions), length_((dimensions + kStepBytes - 1) / kStepBytes * kStepBytes) {}

  size_t get_data_size() override { return length_ + sizeof(float); }
  hnswlib::DISTFUNC<float> get_dist_func() override { return MeasureRows; }
  void* get_dist_func_param() override { return &length_; }

  size_t dimensions() const { return dimensions_; }
  size_t length() const { return length_; }

  /** Into bytes, the greatest number as 127. @returns what one stands for */
  template <typename Byte>
  float Quantise(const float* vector, Byte* into) const {
    float most = 0;
    for (size_t i = 0; i < dimensions_; i++) most = std::max(most, std::fabs(vector[i]));
    const float factor = most > 0 ? kByteMax / most : 0;
    for (size_t i = 0; i < dimensions_; i++) into[i] = static_cast<Byte>(std::lrintf(vector[i] * factor));
    for (size_t i = dimensions_; i < length_; i++) into[i] = 0;
    return most / kByteMax;
  }

 private:
  size_t dimensions_;
  size_t length_;
};

using Points = hnswlib::HierarchicalNSW<float>;
using hnswlib::tableint;

/** Distance first, so that pairs are in its order. */
using Near = std::pair<float, tableint>;

struct Graph {
  explicit Graph(size_t dimensions) : space(dimensions) {}
  ByteSpace space;
  std::unique_ptr<Points> points;
};

class Walk {
 public:
  Walk(const Graph& graph, const float* vector)
      : points_(*graph.points), length_(graph.space.length()), query_(length_) {
    scale_ = graph.space.Quantise(vector, query_.data());
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
    const int32_t product = multiply(query_.data(), reinterpret_cast<const int8_t*>(row), length_);
    return 1 - static_cast<float>(product) * scale_ * ReadScale(row, length_);
  }

  void Expect(tableint id) const { Prefetch(points_.getDataByInternalId(id), length_ + sizeof(float)); }

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
  const size_t length_;
  std::vector<int16_t> query_;
  float scale_;
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
    std::vector<int8_t> row(graph->space.get_data_size());
    const float scale = graph->space.Quantise(vector, row.data());
    memcpy(row.data() + graph->space.length(), &scale, sizeof(scale));
    graph->points->addPoint(row.data(), label);
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
