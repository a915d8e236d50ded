/**
 * An index that several threads search: its graph, its exact vectors, and the labels that a search returns. Only the
 * thread of the JavaScript index (`src/search/hnsw-index.ts`) changes the shared index, and this thread reads it
 * without a lock. Other threads enter the gate before they search. All threads use the same algorithm, so they find the
 * same matches in the same order.
 */
#pragma once

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <limits>
#include <memory>
#include <new>
#include <stdexcept>
#include <string>
#include <unordered_set>
#include <utility>
#include <vector>

#include "../vectors/compare.h"
#include "gate.h"
#include "graph.h"
#include "texts.h"
#include "walk.h"

namespace {

constexpr uint32_t kNone = UINT32_MAX;
/** Maximum id. Ids are positions in a list, so the largest id is not much larger than the number of vectors. */
constexpr uint32_t kIdMax = kCapacityMax;
constexpr uint32_t kBlockBitsMax = 16;

struct Match {
  uint32_t id;
  double similarity;
};

/**
 * The best matches so far, in the order of `best-matches.ts`: by descending similarity, then by ascending id.
 */
class BestMatches {
 public:
  BestMatches(size_t k, double least) : k_(k), least_(least) { kept_.reserve(k + 1); }

  void Offer(uint32_t id, double similarity) {
    if (k_ == 0 || !(similarity >= least_)) return;
    size_t at = kept_.size();
    while (at > 0 && IsBetter(id, similarity, kept_[at - 1])) at--;
    if (at >= k_) return;
    kept_.insert(kept_.begin() + static_cast<std::ptrdiff_t>(at), Match{id, similarity});
    if (kept_.size() > k_) kept_.pop_back();
    if (kept_.size() == k_) least_ = std::max(least_, kept_.back().similarity);
  }

  const std::vector<Match>& kept() const { return kept_; }

 private:
  static bool IsBetter(uint32_t id, double similarity, const Match& than) {
    return similarity > than.similarity || (similarity == than.similarity && id < than.id);
  }

  size_t k_;
  double least_;
  std::vector<Match> kept_;
};

/** What a search filters by and returns for a vector: the name, and the numbers of kind and family. */
struct Label {
  /** nullptr: the vector has no label. */
  std::unique_ptr<char[]> name;
  uint32_t kind = kNoText;
  uint32_t family = kNoText;
};

/** Parameters of a search; `hnsw-index.ts` explains them. */
struct SearchPlan {
  uint32_t k;
  /** Number of candidates of each walk, in ascending order. */
  std::vector<uint32_t> looks;
  /** For each walk except the last: how far the last candidate must be below the last result. */
  std::vector<double> margins;
  /**
   * Minimum number of candidates that are compared exactly. Further candidates are compared only if they may be among
   * the results.
   */
  uint32_t compared;
  /** Largest error of the graph's similarity. */
  double error;
  double min_similarity;
  /** Maximum number of vectors that are compared one by one. */
  uint32_t compared_max;
  bool is_filtered;
  /** Only vectors of this kind are found if `is_filtered` is set. */
  std::u16string kind;
};

class SharedIndex {
 public:
  SharedIndex(size_t dimensions, uint32_t block_bits) : dimensions_(dimensions), block_bits_(block_bits) {}

  Gate gate;

  size_t dimensions() const { return dimensions_; }
  /** Bytes that a stored vector takes. */
  size_t stride() const { return CountPacked(dimensions_); }
  size_t size() const { return size_.load(std::memory_order_acquire); }
  const char* name_of(uint32_t id) const { return labels_[id].name.get(); }
  bool IsOfFamily(uint32_t id, uint32_t family) const { return family != kNoText && labels_[id].family == family; }
  /** Finds the number of a kind or a family; kNoText if no vector has it. */
  uint32_t FindText(const std::u16string& text) const { return texts_.Find(text); }

  /** Bytes of memory that the index takes in addition to the vectors and the graph. */
  size_t bytes() const {
    return (ids_.capacity() + places_.capacity() + id_of_point_.capacity()) * sizeof(uint32_t) +
           labels_.capacity() * sizeof(Label) + name_bytes_ + texts_.bytes() + pending_.size() * kSetEntryBytes;
  }

  // ---- Only for the thread that changes the index, between Begin and End ----

  void Begin() {
    if (is_changing_) throw std::runtime_error("the index is being changed");
    gate.Shut();
    is_changing_ = true;
  }

  void End() {
    CheckChanging();
    is_changing_ = false;
    gate.Open();
  }

  /** Allocates a block, which replaces the block with this number or follows the last one. @returns its zeroed memory */
  std::shared_ptr<uint8_t> MakeBlock(size_t number, size_t vectors) {
    CheckChanging();
    const size_t full = size_t{1} << block_bits_;
    if (number > blocks_.size() || vectors == 0 || vectors > full || (number > 0 && vectors != full) ||
        (number + 1 < blocks_.size() && vectors != full) || (number << block_bits_) + vectors < size()) {
      throw std::runtime_error("the block does not exist");
    }
    void* memory = std::calloc(vectors, stride());
    if (memory == nullptr) throw std::bad_alloc();
    std::shared_ptr<uint8_t> block(static_cast<uint8_t*>(memory), std::free);
    if (number == blocks_.size()) blocks_.emplace_back();
    blocks_[number] = {block, vectors};
    return block;
  }

  void DropBlock() {
    CheckChanging();
    if (blocks_.empty() || size() > (blocks_.size() - 1) << block_bits_) {
      throw std::runtime_error("the block contains vectors");
    }
    blocks_.pop_back();
  }

  /** Adds a vector at the end. The caller writes its numbers before the end of the change. */
  void Enter(uint32_t id) {
    CheckChanging();
    const size_t place = size();
    if (id > kIdMax || PlaceOf(id) != kNone || place >> block_bits_ >= blocks_.size() ||
        (place & Mask()) >= blocks_[place >> block_bits_].vectors) {
      throw std::runtime_error("the index has no room for this id");
    }
    if (id >= places_.size()) places_.resize(id + 1, kNone);
    places_[id] = static_cast<uint32_t>(place);
    ids_.push_back(id);
    size_.store(ids_.size(), std::memory_order_release);
  }

  /** Removes a vector. The last vector takes its position; the caller moves the numbers of the last vector. */
  void Leave(uint32_t id) {
    CheckChanging();
    const uint32_t place = PlaceOf(id);
    if (place == kNone) throw std::runtime_error("no vector has this id");
    const uint32_t moved = ids_.back();
    ids_[place] = moved;
    places_[moved] = place;
    places_[id] = kNone;
    ids_.pop_back();
    pending_.erase(id);
    size_.store(ids_.size(), std::memory_order_release);
  }

  /** Makes every search from now on compare this vector directly, because it is not in the graph. */
  void Await(uint32_t id) {
    CheckChanging();
    if (PlaceOf(id) == kNone) throw std::runtime_error("no vector has this id");
    pending_.insert(id);
  }

  /** Declares which vector belongs to the graph's next point. Called once for each added point, in order. */
  void Link(uint32_t id) {
    CheckChanging();
    pending_.erase(id);
    id_of_point_.push_back(id);
    linked_++;
  }

  /** Counts one linked vector fewer. Called after the vector's point was marked as removed. */
  void Unlink() {
    CheckChanging();
    if (linked_ == 0) throw std::runtime_error("no vector is linked");
    linked_--;
  }

  /**
   * Makes searches use this graph from now on.
   * @param ids id of each point's vector; kNone for a point that is marked as removed
   */
  void TakeGraph(std::shared_ptr<Graph> graph, const uint32_t* ids, size_t count) {
    CheckChanging();
    if (count != graph->count()) throw std::runtime_error("the graph has another number of points");
    id_of_point_.assign(ids, ids + count);
    graph_ = std::move(graph);
    linked_ = 0;
    for (size_t point = 0; point < count; point++) {
      if (ids[point] == kNone) continue;
      linked_++;
      pending_.erase(ids[point]);
    }
  }

  /** Makes searches use no graph from now on, and compare each vector. */
  void DropGraph() {
    CheckChanging();
    graph_.reset();
    id_of_point_.clear();
    linked_ = 0;
    for (const uint32_t id : ids_) pending_.insert(id);
  }

  /** Replaces the label of a vector. @param name empty: the label is removed */
  void Describe(uint32_t id, const std::string& name, const std::u16string& kind, const std::u16string& family) {
    CheckChanging();
    if (id > kIdMax) throw std::runtime_error("the index has no room for this id");
    if (name.find('\0') != std::string::npos) throw std::runtime_error("the name must not contain a zero");
    if (id >= labels_.size()) labels_.resize(id + 1);
    Label& label = labels_[id];
    Label former = std::move(label);
    label = Label();
    if (!name.empty()) {
      label.name.reset(new char[name.size() + 1]);
      std::memcpy(label.name.get(), name.c_str(), name.size() + 1);
      name_bytes_ += name.size() + 1;
      label.kind = texts_.Take(kind);
      label.family = texts_.Take(family);
    }
    if (former.name != nullptr) name_bytes_ -= std::strlen(former.name.get()) + 1;
    texts_.Give(former.kind);
    texts_.Give(former.family);
  }

  // ---- Any thread that has entered the gate ----

  /**
   * Finds the best matches of a vector.
   * @returns false, without matches, if the search would take too long on this thread
   */
  bool Search(const float* vector, const float* projected, size_t graph_dimensions, const SearchPlan& plan,
              std::vector<Match>* found) const {
    const Question query{std::vector<double>(vector, vector + dimensions_),
                         plan.is_filtered ? texts_.Find(plan.kind) : kNoText};
    // If more than half of the vectors are compared one by one anyway, the graph saves nothing.
    if (graph_ == nullptr || 2 * pending_.size() > size()) return CompareAll(query, plan, found);
    if (plan.k == 0) return true;
    if (graph_dimensions != graph_->space().dimensions()) throw std::range_error("the vector has another number of dimensions");
    BestMatches whole(plan.k, -std::numeric_limits<double>::infinity());
    if (!Look(query, projected, plan, &whole)) return CompareAll(query, plan, found);
    if (pending_.size() > plan.compared_max) return false;
    BestMatches best(plan.k, plan.min_similarity);
    for (const Match& match : whole.kept()) best.Offer(match.id, match.similarity);
    for (const uint32_t id : pending_) OfferOne(query, id, plan, &best);
    *found = best.kept();
    return true;
  }

 private:
  struct Question {
    std::vector<double> numbers;
    /** The number of the wanted kind. Only used if there is a filter. */
    uint32_t kind;
  };

  struct Block {
    std::shared_ptr<uint8_t> memory;
    size_t vectors = 0;
  };

  /** Estimated bytes of an entry in a set. */
  static constexpr size_t kSetEntryBytes = 40;

  void CheckChanging() const {
    if (!is_changing_) throw std::runtime_error("the index is not being changed");
  }

  size_t Mask() const { return (size_t{1} << block_bits_) - 1; }

  uint32_t PlaceOf(uint32_t id) const { return id < places_.size() ? places_[id] : kNone; }

  void OfferOne(const Question& query, uint32_t id, const SearchPlan& plan, BestMatches* best) const {
    const uint32_t place = PlaceOf(id);
    // A vector without a label is being added or removed.
    if (place == kNone || id >= labels_.size() || labels_[id].name == nullptr) return;
    if (plan.is_filtered && (query.kind == kNoText || labels_[id].kind != query.kind)) return;
    const Block& block = blocks_[place >> block_bits_];
    best->Offer(id, compare_packed(query.numbers.data(), block.memory.get() + (place & Mask()) * stride(), dimensions_));
  }

  bool CompareAll(const Question& query, const SearchPlan& plan, std::vector<Match>* found) const {
    if (ids_.size() > plan.compared_max) return false;
    BestMatches best(plan.k, plan.min_similarity);
    for (const uint32_t id : ids_) OfferOne(query, id, plan, &best);
    *found = best.kept();
    return true;
  }

  /**
   * Searches the graph with wider and wider walks until the result is certain, with the algorithm of `hnsw-index.ts`.
   * @returns false if the result stays uncertain; then every vector must be compared
   */
  bool Look(const Question& query, const float* projected, const SearchPlan& plan, BestMatches* whole) const {
    for (size_t turn = 0; turn < plan.looks.size(); turn++) {
      const size_t wanted = std::min<size_t>(linked_, plan.looks[turn]);
      const std::vector<Near> near = Walk(*graph_, projected).Run(wanted, wanted);
      BestMatches best(plan.k, -std::numeric_limits<double>::infinity());
      double least = -std::numeric_limits<double>::infinity();
      for (size_t i = 0; i < near.size(); i++) {
        if (i == plan.compared && best.kept().size() >= plan.k) least = best.kept().back().similarity - plan.error;
        if (1 - near[i].first < least) break;
        const size_t point = graph_->points().getExternalLabel(near[i].second);
        if (point < id_of_point_.size()) OfferOne(query, id_of_point_[point], plan, &best);
      }
      *whole = best;
      if (near.size() >= linked_) return true;
      float last = std::numeric_limits<float>::infinity();
      if (near.size() >= wanted && !near.empty()) last = 1 - near.back().first;
      if (last < plan.min_similarity - plan.error) return true;
      if (best.kept().size() < plan.k) {
        // The filter removes so many results that even the widest walk would not find enough.
        if (static_cast<double>(best.kept().size()) * plan.looks.back() < static_cast<double>(plan.k) * plan.looks[turn]) return false;
        continue;
      }
      if (turn >= plan.margins.size() || best.kept().back().similarity - last >= plan.margins[turn]) return true;
    }
    return false;
  }

  const size_t dimensions_;
  const uint32_t block_bits_;
  bool is_changing_ = false;
  std::vector<Block> blocks_;
  /** The id of the vector at each position. */
  std::vector<uint32_t> ids_;
  std::atomic<size_t> size_{0};
  /** The position of each id's vector. */
  std::vector<uint32_t> places_;
  std::vector<Label> labels_;
  /** Kinds and families. */
  Texts texts_;
  size_t name_bytes_ = 0;
  std::unordered_set<uint32_t> pending_;
  std::shared_ptr<Graph> graph_;
  /** The id of each point's vector, by the point's label. */
  std::vector<uint32_t> id_of_point_;
  size_t linked_ = 0;
};

}  // namespace
