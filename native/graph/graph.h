/**
 * A graph: points with rows, linked by hnswlib, and which of them are removed. It belongs to one thread. Another thread may read
 * its points while it writes them to a file. From BeginWriting to EndWriting nothing changes them: points are
 * neither added nor moved, and removals are noted beside them. The file gets a copy of the removals from before.
 */
#pragma once

#include <cstddef>
#include <cstdint>
#include <limits>
#include <memory>
#include <stdexcept>
#include <vector>

#include "hnswlib.h"
#include "rows.h"

namespace {

/** What is beyond comes from a mistake: the library would take memory for all of it at once. */
constexpr uint32_t kDimensionsMax = 1 << 16;
constexpr uint32_t kCapacityMax = 1 << 24;
constexpr uint32_t kLinksMax = 1 << 10;

/** Which points are removed, by their place in the graph. */
using Marks = std::vector<bool>;

class Graph {
 public:
  Graph(size_t dimensions, size_t capacity, size_t links, size_t ef, size_t seed)
      : space_(dimensions), points_(&space_, capacity, links, ef, seed), removed_(capacity) {}

  const RowSpace& space() const { return space_; }
  const Points& points() const { return points_; }
  const Marks& removed() const { return removed_; }
  bool IsRemoved(tableint id) const { return removed_[id]; }
  size_t count() const { return points_.cur_element_count; }
  size_t capacity() const { return points_.max_elements_; }

  /** @throws std::range_error for numbers that no vector holds */
  void Add(const float* vector, uint32_t label) {
    CheckStill();
    // The library would move the point that has it, and reads beyond the points' links as it does.
    if (points_.label_lookup_.count(label) != 0) throw std::runtime_error("the label is taken");
    points_.addPoint(space_.MakeRow(vector).data(), label);
  }

  void Resize(size_t capacity) {
    CheckStill();
    if (capacity > removed_.size()) removed_.resize(capacity);
    points_.resizeIndex(capacity);
  }

  /**
   * Found no more from now on; walked over and linked to as ever. The library's own marks are not used: they lie among what
   * is written, and it links a point to nothing where all around it are marked.
   */
  void Remove(uint32_t label) {
    const auto found = points_.label_lookup_.find(label);
    if (found == points_.label_lookup_.end()) throw std::runtime_error("there is no such label");
    if (removed_[found->second]) throw std::runtime_error("the label is removed already");
    removed_[found->second] = true;
  }

  /** For as many as there are to end: until the last of them nothing is added. */
  void BeginWriting() { writers_++; }
  void EndWriting() { writers_--; }

  /** For who reads a file into it. */
  Points& unread_points() { return points_; }
  void MarkRead(tableint id) { removed_[id] = true; }

 private:
  void CheckStill() const {
    if (writers_ > 0) throw std::runtime_error("the graph is being written");
  }

  // In this order: the points keep the space's address.
  RowSpace space_;
  Points points_;
  Marks removed_;
  size_t writers_ = 0;
};

}  // namespace
