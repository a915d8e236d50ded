/**
 * Graphs of hnswlib over vectors of few bits a number, as `graph-engine.ts` describes them. hnswlib links points; the walk and
 * the file are our own. The work is in `graph/`, one noun each; this file has what JavaScript calls. Plain Node-API. A graph belongs
 * to one thread; only files are written and read on another, and `graph/graph.h` says what holds meanwhile.
 */
#include <node_api.h>

#include <cstdint>
#include <exception>
#include <memory>
#include <stdexcept>
#include <string>
#include <utility>

#include "arguments.h"
#include "graph/file.h"
#include "graph/graph.h"
#include "graph/rows.h"
#include "graph/walk.h"

namespace {

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
  if (length == graph.space().dimensions()) return true;
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
  } catch (const std::range_error& error) {
    napi_throw_range_error(env, nullptr, error.what());
  } catch (const std::exception& error) {
    napi_throw_error(env, nullptr, error.what());
  }
  return false;
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
  const bool is_made = Attempt(env, [&] { graph.reset(new Graph(dimensions, capacity, links, ef, seed)); });
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
  Attempt(env, [&] { graph->Add(vector, label); });
  return nullptr;
}

/** markRemoved(graph, label) */
napi_value MarkRemoved(napi_env env, napi_callback_info info) {
  napi_value arguments[2];
  uint32_t label;
  if (!ReadArguments(env, info, 2, arguments)) return nullptr;
  Graph* graph = ReadGraphHandle(env, arguments[0]);
  if (graph == nullptr || !ReadWhole(env, arguments[1], 0, &label)) return nullptr;
  Attempt(env, [&] { graph->Remove(label); });
  return nullptr;
}

/** resizeGraph(graph, capacity) */
napi_value ResizeGraph(napi_env env, napi_callback_info info) {
  napi_value arguments[2];
  uint32_t capacity;
  if (!ReadArguments(env, info, 2, arguments)) return nullptr;
  Graph* graph = ReadGraphHandle(env, arguments[0]);
  if (graph == nullptr || !ReadBounded(env, arguments[1], 1, kCapacityMax, &capacity)) return nullptr;
  Attempt(env, [&] { graph->Resize(capacity); });
  return nullptr;
}

/** countPoints(graph) */
napi_value CountPoints(napi_env env, napi_callback_info info) {
  napi_value arguments[1];
  if (!ReadArguments(env, info, 1, arguments)) return nullptr;
  Graph* graph = ReadGraphHandle(env, arguments[0]);
  return graph == nullptr ? nullptr : MakeNumber(env, static_cast<double>(graph->count()));
}

/** capacityOf(graph) */
napi_value CapacityOf(napi_env env, napi_callback_info info) {
  napi_value arguments[1];
  if (!ReadArguments(env, info, 1, arguments)) return nullptr;
  Graph* graph = ReadGraphHandle(env, arguments[0]);
  return graph == nullptr ? nullptr : MakeNumber(env, static_cast<double>(graph->capacity()));
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
      labels[count] = static_cast<uint32_t>(graph->points().getExternalLabel(id));
      similarities[count++] = 1 - distance;
    }
  });
  return is_done ? MakeNumber(env, static_cast<double>(count)) : nullptr;
}

/** A file that is written or read beside the thread. */
struct FileWork {
  std::string file;
  /** Written: the graph of the thread, which `handle` keeps, and what was removed from it until then. */
  Graph* written = nullptr;
  Marks removed;
  napi_ref handle = nullptr;
  /** Read: one of its own, of so many dimensions. */
  size_t dimensions = 0;
  std::unique_ptr<Graph> read;
  std::string error;
  napi_deferred deferred = nullptr;
  napi_async_work work = nullptr;
};

void WorkOnFile(napi_env, void* data) {
  auto& work = *static_cast<FileWork*>(data);
  try {
    if (work.written != nullptr) WriteGraphFile(*work.written, work.removed, work.file);
    else work.read = ReadGraphFile(work.dimensions, work.file);
  } catch (const std::exception& error) {
    work.error = error.what();
    if (work.error.empty()) work.error = "the file cannot be used";
  }
}

void FinishFile(napi_env env, napi_status, void* data) {
  std::unique_ptr<FileWork> work(static_cast<FileWork*>(data));
  if (work->written != nullptr) work->written->EndWriting();
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
  if (work->written != nullptr) work->written->BeginWriting();
  // From here on FinishFile's, which comes on this thread.
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
  const bool is_copied = Attempt(env, [&] { work->removed = work->written->removed(); });
  return is_copied ? StartFile(env, std::move(work)) : nullptr;
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
  work->dimensions = dimensions;
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
