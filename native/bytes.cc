/**
 * The capture writer's byte functions in C++. `byte-functions.ts` documents them; `fallback.ts` has functions with the
 * same names and results, and `test/native` compares the two. Uses only Node-API, so one binary works with every
 * version of Node. Any thread: no state is kept between calls.
 * The algorithms are in the headers of `bytes/`, so that the compiler can inline all loops. This file has only the
 * functions that JavaScript calls.
 */
#include <node_api.h>

#include <algorithm>
#include <cstdint>
#include <cstring>

#include "arguments.h"
#include "bytes/common-ends.h"
#include "bytes/copy.h"
#include "bytes/escapes.h"
#include "bytes/needles.h"
#include "bytes/plain.h"
#include "bytes/processor.h"
#include "bytes/suspects.h"
#include "bytes/view.h"

namespace {

/** findSuspects(bytes, from, to, marks) */
napi_value FindSuspects(napi_env env, napi_callback_info info) {
  napi_value arguments[4];
  Bytes bytes;
  size_t from;
  size_t to;
  if (!ReadArguments(env, info, 4, arguments) || !ReadBytes(env, arguments[0], &bytes) ||
      !ReadOffset(env, arguments[1], bytes.length, &from) || !ReadOffset(env, arguments[2], bytes.length, &to)) {
    return nullptr;
  }
  napi_typedarray_type type;
  size_t capacity;
  void* data;
  if (napi_get_typedarray_info(env, arguments[3], &type, &capacity, &data, nullptr, nullptr) != napi_ok ||
      type != napi_float64_array || capacity < 3) {
    napi_throw_type_error(env, nullptr, "a Float64Array of at least 3 is expected");
    return nullptr;
  }
  double* marks = static_cast<double*>(data);
  const size_t room = (capacity - 1) / 2;
  size_t count = 0;
  size_t at = from;
  size_t run[2];
  TokenWalk walk;
  while (FindSuspect(bytes.data, at, to, run, &walk)) {
    if (count == room) break;
    marks[1 + 2 * count] = static_cast<double>(run[0]);
    marks[2 + 2 * count] = static_cast<double>(run[1]);
    count++;
    at = run[1] + 1;
    run[0] = to;
  }
  marks[0] = static_cast<double>(count == room && run[0] < to ? run[0] : to);
  return MakeNumber(env, static_cast<double>(count));
}

/** findAnyNeedle(bytes, from, to, needles) */
napi_value FindAnyNeedle(napi_env env, napi_callback_info info) {
  napi_value arguments[4];
  Bytes bytes;
  Bytes needles;
  size_t from;
  size_t to;
  if (!ReadArguments(env, info, 4, arguments) || !ReadBytes(env, arguments[0], &bytes) ||
      !ReadOffset(env, arguments[1], bytes.length, &from) || !ReadOffset(env, arguments[2], bytes.length, &to) ||
      !ReadBytes(env, arguments[3], &needles)) {
    return nullptr;
  }
  return MakeNumber(env, static_cast<double>(FindPacked(bytes, from, to, needles)));
}

/** findLongBase64(bytes, from, to, chars) */
napi_value FindLongBase64(napi_env env, napi_callback_info info) {
  napi_value arguments[4];
  Bytes bytes;
  size_t from;
  size_t to;
  size_t chars;
  if (!ReadArguments(env, info, 4, arguments) || !ReadBytes(env, arguments[0], &bytes) ||
      !ReadOffset(env, arguments[1], bytes.length, &from) || !ReadOffset(env, arguments[2], bytes.length, &to) ||
      !ReadOffset(env, arguments[3], SIZE_MAX >> 12, &chars)) {
    return nullptr;
  }
  return MakeNumber(env, static_cast<double>(FindBase64(bytes, from, to, chars)));
}

/** findEscape(bytes, from, to) */
napi_value FindEscapeOf(napi_env env, napi_callback_info info) {
  napi_value arguments[3];
  Bytes bytes;
  size_t from;
  size_t to;
  if (!ReadArguments(env, info, 3, arguments) || !ReadBytes(env, arguments[0], &bytes) ||
      !ReadOffset(env, arguments[1], bytes.length, &from) || !ReadOffset(env, arguments[2], bytes.length, &to)) {
    return nullptr;
  }
  return MakeNumber(env, static_cast<double>(FindEscape(bytes, from, to)));
}

/** isPlain(bytes, needles, chars) */
napi_value IsPlain(napi_env env, napi_callback_info info) {
  napi_value arguments[3];
  Bytes bytes;
  Bytes needles;
  size_t chars;
  if (!ReadArguments(env, info, 3, arguments) || !ReadBytes(env, arguments[0], &bytes) ||
      !ReadBytes(env, arguments[1], &needles) || !ReadOffset(env, arguments[2], SIZE_MAX >> 12, &chars)) {
    return nullptr;
  }
  const bool plain = HoldsNone(bytes, needles) && FindBase64(bytes, 0, bytes.length, chars) < 0 &&
                     FindEscape(bytes, 0, bytes.length) < 0;
  napi_value result;
  return napi_get_boolean(env, plain, &result) == napi_ok ? result : nullptr;
}

/** measureCommonPrefix(a, b, aFrom, bFrom, limit) */
napi_value MeasureCommonPrefix(napi_env env, napi_callback_info info) {
  napi_value arguments[5];
  Bytes a;
  Bytes b;
  size_t a_from;
  size_t b_from;
  double limit;
  if (!ReadArguments(env, info, 5, arguments) || !ReadBytes(env, arguments[0], &a) || !ReadBytes(env, arguments[1], &b) ||
      !ReadOffset(env, arguments[2], a.length, &a_from) || !ReadOffset(env, arguments[3], b.length, &b_from) ||
      !ReadLimit(env, arguments[4], &limit)) {
    return nullptr;
  }
  const size_t most = LimitLength(std::min(a.length - a_from, b.length - b_from), limit);
  return MakeNumber(env, most == 0 ? 0 : static_cast<double>(CountEqualAhead(a.data + a_from, b.data + b_from, most)));
}

/** measureCommonSuffix(a, b, aTo, bTo, limit) */
napi_value MeasureCommonSuffix(napi_env env, napi_callback_info info) {
  napi_value arguments[5];
  Bytes a;
  Bytes b;
  size_t a_to;
  size_t b_to;
  double limit;
  if (!ReadArguments(env, info, 5, arguments) || !ReadBytes(env, arguments[0], &a) || !ReadBytes(env, arguments[1], &b) ||
      !ReadOffset(env, arguments[2], a.length, &a_to) || !ReadOffset(env, arguments[3], b.length, &b_to) ||
      !ReadLimit(env, arguments[4], &limit)) {
    return nullptr;
  }
  const size_t most = LimitLength(std::min(a_to, b_to), limit);
  return MakeNumber(env, most == 0 ? 0 : static_cast<double>(CountEqualBehind(a.data + a_to, b.data + b_to, most)));
}

/** Reads the arguments of copyBytes and copyBytesAside. @returns whether they are valid */
bool ReadCopy(napi_env env, napi_callback_info info, Bytes* from, uint8_t** into) {
  napi_value arguments[3];
  Bytes whole;
  size_t at;
  if (!ReadArguments(env, info, 3, arguments) || !ReadBytes(env, arguments[0], from) ||
      !ReadBytes(env, arguments[1], &whole) || !ReadOffset(env, arguments[2], whole.length, &at)) {
    return false;
  }
  if (from->length > whole.length - at) {
    napi_throw_range_error(env, nullptr, "an offset is outside of the bytes");
    return false;
  }
  *into = whole.data + at;
  return true;
}

/** copyBytes(from, into, at) */
napi_value CopyBytes(napi_env env, napi_callback_info info) {
  Bytes from;
  uint8_t* into;
  if (ReadCopy(env, info, &from, &into) && from.length > 0) memmove(into, from.data, from.length);
  return nullptr;
}

/** copyBytesAside(from, into, at) */
napi_value CopyBytesAside(napi_env env, napi_callback_info info) {
  Bytes from;
  uint8_t* into;
  if (!ReadCopy(env, info, &from, &into) || from.length == 0) return nullptr;
  if (from.data < into + from.length && into < from.data + from.length) memmove(into, from.data, from.length);
  else CopyPastCaches(into, from.data, from.length);
  return nullptr;
}

/** measureMisalignment(bytes, alignment) */
napi_value MeasureMisalignment(napi_env env, napi_callback_info info) {
  napi_value arguments[2];
  Bytes bytes;
  size_t alignment;
  if (!ReadArguments(env, info, 2, arguments) || !ReadBytes(env, arguments[0], &bytes) ||
      !ReadOffset(env, arguments[1], SIZE_MAX >> 12, &alignment)) {
    return nullptr;
  }
  if (alignment == 0) return MakeNumber(env, -1);
  return MakeNumber(env, static_cast<double>(reinterpret_cast<uintptr_t>(bytes.data) % alignment));
}

napi_value Init(napi_env env, napi_value exports) {
  return Export(env, exports, {
      {"findSuspects", FindSuspects},
      {"findAnyNeedle", FindAnyNeedle},
      {"findLongBase64", FindLongBase64},
      {"findEscape", FindEscapeOf},
      {"isPlain", IsPlain},
      {"measureCommonPrefix", MeasureCommonPrefix},
      {"measureCommonSuffix", MeasureCommonSuffix},
      {"copyBytes", CopyBytes},
      {"copyBytesAside", CopyBytesAside},
      {"measureMisalignment", MeasureMisalignment},
      {"setWidestLevel", SetWidestLevel<UseLevel>},
  });
}

}  // namespace

NAPI_MODULE(NODE_GYP_MODULE_NAME, Init)
