/**
 * Graphs of vectors with few bits per number (`graph-engine.ts` documents the functions). hnswlib links the points; the
 * search and the file format are our own code. The algorithms are in the headers of `graph/`; this file has only the
 * functions that JavaScript calls. Uses only Node-API. A graph belongs to one thread. A separate thread writes and
 * reads files; `graph/graph.h` says which changes are forbidden meanwhile. Other threads search a graph as part of a
 * shared index (`graph/shared-index.h`).
 */
#include <node_api.h>

#include <algorithm>
#include <cstdint>
#include <exception>
#include <memory>
#include <stdexcept>
#include <string>
#include <utility>

#include "arguments.h"
#include "graph/catalog.h"
#include "graph/file.h"
#include "graph/graph.h"
#include "graph/rows.h"
#include "graph/shared-index.h"
#include "graph/walk.h"

namespace {

constexpr napi_type_tag kGraphTag = {0x756e646572737475, 0x64792d6772617068};

constexpr napi_type_tag kCatalogTag = {0x756e646572737475, 0x64792d636174616c};
constexpr napi_type_tag kSharedTag = {0x756e646572737475, 0x64792d736861726e};

/** Reads the content of a handle with this tag. Throws in JavaScript and returns null for any other value. */
template <typename Held>
const std::shared_ptr<Held>* ReadHandle(napi_env env, napi_value value, const napi_type_tag& tag, const char* expected) {
  bool is_one = false;
  void* held = nullptr;
  if (napi_check_object_type_tag(env, value, &tag, &is_one) != napi_ok || !is_one ||
      napi_get_value_external(env, value, &held) != napi_ok) {
    napi_throw_type_error(env, nullptr, expected);
    return nullptr;
  }
  return static_cast<const std::shared_ptr<Held>*>(held);
}

/** Creates a handle, which keeps a reference to its content. */
template <typename Held>
napi_value WrapHandle(napi_env env, std::shared_ptr<Held> held, const napi_type_tag& tag) {
  napi_value value;
  auto kept = std::make_unique<std::shared_ptr<Held>>(std::move(held));
  const auto free = [](napi_env, void* data, void*) { delete static_cast<std::shared_ptr<Held>*>(data); };
  if (napi_create_external(env, kept.get(), free, nullptr, &value) != napi_ok) return nullptr;
  kept.release();
  return napi_type_tag_object(env, value, &tag) == napi_ok ? value : nullptr;
}

const std::shared_ptr<Graph>* ReadGraphOwner(napi_env env, napi_value value) {
  return ReadHandle<Graph>(env, value, kGraphTag, "a graph is expected");
}

Graph* ReadGraphHandle(napi_env env, napi_value value) {
  const std::shared_ptr<Graph>* graph = ReadGraphOwner(env, value);
  return graph == nullptr ? nullptr : graph->get();
}

const std::shared_ptr<Catalog>* ReadCatalog(napi_env env, napi_value value) {
  return ReadHandle<Catalog>(env, value, kCatalogTag, "a catalog is expected");
}

SharedIndex* ReadShared(napi_env env, napi_value value) {
  const std::shared_ptr<SharedIndex>* index = ReadHandle<SharedIndex>(env, value, kSharedTag, "a shared index is expected");
  return index == nullptr ? nullptr : index->get();
}

bool ReadBounded(napi_env env, napi_value value, uint32_t least, uint32_t most, uint32_t* into) {
  if (!ReadWhole(env, value, least, into)) return false;
  if (*into <= most) return true;
  napi_throw_range_error(env, nullptr, "the number is too large");
  return false;
}

/** Reads a vector, which must have as many dimensions as the graph. */
bool ReadVector(napi_env env, const Graph& graph, napi_value value, const float** vector) {
  size_t length;
  if (!ReadNumbers(env, value, napi_float32_array, vector, &length)) return false;
  if (length == graph.space().dimensions()) return true;
  napi_throw_range_error(env, nullptr, "the vector has another number of dimensions");
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

/** Reads a text as UTF-16, so that texts that differ only in lone surrogates stay different. */
bool ReadWideText(napi_env env, napi_value value, std::u16string* into) {
  size_t length = 0;
  if (napi_get_value_string_utf16(env, value, nullptr, 0, &length) != napi_ok) {
    napi_throw_type_error(env, nullptr, "a text is expected");
    return false;
  }
  into->resize(length + 1);
  if (napi_get_value_string_utf16(env, value, &(*into)[0], length + 1, &length) != napi_ok) return false;
  into->resize(length);
  into->shrink_to_fit();
  return true;
}

bool ReadDouble(napi_env env, napi_value value, double* into) {
  if (napi_get_value_double(env, value, into) == napi_ok) return true;
  napi_throw_type_error(env, nullptr, "a number is expected");
  return false;
}

bool IsNull(napi_env env, napi_value value) {
  napi_valuetype type;
  return napi_typeof(env, value, &type) == napi_ok && type == napi_null;
}

napi_value WrapGraph(napi_env env, std::unique_ptr<Graph> graph) {
  return WrapHandle<Graph>(env, std::move(graph), kGraphTag);
}

/** Runs `work`; exceptions become JavaScript exceptions. */
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
    napi_throw_range_error(env, nullptr, "the list for the results is too short");
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

/** A file that is written or read on another thread. */
struct FileWork {
  std::string file;
  /** For a write: the graph, which `handle` keeps alive, and the points that were removed before the write began. */
  Graph* written = nullptr;
  Marks removed;
  napi_ref handle = nullptr;
  /** For a read: the new graph and its dimensions. */
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
    napi_throw_error(env, nullptr, "the work on the file could not be started");
    return nullptr;
  }
  if (work->written != nullptr) work->written->BeginWriting();
  // FinishFile owns `work` from here on and runs on this thread.
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

// ---- Shared indexes: functions with which one thread creates and changes them ----

void CloseCatalogOfThread(void* data) {
  std::unique_ptr<std::shared_ptr<Catalog>> catalog(static_cast<std::shared_ptr<Catalog>*>(data));
  TheRegistry().Close(*catalog);
}

/** openCatalog(key) */
napi_value OpenCatalog(napi_env env, napi_callback_info info) {
  napi_value arguments[1];
  auto catalog = std::make_shared<Catalog>();
  if (!ReadArguments(env, info, 1, arguments) || !ReadText(env, arguments[0], &catalog->key)) return nullptr;
  auto kept = std::make_unique<std::shared_ptr<Catalog>>(catalog);
  // The hook also runs if the thread is terminated. An index must not be searched after the thread that changes it has
  // ended.
  if (napi_add_env_cleanup_hook(env, CloseCatalogOfThread, kept.get()) != napi_ok) return nullptr;
  kept.release();
  const bool is_open = Attempt(env, [&] { TheRegistry().Open(catalog); });
  return is_open ? WrapHandle<Catalog>(env, catalog, kCatalogTag) : nullptr;
}

/** closeCatalog(catalog) */
napi_value CloseCatalog(napi_env env, napi_callback_info info) {
  napi_value arguments[1];
  if (!ReadArguments(env, info, 1, arguments)) return nullptr;
  const std::shared_ptr<Catalog>* catalog = ReadCatalog(env, arguments[0]);
  if (catalog != nullptr) Attempt(env, [&] { TheRegistry().Close(*catalog); });
  return nullptr;
}

/** serveCatalog(catalog, vectorsId) */
napi_value ServeCatalog(napi_env env, napi_callback_info info) {
  napi_value arguments[2];
  std::string vectors_id;
  if (!ReadArguments(env, info, 2, arguments)) return nullptr;
  const std::shared_ptr<Catalog>* catalog = ReadCatalog(env, arguments[0]);
  if (catalog == nullptr || !ReadText(env, arguments[1], &vectors_id)) return nullptr;
  Attempt(env, [&] { TheRegistry().Change([&] { (*catalog)->vectors_id = vectors_id; }); });
  return nullptr;
}

/** shareIndex(catalog, name, group, dimensions, blockBits) */
napi_value ShareIndex(napi_env env, napi_callback_info info) {
  napi_value arguments[5];
  std::string name;
  std::string group;
  uint32_t dimensions;
  uint32_t block_bits;
  if (!ReadArguments(env, info, 5, arguments)) return nullptr;
  const std::shared_ptr<Catalog>* catalog = ReadCatalog(env, arguments[0]);
  if (catalog == nullptr || !ReadText(env, arguments[1], &name) || !ReadText(env, arguments[2], &group) ||
      !ReadBounded(env, arguments[3], 1, kDimensionsMax, &dimensions) ||
      !ReadBounded(env, arguments[4], 0, kBlockBitsMax, &block_bits)) {
    return nullptr;
  }
  std::shared_ptr<SharedIndex> index;
  const bool is_made = Attempt(env, [&] {
    index = std::make_shared<SharedIndex>(dimensions, block_bits);
    TheRegistry().Change([&] {
      if (!(*catalog)->indexes.emplace(name, index).second) throw std::runtime_error("an index with this name exists already");
      if (!group.empty()) (*catalog)->groups[group].push_back(name);
    });
  });
  return is_made ? WrapHandle<SharedIndex>(env, index, kSharedTag) : nullptr;
}

/** Calls `change` with the shared index that `handle` refers to. */
template <typename Change>
napi_value ChangeShared(napi_env env, napi_value handle, Change change) {
  SharedIndex* index = ReadShared(env, handle);
  if (index != nullptr) Attempt(env, [&] { change(index); });
  return nullptr;
}

/** Calls a method of the shared index that the first argument refers to. */
template <void (SharedIndex::*method)()>
napi_value ChangeIndex(napi_env env, napi_callback_info info) {
  napi_value arguments[1];
  if (!ReadArguments(env, info, 1, arguments)) return nullptr;
  return ChangeShared(env, arguments[0], [](SharedIndex* index) { (index->*method)(); });
}

/** makeVectorBlock(index, number, vectors) */
napi_value MakeBlock(napi_env env, napi_callback_info info) {
  napi_value arguments[3];
  uint32_t number;
  uint32_t vectors;
  if (!ReadArguments(env, info, 3, arguments)) return nullptr;
  SharedIndex* index = ReadShared(env, arguments[0]);
  if (index == nullptr || !ReadWhole(env, arguments[1], 0, &number) || !ReadWhole(env, arguments[2], 1, &vectors)) {
    return nullptr;
  }
  std::shared_ptr<uint8_t> block;
  if (!Attempt(env, [&] { block = index->MakeBlock(number, vectors); })) return nullptr;
  const size_t length = vectors * index->stride();
  auto kept = std::make_unique<std::shared_ptr<uint8_t>>(block);
  const auto free = [](napi_env, void*, void* hint) { delete static_cast<std::shared_ptr<uint8_t>*>(hint); };
  napi_value buffer;
  napi_value array;
  if (napi_create_external_arraybuffer(env, block.get(), length, free, kept.get(), &buffer) != napi_ok) {
    napi_throw_error(env, nullptr, "the memory cannot be passed to JavaScript");
    return nullptr;
  }
  kept.release();
  return napi_create_typedarray(env, napi_uint8_array, length, buffer, 0, &array) == napi_ok ? array : nullptr;
}

/** Calls a method of the shared index that the first argument refers to, with the id in the second argument. */
template <void (SharedIndex::*method)(uint32_t)>
napi_value ChangeId(napi_env env, napi_callback_info info) {
  napi_value arguments[2];
  uint32_t id;
  if (!ReadArguments(env, info, 2, arguments) || !ReadWhole(env, arguments[1], 0, &id)) return nullptr;
  return ChangeShared(env, arguments[0], [id](SharedIndex* index) { (index->*method)(id); });
}

/** takeGraph(index, graph, ids) */
napi_value TakeGraph(napi_env env, napi_callback_info info) {
  napi_value arguments[3];
  const uint32_t* ids;
  size_t count;
  if (!ReadArguments(env, info, 3, arguments)) return nullptr;
  const std::shared_ptr<Graph>* graph = ReadGraphOwner(env, arguments[1]);
  if (graph == nullptr || !ReadNumbers(env, arguments[2], napi_uint32_array, &ids, &count)) return nullptr;
  return ChangeShared(env, arguments[0], [&](SharedIndex* index) { index->TakeGraph(*graph, ids, count); });
}

/** describeVector(index, id, name, kind, family) */
napi_value DescribeVector(napi_env env, napi_callback_info info) {
  napi_value arguments[5];
  uint32_t id;
  std::string name;
  std::u16string kind;
  std::u16string family;
  if (!ReadArguments(env, info, 5, arguments) || !ReadWhole(env, arguments[1], 0, &id) ||
      !ReadText(env, arguments[2], &name) || !ReadWideText(env, arguments[3], &kind) ||
      !ReadWideText(env, arguments[4], &family)) {
    return nullptr;
  }
  return ChangeShared(env, arguments[0], [&](SharedIndex* index) { index->Describe(id, name, kind, family); });
}

/** measureShared(index) */
napi_value MeasureShared(napi_env env, napi_callback_info info) {
  napi_value arguments[1];
  if (!ReadArguments(env, info, 1, arguments)) return nullptr;
  SharedIndex* index = ReadShared(env, arguments[0]);
  return index == nullptr ? nullptr : MakeNumber(env, static_cast<double>(index->bytes()));
}

// ---- Shared indexes: functions with which any thread finds and searches them ----

napi_value MakeNull(napi_env env) {
  napi_value value;
  return napi_get_null(env, &value) == napi_ok ? value : nullptr;
}

/** Makes a JavaScript array of strings. `textOf` returns the string of an item. */
template <typename Items, typename TextOf>
napi_value MakeTexts(napi_env env, const Items& items, TextOf textOf) {
  napi_value list;
  if (napi_create_array_with_length(env, items.size(), &list) != napi_ok) return nullptr;
  uint32_t at = 0;
  for (const auto& item : items) {
    const std::string& text = textOf(item);
    napi_value value;
    if (napi_create_string_utf8(env, text.data(), text.size(), &value) != napi_ok ||
        napi_set_element(env, list, at++, value) != napi_ok) {
      return nullptr;
    }
  }
  return list;
}

/** Maximum number of names in one call; a call with more throws. */
constexpr uint32_t kNamesMax = 1 << 16;

/** listShared(key, vectorsId, names, group) */
napi_value ListShared(napi_env env, napi_callback_info info) {
  napi_value arguments[4];
  std::string key;
  std::string vectors_id;
  std::string group;
  uint32_t count;
  if (!ReadArguments(env, info, 4, arguments) || !ReadText(env, arguments[0], &key) ||
      !ReadText(env, arguments[1], &vectors_id) || !ReadText(env, arguments[3], &group)) {
    return nullptr;
  }
  bool is_list = false;
  if (napi_is_array(env, arguments[2], &is_list) != napi_ok || !is_list ||
      napi_get_array_length(env, arguments[2], &count) != napi_ok || count > kNamesMax) {
    napi_throw_type_error(env, nullptr, "a list of names is expected");
    return nullptr;
  }
  std::vector<std::string> names(count);
  for (uint32_t at = 0; at < count; at++) {
    napi_value name;
    if (napi_get_element(env, arguments[2], at, &name) != napi_ok || !ReadText(env, name, &names[at])) return nullptr;
  }
  std::vector<std::string> found;
  bool is_open = false;
  const bool is_done = Attempt(env, [&] {
    is_open = TheRegistry().Read(key, vectors_id, [&](const Catalog& catalog) {
      const auto add = [&](const std::string& name) {
        const auto index = catalog.indexes.find(name);
        if (index != catalog.indexes.end() && index->second->size() > 0) found.push_back(name);
      };
      const auto members = catalog.groups.find(group);
      if (!group.empty() && members != catalog.groups.end()) {
        for (const std::string& name : members->second) add(name);
      }
      for (const std::string& name : names) add(name);
    });
  });
  if (!is_done) return nullptr;
  return is_open ? MakeTexts(env, found, [](const std::string& name) -> const std::string& { return name; }) : MakeNull(env);
}

/** Maximum number of walks in one search. */
constexpr size_t kLooksMax = 8;

/**
 * searchShared(key, vectorsId, name, vector, projected, k, looks, margins, compared, error, minSimilarity, comparedMax, kind,
 * family, similarities, preferred)
 */
napi_value SearchShared(napi_env env, napi_callback_info info) {
  napi_value arguments[16];
  std::string key;
  std::string vectors_id;
  std::string name;
  const float* vector;
  size_t dimensions;
  const float* projected;
  size_t graph_dimensions;
  SearchPlan plan;
  const uint32_t* looks;
  size_t look_count;
  const double* margins;
  size_t margin_count;
  std::u16string family;
  double* similarities;
  size_t similarity_room;
  uint8_t* preferred;
  size_t preferred_room;
  if (!ReadArguments(env, info, 16, arguments) || !ReadText(env, arguments[0], &key) ||
      !ReadText(env, arguments[1], &vectors_id) || !ReadText(env, arguments[2], &name) ||
      !ReadNumbers(env, arguments[3], napi_float32_array, &vector, &dimensions) ||
      !ReadNumbers(env, arguments[4], napi_float32_array, &projected, &graph_dimensions) ||
      !ReadWhole(env, arguments[5], 0, &plan.k) ||
      !ReadNumbers(env, arguments[6], napi_uint32_array, &looks, &look_count) ||
      !ReadNumbers(env, arguments[7], napi_float64_array, &margins, &margin_count) ||
      !ReadWhole(env, arguments[8], 0, &plan.compared) || !ReadDouble(env, arguments[9], &plan.error) ||
      !ReadDouble(env, arguments[10], &plan.min_similarity) || !ReadWhole(env, arguments[11], 0, &plan.compared_max)) {
    return nullptr;
  }
  if (look_count > kLooksMax || margin_count > kLooksMax) {
    napi_throw_range_error(env, nullptr, "there are too many walks");
    return nullptr;
  }
  plan.looks.assign(looks, looks + look_count);
  plan.margins.assign(margins, margins + margin_count);
  plan.is_filtered = !IsNull(env, arguments[12]);
  if ((plan.is_filtered && !ReadWideText(env, arguments[12], &plan.kind)) ||
      !ReadWideText(env, arguments[13], &family) ||
      !ReadNumbers(env, arguments[14], napi_float64_array, &similarities, &similarity_room) ||
      !ReadNumbers(env, arguments[15], napi_uint8_array, &preferred, &preferred_room)) {
    return nullptr;
  }
  if (plan.k > similarity_room || plan.k > preferred_room) {
    napi_throw_range_error(env, nullptr, "the list for the results is too short");
    return nullptr;
  }
  bool is_done = false;
  std::vector<Match> found;
  std::vector<std::string> names;
  const bool has_ended = Attempt(env, [&] {
    std::shared_ptr<SharedIndex> index;
    const bool is_open = TheRegistry().Read(key, vectors_id, [&](const Catalog& catalog) {
      const auto at = catalog.indexes.find(name);
      if (at != catalog.indexes.end()) index = at->second;
    });
    if (!is_open) return;
    // A missing index counts as empty.
    is_done = index == nullptr;
    if (is_done) return;
    if (dimensions != index->dimensions()) throw std::range_error("the vector has another number of dimensions");
    const Visit visit(&index->gate);
    if (!visit.is_in()) return;
    is_done = index->Search(vector, projected, graph_dimensions, plan, &found);
    const uint32_t preferred_family = family.empty() ? kNoText : index->FindText(family);
    for (const Match& match : found) {
      similarities[names.size()] = match.similarity;
      preferred[names.size()] = index->IsOfFamily(match.id, preferred_family);
      names.push_back(index->name_of(match.id));
    }
  });
  if (!has_ended) return nullptr;
  return is_done ? MakeTexts(env, names, [](const std::string& one) -> const std::string& { return one; }) : MakeNull(env);
}

uint32_t UseLevels(uint32_t level) {
  UseCompareLevel(level);
  return UseLevel(level);
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
      {"openCatalog", OpenCatalog},
      {"closeCatalog", CloseCatalog},
      {"serveCatalog", ServeCatalog},
      {"shareIndex", ShareIndex},
      {"beginChange", ChangeIndex<&SharedIndex::Begin>},
      {"endChange", ChangeIndex<&SharedIndex::End>},
      {"makeVectorBlock", MakeBlock},
      {"dropBlock", ChangeIndex<&SharedIndex::DropBlock>},
      {"enterVector", ChangeId<&SharedIndex::Enter>},
      {"leaveVector", ChangeId<&SharedIndex::Leave>},
      {"awaitVector", ChangeId<&SharedIndex::Await>},
      {"linkVector", ChangeId<&SharedIndex::Link>},
      {"unlinkVector", ChangeIndex<&SharedIndex::Unlink>},
      {"takeGraph", TakeGraph},
      {"dropGraph", ChangeIndex<&SharedIndex::DropGraph>},
      {"describeVector", DescribeVector},
      {"measureShared", MeasureShared},
      {"listShared", ListShared},
      {"searchShared", SearchShared},
      {"setWidestLevel", SetWidestLevel<UseLevels>},
  });
}

}  // namespace

NAPI_MODULE(NODE_GYP_MODULE_NAME, Init)
