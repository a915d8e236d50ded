/**
 * A graph: points, which have rows and are linked by hnswlib, and the marks of removed points. A graph belongs to one
 * thread. Another thread may read the points between BeginWriting and EndWriting, to write them to a file. Meanwhile no
 * point is added or moved. Points may be marked as removed, because the file gets a copy of the marks made at
 * BeginWriting.
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

/** Larger numbers are rejected, because the library allocates the memory for them at once. */
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
   * Adds a point.
   * @throws std::range_error for numbers that are not valid in a vector
   */
  void Add(const float* vector, uint32_t label) {
    CheckStill();
    // For a label that exists, the library would move that label's point. While it moves a point, it reads beyond the
    // memory of the links.
    if (points_.label_lookup_.count(label) != 0) throw std::runtime_error("a point with this label exists already");
    points_.addPoint(space_.MakeRow(vector).data(), label);
  }

  void Resize(size_t capacity) {
    CheckStill();
    if (capacity > removed_.size()) removed_.resize(capacity);
    points_.resizeIndex(capacity);
  }

  /**
   * Marks a point, so that searches no longer find it. They still visit it, and new points are still linked to it. The
   * library's own marks are not used, for two reasons: they are in the data that another thread may be writing to a
   * file, and the library gives a new point no links if all points around it are marked.
   */
  void Remove(uint32_t label) {
    const auto found = points_.label_lookup_.find(label);
    if (found == points_.label_lookup_.end()) throw std::runtime_error("no point has this label");
    if (removed_[found->second]) throw std::runtime_error("the point is marked as removed already");
    removed_[found->second] = true;
  }

  /** Adding a point and resizing throw until EndWriting has been called as often as BeginWriting. */
  void BeginWriting() { writers_++; }
  void EndWriting() { writers_--; }

  /** Only for the code that reads a file into the graph. */
  Points& unread_points() { return points_; }
  void MarkRead(tableint id) { removed_[id] = true; }

 private:
  void CheckStill() const {
    if (writers_ > 0) throw std::runtime_error("the graph is being written");
  }

  // `space_` must come first, because `points_` keeps its address.
  RowSpace space_;
  Points points_;
  Marks removed_;
  size_t writers_ = 0;
};

}  // namespace
