/**
 * A graph: points with rows, linked by hnswlib, and the marks of removed points. It belongs to one thread. Another
 * thread may read its points to write them to a file: from BeginWriting to EndWriting the points do not change. They
 * are neither added nor moved, and removals are marked separately; the file gets a copy of the earlier marks.
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

/** A larger number is a mistake, and the library would allocate memory for it at once. */
constexpr uint32_t kDimensionsMax = 1 << 16;
constexpr uint32_t kCapacityMax = 1 << 24;
constexpr uint32_t kLinksMax = 1 << 10;

/** The removed points, by their index in the graph. */
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

  /**
   * @throws std::range_error for numbers that are not valid in a vector
   */
  void Add(const float* vector, uint32_t label) {
    CheckStill();
    // The library would move the point with this label, and while it moves a point, it reads beyond the points' links.
    if (points_.label_lookup_.count(label) != 0) throw std::runtime_error("the label is taken");
    points_.addPoint(space_.MakeRow(vector).data(), label);
  }

  void Resize(size_t capacity) {
    CheckStill();
    if (capacity > removed_.size()) removed_.resize(capacity);
    points_.resizeIndex(capacity);
  }

  /**
   * The point is not found any more, but is still visited and linked. The library's own marks are not used: they are
   * part of the data that is being written, and the library links a new point to nothing if all points around it are
   * marked.
   */
  void Remove(uint32_t label) {
    const auto found = points_.label_lookup_.find(label);
    if (found == points_.label_lookup_.end()) throw std::runtime_error("there is no such label");
    if (removed_[found->second]) throw std::runtime_error("the label is removed already");
    removed_[found->second] = true;
  }

  /** No point is added until EndWriting was called as often as BeginWriting. */
  void BeginWriting() { writers_++; }
  void EndWriting() { writers_--; }

  /** For the code that reads a file into the graph. */
  Points& unread_points() { return points_; }
  void MarkRead(tableint id) { removed_[id] = true; }

 private:
  void CheckStill() const {
    if (writers_ > 0) throw std::runtime_error("the graph is being written");
  }

  // The order matters: the points keep the address of the space.
  RowSpace space_;
  Points points_;
  Marks removed_;
  size_t writers_ = 0;
};

}  // namespace
