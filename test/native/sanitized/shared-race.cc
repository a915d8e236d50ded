/**
 * One thread makes, changes and drops shared indexes while others find and search them, as native/graph.cc does, but
 * without Node. For ThreadSanitizer. With the argument "careless" the readers ignore the gate, and ThreadSanitizer must
 * report that.
 */
#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "../../../native/graph/catalog.h"
#include "../../../native/graph/graph.h"
#include "../../../native/graph/shared-index.h"

namespace {

constexpr size_t kDimensions = 33;
constexpr uint32_t kBlockBits = 4;
constexpr uint32_t kVectors = 300;
constexpr uint32_t kLasting = 20;
constexpr uint32_t kRounds = 12;
constexpr size_t kReaders = 3;

using Vector = std::vector<float>;

/** The factor of all stored vectors. Numbers of vectors are between -1 and 1. */
constexpr float kGreatest = 255;

class Random {
 public:
  explicit Random(uint32_t seed) : seed_(seed) {}
  uint32_t Draw() { return (seed_ = seed_ * 1664525 + 1013904223) >> 8; }
  Vector DrawVector() {
    Vector vector(kDimensions);
    for (float& number : vector) number = static_cast<float>(Draw()) / (1 << 23) - 1;
    return vector;
  }

 private:
  uint32_t seed_;
};

[[noreturn]] void Fail(const char* what) {
  std::fprintf(stderr, "%s\n", what);
  std::exit(3);
}

/** Changes the index as `HnswIndex` and `ExactIndex` do. */
class Writer {
 public:
  Writer(const std::shared_ptr<SharedIndex>& index, uint32_t seed) : index_(index), random_(seed) {}

  void Add(uint32_t id, const Vector& vector) {
    index_->Begin();
    index_->Describe(id, std::to_string(id), id % 2 == 0 ? u"even" : u"odd", u"");
    const size_t place = index_->size();
    if (place >> kBlockBits == blocks_.size()) blocks_.push_back(index_->MakeBlock(blocks_.size(), 1 << kBlockBits));
    index_->Enter(id);
    WriteRow(vector, RowAt(place));
    ids_.push_back(id);
    index_->Await(id);
    index_->End();
  }

  void Remove(size_t place) {
    index_->Begin();
    const uint32_t id = ids_[place];
    const size_t last = ids_.size() - 1;
    index_->Leave(id);
    std::memcpy(RowAt(place), RowAt(last), index_->stride());
    ids_[place] = ids_[last];
    ids_.pop_back();
    for (uint32_t point = 0; point < points_.size(); point++) {
      if (points_[point] != id) continue;
      graph_->Remove(point);
      points_[point] = kNone;
      index_->Unlink();
    }
    if (last % (1 << kBlockBits) == 0) {
      blocks_.pop_back();
      index_->DropBlock();
    }
    index_->Describe(id, "", u"", u"");
    index_->End();
  }

  void Link() {
    graph_ = std::make_shared<Graph>(kDimensions, ids_.size() / 2, 8, 32, 1);
    points_.clear();
    index_->Begin();
    index_->DropGraph();
    index_->TakeGraph(graph_, nullptr, 0);
    index_->End();
    for (size_t place = 0; place < ids_.size(); place++) {
      index_->Begin();
      if (points_.size() == graph_->capacity()) graph_->Resize(graph_->capacity() * 2);
      graph_->Add(ReadRow(RowAt(place)).data(), static_cast<uint32_t>(points_.size()));
      points_.push_back(ids_[place]);
      index_->Link(ids_[place]);
      index_->End();
    }
  }

  size_t count() const { return ids_.size(); }
  uint32_t id_at(size_t place) const { return ids_[place]; }
  Random& random() { return random_; }

 private:
  uint8_t* RowAt(size_t place) {
    return blocks_[place >> kBlockBits].get() + (place & ((1 << kBlockBits) - 1)) * index_->stride();
  }

  /** Writes a vector as a packed row in which all exponents are zero. */
  static void WriteRow(const Vector& vector, uint8_t* row) {
    std::memset(row, 0, CountPacked(kDimensions));
    for (size_t at = 0; at < kDimensions; at++) {
      const int whole = static_cast<int>(vector[at] * kGreatest);
      row[at] = static_cast<uint8_t>(whole & 255);
      if (whole < 0) row[kDimensions + at / kSums] |= static_cast<uint8_t>(1 << at % kSums);
    }
    std::memcpy(row + CountPacked(kDimensions) - sizeof(kGreatest), &kGreatest, sizeof(kGreatest));
  }

  static Vector ReadRow(const uint8_t* row) {
    Vector vector(kDimensions);
    for (size_t at = 0; at < kDimensions; at++) {
      const int sign = row[kDimensions + at / kSums] >> at % kSums & 1;
      vector[at] = static_cast<float>(row[at] - (sign << 8)) / kGreatest;
    }
    return vector;
  }

  std::shared_ptr<SharedIndex> index_;
  Random random_;
  std::vector<std::shared_ptr<uint8_t>> blocks_;
  std::vector<uint32_t> ids_;
  std::shared_ptr<Graph> graph_;
  std::vector<uint32_t> points_;
};

void Read(const std::atomic<bool>& is_over, bool is_careless, const std::vector<Vector>& lasting, std::atomic<size_t>* count) {
  SearchPlan plan = {3, {40, 80}, {0.01}, 16, 0.2, 0, 4096, true, u"even"};
  for (uint32_t n = 0; !is_over; n++) {
    const uint32_t id = n % kLasting;
    plan.is_filtered = id % 2 == 0;
    std::shared_ptr<SharedIndex> index;
    TheRegistry().Read("a key", "vectors", [&](const Catalog& catalog) {
      const auto found = catalog.indexes.find("an index");
      if (found != catalog.indexes.end()) index = found->second;
    });
    if (index == nullptr) continue;
    const Visit visit(&index->gate);
    if (!visit.is_in() && !is_careless) continue;
    std::vector<Match> found;
    const float* vector = lasting[id].data();
    const bool is_complete = index->Search(vector, vector, kDimensions, plan, &found);
    // Careless searches may find anything; only a race that ThreadSanitizer reports may end them.
    if (is_careless) continue;
    if (!is_complete) Fail("a search took too long");
    for (const Match& match : found) {
      if (plan.is_filtered && match.id % 2 != 0) Fail("another kind was found");
      if (index->name_of(match.id) != std::to_string(match.id)) Fail("another name was found");
    }
    (*count)++;
  }
}

}  // namespace

int main(int count, char** arguments) {
  const bool is_careless = count > 1 && std::strcmp(arguments[1], "careless") == 0;
  Random random(7);
  std::vector<Vector> lasting;
  for (uint32_t id = 0; id < kLasting; id++) lasting.push_back(random.DrawVector());
  std::atomic<bool> is_over{false};
  std::atomic<size_t> searches{0};
  std::vector<std::thread> readers;
  for (size_t at = 0; at < kReaders; at++) {
    readers.emplace_back([&] { Read(is_over, is_careless, lasting, &searches); });
  }
  for (uint32_t round = 0; round < kRounds; round++) {
    auto catalog = std::make_shared<Catalog>();
    catalog->key = "a key";
    auto index = std::make_shared<SharedIndex>(kDimensions, kBlockBits);
    TheRegistry().Open(catalog);
    TheRegistry().Change([&] {
      catalog->indexes.emplace("an index", index);
      catalog->vectors_id = "vectors";
    });
    Writer writer(index, round + 1);
    for (uint32_t id = 0; id < kLasting; id++) writer.Add(id, lasting[id]);
    for (uint32_t id = kLasting; id < kVectors; id++) writer.Add(id, writer.random().DrawVector());
    writer.Link();
    for (uint32_t id = kVectors; id < 2 * kVectors; id++) {
      const size_t place = writer.random().Draw() % writer.count();
      if (writer.id_at(place) >= kLasting) writer.Remove(place);
      if (id % 3 == 0) writer.Add(id, writer.random().DrawVector());
    }
    const size_t before = searches;
    while (searches < before + 20) std::this_thread::yield();
    TheRegistry().Close(catalog);
  }
  is_over = true;
  for (std::thread& reader : readers) reader.join();
  return 0;
}
