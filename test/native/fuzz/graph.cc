/**
 * Fuzzes native/graph with files that contain a graph or random bytes (libFuzzer; run.mjs). A file that native/graph
 * accepts can be searched, changed, written and read again: each search ends, and its results exist.
 */
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <exception>
#include <memory>
#include <sstream>
#include <string>
#include <vector>

#include "../../../native/graph/file.h"
#include "../../../native/graph/graph.h"
#include "../../../native/graph/walk.h"

namespace {

void Expect(bool holds, const char* what) {
  if (holds) return;
  std::fprintf(stderr, "%s\n", what);
  std::abort();
}

std::unique_ptr<Graph> Read(const std::string& bytes, size_t dimensions) {
  std::istringstream in(bytes);
  try {
    return GraphReader(in, bytes.size()).Read(dimensions);
  } catch (const std::exception&) {
    return nullptr;
  }
}

void LookAround(const Graph& graph, const std::vector<float>& vector) {
  const std::vector<Near> near = Walk(graph, vector.data()).Run(20, 30);
  Expect(near.size() <= 20, "more results than requested");
  for (size_t i = 0; i < near.size(); i++) {
    Expect(near[i].second < graph.count() && !graph.IsRemoved(near[i].second), "a result that does not exist");
    Expect(i == 0 || near[i - 1].first <= near[i].first, "the results are not in order");
  }
}

}  // namespace

/** The first byte chooses the number of dimensions, the second the start of a walk; the rest is the file. */
extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size < 2) return 0;
  const size_t dimensions = 1 + data[0] % 70;
  std::vector<float> vector(dimensions);
  for (size_t i = 0; i < dimensions; i++) vector[i] = static_cast<float>((data[1] * (i + 1)) % 31) - 15;
  const std::unique_ptr<Graph> graph = Read(std::string(reinterpret_cast<const char*>(data + 2), size - 2), dimensions);
  if (graph == nullptr) return 0;
  LookAround(*graph, vector);
  const size_t count = graph->count();
  graph->Resize(count + 3);
  for (uint32_t n = 0; n < 3; n++) {
    try {
      graph->Add(vector.data(), UINT32_MAX - n);
    } catch (const std::exception&) {
      // Another point may have this label.
    }
    LookAround(*graph, vector);
  }
  if (graph->count() > 0) {
    const tableint id = data[1] % graph->count();
    const uint32_t label = static_cast<uint32_t>(graph->points().getExternalLabel(id));
    if (!graph->IsRemoved(id)) graph->Remove(label);
    Expect(graph->IsRemoved(id), "another point was removed");
  }
  LookAround(*graph, vector);
  std::ostringstream out;
  WriteGraphBytes(*graph, graph->removed(), out);
  const std::unique_ptr<Graph> again = Read(out.str(), dimensions);
  Expect(again != nullptr && again->count() == graph->count(), "the written file cannot be read");
  for (tableint id = 0; id < again->count(); id++) Expect(again->IsRemoved(id) == graph->IsRemoved(id), "other marks");
  LookAround(*again, vector);
  return 0;
}
