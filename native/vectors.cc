/**
 * Compares one vector with many. `vector-engine.ts` documents the functions and has a TypeScript version; `test/native`
 * checks that both give exactly the same results. Uses only Node-API. Any thread: no state is kept between calls.
 */
#include <node_api.h>

#include <cstdint>
#include <vector>

#include "arguments.h"
#include "vectors/compare.h"

namespace {

/** Maximum number of blocks. More blocks would need more memory than a machine has. */
constexpr uint32_t kBlocksMax = 1 << 20;

/** Implements compareShort and comparePacked; `Number` is the type of a stored vector's elements. */
template <typename Number>
napi_value CompareEach(napi_env env, napi_callback_info info, napi_typedarray_type type, size_t (*count_numbers)(size_t),
                       double (*compare)(const double*, const Number*, size_t)) {
  napi_value arguments[6];
  const float* query;
  size_t dimensions;
  uint32_t block_bits;
  const uint32_t* places;
  size_t place_count;
  uint32_t count;
  double* similarities;
  size_t room;
  uint32_t block_count;
  if (!ReadArguments(env, info, 6, arguments) ||
      !ReadNumbers(env, arguments[0], napi_float32_array, &query, &dimensions) ||
      !ReadNumbers(env, arguments[3], napi_uint32_array, &places, &place_count) ||
      !ReadNumbers(env, arguments[5], napi_float64_array, &similarities, &room)) {
    return nullptr;
  }
  if (napi_get_array_length(env, arguments[1], &block_count) != napi_ok) {
    napi_throw_type_error(env, nullptr, "a list of blocks is expected");
    return nullptr;
  }
  if (!ReadWhole(env, arguments[2], 0, &block_bits) || !ReadWhole(env, arguments[4], 0, &count)) return nullptr;
  if (count > place_count || count > room || block_bits > 31 || dimensions == 0 || block_count > kBlocksMax) {
    napi_throw_range_error(env, nullptr, "the list for the results is too short");
    return nullptr;
  }
  const std::vector<double> wide(query, query + dimensions);
  const size_t stride = count_numbers(dimensions);
  struct Block {
    const Number* data = nullptr;
    size_t length = 0;
  };
  std::vector<Block> blocks(block_count);
  const uint32_t mask = (1u << block_bits) - 1;
  for (uint32_t i = 0; i < count; i++) {
    const uint32_t number = places[i] >> block_bits;
    if (number >= block_count) {
      napi_throw_range_error(env, nullptr, "a place is outside the blocks");
      return nullptr;
    }
    Block& block = blocks[number];
    if (block.data == nullptr) {
      napi_handle_scope scope;
      napi_value value;
      napi_open_handle_scope(env, &scope);
      const bool is_read = napi_get_element(env, arguments[1], number, &value) == napi_ok &&
                           ReadNumbers(env, value, type, &block.data, &block.length);
      napi_close_handle_scope(env, scope);
      if (!is_read) return nullptr;
    }
    const size_t start = static_cast<size_t>(places[i] & mask) * stride;
    if (start + stride > block.length) {
      napi_throw_range_error(env, nullptr, "a place is outside the blocks");
      return nullptr;
    }
    similarities[i] = compare(wide.data(), block.data + start, dimensions);
  }
  return arguments[4];
}

/** compareShort(query, blocks, blockBits, places, count, similarities) */
napi_value CompareAllShort(napi_env env, napi_callback_info info) {
  return CompareEach<int16_t>(env, info, napi_int16_array, CountShort, compare_short);
}

/** comparePacked(query, blocks, blockBits, places, count, similarities) */
napi_value CompareAllPacked(napi_env env, napi_callback_info info) {
  return CompareEach<uint8_t>(env, info, napi_uint8_array, CountPacked, compare_packed);
}

napi_value Init(napi_env env, napi_value exports) {
  return Export(env, exports, {{"compareShort", CompareAllShort}, {"comparePacked", CompareAllPacked}, {"setWidestLevel", SetWidestLevel<UseCompareLevel>}});
}

}  // namespace

NAPI_MODULE(NODE_GYP_MODULE_NAME, Init)
