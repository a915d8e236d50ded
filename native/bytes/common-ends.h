/**
 * Lengths of the common beginning and end of two byte ranges: a body and the previous one.
 */
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>

namespace {

/** Bytes compared at once. Within such a block, the first difference is found fast. */
constexpr size_t kComparedBytes = 2048;

/** `limit` cut to an integer in 0…`most`; 0 if it is NaN or negative. */
inline size_t LimitLength(size_t most, double limit) {
  if (!(limit > 0)) return 0;
  return limit < static_cast<double>(most) ? static_cast<size_t>(limit) : most;
}

/** Number of equal bytes from `left` and `right` on. */
inline size_t CountEqualAhead(const uint8_t* left, const uint8_t* right, size_t most) {
  size_t at = 0;
  // memcmp uses the widest loads, but does not return the position of the first difference.
  while (at + kComparedBytes <= most && memcmp(left + at, right + at, kComparedBytes) == 0) at += kComparedBytes;
  while (at + 8 <= most) {
    uint64_t x;
    uint64_t y;
    memcpy(&x, left + at, 8);
    memcpy(&y, right + at, 8);
    if (x != y) break;
    at += 8;
  }
  while (at < most && left[at] == right[at]) at++;
  return at;
}

/** Equal bytes before `left` and `right`. */
inline size_t CountEqualBehind(const uint8_t* left, const uint8_t* right, size_t most) {
  size_t at = 0;
  while (at + 8 <= most) {
    uint64_t x;
    uint64_t y;
    memcpy(&x, left - at - 8, 8);
    memcpy(&y, right - at - 8, 8);
    if (x != y) break;
    at += 8;
  }
  while (at < most && left[-1 - static_cast<ptrdiff_t>(at)] == right[-1 - static_cast<ptrdiff_t>(at)]) at++;
  return at;
}

}  // namespace
