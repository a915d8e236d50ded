/**
 * Writes a graph to a file again and again while the graph's own thread removes and searches points, as
 * native/graph.cc does, but without Node. For ThreadSanitizer, which reports memory that two threads use at once.
 * With the argument "careless" the writer reads the marks of removed points themselves instead of a copy, and
 * ThreadSanitizer must report that.
 */
#include <cstdio>
#include <cstring>
#include <sstream>
#include <string>
#include <thread>
#include <vector>

#include "../../../native/graph/file.h"
#include "../../../native/graph/graph.h"
#include "../../../native/graph/walk.h"

namespace {

constexpr size_t kDimensions = 33;
constexpr uint32_t kPoints = 2000;
constexpr uint32_t kRounds = 20;

uint32_t seed = 1;
float Draw() { return static_cast<float>((seed = seed * 1664525 + 1013904223) >> 8) / (1 << 23) - 1; }

std::vector<float> DrawVector() {
  std::vector<float> vector(kDimensions);
  for (float& number : vector) number = Draw();
  return vector;
}

[[noreturn]] void Fail(const char* what) {
  std::fprintf(stderr, "%s\n", what);
  std::exit(3);
}

/** Whether the graph refuses to add a point. */
bool IsStill(Graph* graph, const std::vector<float>& vector) {
  try {
    graph->Add(vector.data(), UINT32_MAX);
    return false;
  } catch (const std::runtime_error&) {
    return true;
  }
}

}  // namespace

int main(int count, char** arguments) {
  const bool is_careless = count > 1 && std::strcmp(arguments[1], "careless") == 0;
  Graph graph(kDimensions, kPoints + kRounds, 8, 32, 1);
  for (uint32_t label = 0; label < kPoints; label++) graph.Add(DrawVector().data(), label);
  uint32_t removed = 0;
  for (uint32_t round = 0; round < kRounds; round++) {
    const std::vector<float> query = DrawVector();
    const Marks marks = graph.removed();
    const uint32_t before = removed;
    std::stringstream file;
    graph.BeginWriting();
    std::thread writer([&] { WriteGraphBytes(graph, is_careless ? graph.removed() : marks, file); });
    for (uint32_t n = 0; n < kPoints / kRounds / 2; n++) {
      graph.Remove(removed++);
      for (const Near& near : Walk(graph, query.data()).Run(10, 40)) {
        if (graph.points().getExternalLabel(near.second) < removed) Fail("a removed point was found");
      }
    }
    if (!IsStill(&graph, query)) Fail("a point was added to a graph that is being written");
    writer.join();
    graph.EndWriting();
    graph.Add(query.data(), kPoints + round);
    if (is_careless) continue;
    const std::string bytes = file.str();
    const std::unique_ptr<Graph> read = GraphReader(file, bytes.size()).Read(kDimensions);
    for (uint32_t id = 0; id < read->count(); id++) {
      const bool was_removed = read->points().getExternalLabel(id) < before;
      if (read->IsRemoved(id) != was_removed) Fail("the file differs from the graph at the beginning of the write");
    }
  }
  return 0;
}
