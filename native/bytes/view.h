/**
 * Reads byte arrays that JavaScript passes, and positions in them. The functions throw in JavaScript and return false
 * if an argument is invalid.
 */
#pragma once

#include <node_api.h>

#include <cstddef>
#include <cstdint>

namespace {

struct Bytes {
  uint8_t* data = nullptr;
  size_t length = 0;
};

bool ReadBytes(napi_env env, napi_value value, Bytes* into) {
  napi_typedarray_type type;
  void* data = nullptr;
  if (napi_get_typedarray_info(env, value, &type, &into->length, &data, nullptr, nullptr) != napi_ok ||
      type != napi_uint8_array) {
    napi_throw_type_error(env, nullptr, "a Uint8Array is expected");
    return false;
  }
  into->data = static_cast<uint8_t*>(data);
  return true;
}

bool ReadOffset(napi_env env, napi_value value, size_t limit, size_t* into) {
  double number = 0;
  if (napi_get_value_double(env, value, &number) != napi_ok || !(number >= 0) || number > static_cast<double>(limit)) {
    napi_throw_range_error(env, nullptr, "an offset is outside of the bytes");
    return false;
  }
  *into = static_cast<size_t>(number);
  return true;
}

bool ReadLimit(napi_env env, napi_value value, double* into) {
  if (napi_get_value_double(env, value, into) == napi_ok) return true;
  napi_throw_type_error(env, nullptr, "a number is expected");
  return false;
}

}  // namespace
