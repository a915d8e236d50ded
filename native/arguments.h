/**
 * Reads arguments that JavaScript passes to the addons, and creates results for JavaScript. Uses only Node-API. The
 * functions that read an argument throw in JavaScript and return false if it is invalid.
 */
#pragma once

#include <node_api.h>

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <utility>

namespace {

/** Reads the first `count` arguments of a call. Throws in JavaScript and returns false if there are fewer. */
inline bool ReadArguments(napi_env env, napi_callback_info info, size_t count, napi_value* arguments) {
  size_t given = count;
  if (napi_get_cb_info(env, info, &given, arguments, nullptr, nullptr) != napi_ok || given < count) {
    napi_throw_type_error(env, nullptr, "too few arguments");
    return false;
  }
  return true;
}

/** Reads a typed array of this type. Throws in JavaScript and returns false for any other value. */
template <typename T>
bool ReadNumbers(napi_env env, napi_value value, napi_typedarray_type wanted, T** data, size_t* length) {
  napi_typedarray_type type;
  void* start = nullptr;
  bool is_typed = false;
  if (napi_is_typedarray(env, value, &is_typed) != napi_ok || !is_typed ||
      napi_get_typedarray_info(env, value, &type, length, &start, nullptr, nullptr) != napi_ok || type != wanted) {
    napi_throw_type_error(env, nullptr, "a typed array of another type is expected");
    return false;
  }
  *data = static_cast<T*>(start);
  return true;
}

/** Reads a 32-bit integer that is at least `least`. */
inline bool ReadWhole(napi_env env, napi_value value, uint32_t least, uint32_t* into) {
  double number = 0;
  if (napi_get_value_double(env, value, &number) != napi_ok) {
    napi_throw_type_error(env, nullptr, "a whole number is expected");
    return false;
  }
  if (!(number >= least) || number > UINT32_MAX || number != std::floor(number)) {
    napi_throw_range_error(env, nullptr, "a whole number is expected");
    return false;
  }
  *into = static_cast<uint32_t>(number);
  return true;
}

inline napi_value MakeNumber(napi_env env, double value) {
  napi_value result;
  return napi_create_double(env, value, &result) == napi_ok ? result : nullptr;
}

/**
 * setWidestLevel(level): limits the addon, in the whole process, to the instructions of this level. Level 0 is the
 * baseline of the architecture. Only for tests, while no other thread runs a function of the addon.
 * @returns the level in use, which is lower if the processor has fewer instructions
 */
template <uint32_t (*use)(uint32_t level)>
napi_value SetWidestLevel(napi_env env, napi_callback_info info) {
  napi_value arguments[1];
  uint32_t level;
  if (!ReadArguments(env, info, 1, arguments) || !ReadWhole(env, arguments[0], 0, &level)) return nullptr;
  return MakeNumber(env, use(level));
}

/** Adds functions to a module's exports. @returns the exports */
inline napi_value Export(napi_env env, napi_value exports,
                  std::initializer_list<std::pair<const char*, napi_callback>> functions) {
  for (const auto& [name, function] : functions) {
    const napi_property_descriptor property = {name,    nullptr, function,        nullptr,
                                               nullptr, nullptr, napi_enumerable, nullptr};
    if (napi_define_properties(env, exports, 1, &property) != napi_ok) return nullptr;
  }
  return exports;
}

}  // namespace
