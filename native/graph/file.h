/**
 * Writes and reads a graph in hnswlib's file format: a head; for each point its neighbours on the lowest level, its row
 * and its label; then for each point its neighbours on the higher levels. Runs on a pool thread, not on the thread that
 * owns the graph. The reader checks the content of a file completely, because searches follow links without checks.
 */
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <fstream>
#include <istream>
#include <memory>
#include <ostream>
#include <stdexcept>
#include <string>
#include <vector>

#include "graph.h"

namespace {

/** A removed point is marked by a bit in its list of neighbours on the lowest level, in the byte after the length. */
constexpr size_t kMarkAt = 2;
constexpr uint8_t kMark = 1;

/** Maximum number of levels of a point. hnswlib assigns far fewer, even in the largest allowed index. */
constexpr size_t kFloorsMax = 64;
/**
 * A graph that was read has room for twice the number of its points, and at least for this number. Its capacity is
 * never larger than the capacity in the file.
 */
constexpr size_t kRoomMin = 1 << 12;
/** Seed for the levels of points that are added after reading: the default seed of the generator. */
constexpr size_t kSeedOfRead = 1;
/** Number of bytes that one write call passes on. */
constexpr size_t kChunkBytes = 1 << 18;

/** The beginning of the file. There are no gaps between the numbers. */
struct FileHead {
  uint64_t ground_at;
  uint64_t capacity;
  uint64_t count;
  uint64_t point_bytes;
  uint64_t label_at;
  uint64_t row_at;
  int32_t top;
  uint32_t entry;
  uint64_t links;
  uint64_t ground_links;
  uint64_t links_again;
  double level_factor;
  uint64_t ef;
};
static_assert(sizeof(FileHead) == 96 && sizeof(size_t) == 8, "the file's head has no gaps");

inline void WriteGraphBytes(const Graph& graph, const Marks& removed, std::ostream& out) {
  const Points& points = graph.points();
  const size_t count = points.cur_element_count;
  const FileHead head = {
      points.offsetLevel0_, points.max_elements_, count,
      points.size_data_per_element_, points.label_offset_, points.offsetData_,
      points.maxlevel_, points.enterpoint_node_, points.maxM_,
      points.maxM0_, points.M_, points.mult_,
      points.ef_construction_,
  };
  out.write(reinterpret_cast<const char*>(&head), sizeof(head));
  const size_t size = points.size_data_per_element_;
  const size_t step = std::max<size_t>(1, kChunkBytes / size);
  std::vector<char> chunk;
  for (size_t from = 0; from < count; from += step) {
    const size_t some = std::min(step, count - from);
    const char* start = points.data_level0_memory_ + from * size;
    chunk.assign(start, start + some * size);
    for (size_t i = 0; i < some; i++) {
      if (removed[from + i]) chunk[i * size + kMarkAt] |= kMark;
    }
    out.write(chunk.data(), static_cast<std::streamsize>(chunk.size()));
  }
  for (size_t i = 0; i < count; i++) {
    const size_t floors = static_cast<size_t>(points.element_levels_[i]);
    const uint32_t bytes = static_cast<uint32_t>(floors * points.size_links_per_element_);
    out.write(reinterpret_cast<const char*>(&bytes), sizeof(bytes));
    if (bytes > 0) out.write(points.linkLists_[i], bytes);
  }
}

/** Reads one graph. */
class GraphReader {
 public:
  GraphReader(std::istream& in, size_t bytes) : in_(in), left_(bytes) {}

  std::unique_ptr<Graph> Read(size_t dimensions) {
    FileHead head;
    Take(&head, sizeof(head));
    std::unique_ptr<Graph> graph = MakeGraph(head, dimensions);
    Points& points = graph->unread_points();
    Take(points.data_level0_memory_, head.count * points.size_data_per_element_);
    // If the graph is destroyed after this assignment, the library frees the memory of each point's levels.
    points.cur_element_count = head.count;
    for (tableint id = 0; id < head.count; id++) ReadFloors(points, id);
    if (left_ != 0) Refuse();
    for (tableint id = 0; id < head.count; id++) ReadPoint(*graph, points, id);
    if (head.count > 0) {
      if (head.entry >= head.count || head.top != points.element_levels_[head.entry]) Refuse();
      points.enterpoint_node_ = head.entry;
      points.maxlevel_ = head.top;
    }
    return graph;
  }

 private:
  [[noreturn]] static void Refuse() { throw std::runtime_error("the file is damaged, or does not contain a graph"); }

  void Take(void* into, size_t bytes) {
    if (bytes > left_) Refuse();
    left_ -= bytes;
    if (bytes > 0 && !in_.read(static_cast<char*>(into), static_cast<std::streamsize>(bytes))) Refuse();
  }

  /** Makes an empty graph with the head's parameters. Refuses a head with more points than the file can contain. */
  std::unique_ptr<Graph> MakeGraph(const FileHead& head, size_t dimensions) const {
    if (head.capacity == 0 || head.capacity > kCapacityMax || head.count > head.capacity) Refuse();
    if (head.links < 2 || head.links > kLinksMax || head.links_again != head.links) Refuse();
    if (head.ef == 0 || head.ef > UINT32_MAX || head.ground_at != 0 || head.ground_links != 2 * head.links) Refuse();
    const uint64_t row_at = (head.ground_links + 1) * sizeof(tableint);
    const uint64_t label_at = row_at + RowSpace(dimensions).get_data_size();
    const uint64_t point_bytes = label_at + sizeof(hnswlib::labeltype);
    if (head.row_at != row_at || head.label_at != label_at || head.point_bytes != point_bytes) {
      throw std::runtime_error("the graph was made from vectors with another number of dimensions");
    }
    if (head.count > left_ / point_bytes) Refuse();
    const size_t capacity = std::min<size_t>(head.capacity, std::max<size_t>(kRoomMin, 2 * head.count));
    return std::unique_ptr<Graph>(new Graph(dimensions, capacity, head.links, head.ef, kSeedOfRead));
  }

  void ReadFloors(Points& points, tableint id) {
    uint32_t bytes;
    Take(&bytes, sizeof(bytes));
    const size_t floors = bytes / points.size_links_per_element_;
    if (bytes % points.size_links_per_element_ != 0 || floors > kFloorsMax || bytes > left_) Refuse();
    if (bytes == 0) return;
    // The library frees this memory.
    points.linkLists_[id] = static_cast<char*>(malloc(bytes));
    if (points.linkLists_[id] == nullptr) throw std::bad_alloc();
    points.element_levels_[id] = static_cast<int>(floors);
    Take(points.linkLists_[id], bytes);
  }

  void ReadPoint(Graph& graph, Points& points, tableint id) {
    auto* ground = reinterpret_cast<uint8_t*>(points.get_linklist0(id));
    if ((ground[kMarkAt] & kMark) != 0) graph.MarkRead(id);
    memset(ground + kMarkAt, 0, sizeof(hnswlib::linklistsizeint) - kMarkAt);
    CheckList(points, points.get_linklist0(id), points.maxM0_, 0);
    for (int floor = 1; floor <= points.element_levels_[id]; floor++) {
      CheckList(points, points.get_linklist(id, floor), points.maxM_, floor);
    }
    if (!graph.space().IsRow(points.getDataByInternalId(id))) Refuse();
    const hnswlib::labeltype label = points.getExternalLabel(id);
    if (label > UINT32_MAX || !points.label_lookup_.emplace(label, id).second) Refuse();
  }

  /** Checks that the neighbours exist, and exist on this level. */
  static void CheckList(const Points& points, hnswlib::linklistsizeint* list, size_t most, int floor) {
    const size_t size = points.getListCount(list);
    if (size > most) Refuse();
    const tableint* ids = list + 1;
    for (size_t i = 0; i < size; i++) {
      if (ids[i] >= points.cur_element_count || points.element_levels_[ids[i]] < floor) Refuse();
    }
  }

  std::istream& in_;
  size_t left_;
};

inline void WriteGraphFile(const Graph& graph, const Marks& removed, const std::string& path) {
  std::ofstream out(path, std::ios::binary);
  WriteGraphBytes(graph, removed, out);
  // If the disk is full, this call reports the error at the latest.
  out.close();
  if (!out) throw std::runtime_error("the file cannot be written");
}

inline std::unique_ptr<Graph> ReadGraphFile(size_t dimensions, const std::string& path) {
  std::ifstream in(path, std::ios::binary | std::ios::ate);
  const std::streamoff bytes = in ? static_cast<std::streamoff>(in.tellg()) : -1;
  if (bytes < 0 || !in.seekg(0)) throw std::runtime_error("the file cannot be read");
  return GraphReader(in, static_cast<size_t>(bytes)).Read(dimensions);
}

}  // namespace
