/**
 * Finds the points of a graph that are nearest to a vector. Runs on the graph's thread, or on a thread that has entered
 * the gate of a shared index.
 */
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <limits>
#include <utility>
#include <vector>

#include "graph.h"
#include "rows.h"

namespace {

constexpr size_t kLineBytes = 64;

inline void Prefetch(const char* from, size_t bytes) {
  for (size_t at = 0; at < bytes + kLineBytes - 1; at += kLineBytes) __builtin_prefetch(from + at);
}

/** The distance comes first, so that pairs sort by it. */
using Near = std::pair<float, tableint>;

class Walk {
 public:
  /**
   * Prepares a search for points near the vector.
   * @throws std::range_error for numbers that are not valid in a vector
   */
  Walk(const Graph& graph, const float* vector)
      : graph_(graph), points_(graph.points()), steps_(graph.space().steps()), row_bytes_(graph.space().row_bytes()) {
    scale_ = graph.space().MakeQuery(vector, &query_);
    for (const int8_t number : query_) excess_ += kOffset * number;
  }

  /**
   * Finds the nearest points that are not marked as removed.
   * @returns at most `wanted` points, nearest first, of the `ef` candidates that the search keeps
   */
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

  /**
   * Walks from the top level down to the level above the lowest. Each step goes to a nearer neighbour.
   * @returns the last point
   */
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
          // The loop ends, because the distance decreases in each step, even if a number is not finite.
          if (!(other < distance)) continue;
          distance = other;
          at = ids[i];
          has_moved = true;
        }
      }
    }
    return at;
  }

  /** Searches the lowest level. @returns the candidates as a heap whose first element is the farthest */
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
      if (graph_.IsRemoved(id)) return;
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

  const Graph& graph_;
  const Points& points_;
  const size_t steps_;
  const size_t row_bytes_;
  std::vector<int8_t> query_;
  float scale_;
  /** kOffset times the sum of the query's numbers. Subtracted from each product, because rows have kOffset added. */
  int32_t excess_ = 0;
};

}  // namespace
