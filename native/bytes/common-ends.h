/**
 * Measures the common beginning and the common end of two byte ranges, for example of a body and the previous body.
 */
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>

namespace {

/** Bytes that one memcmp compares. The first block with a difference is then searched in smaller steps. */
constexpr size_t kComparedBytes = 2048;

/** Cuts `limit` to an integer in 0…`most`; 0 if it is NaN or negative. */
inline size_t LimitLength(size_t most, double limit) {
  if (!(limit > 0)) return 0;
  return limit < static_cast<double>(most) ? static_cast<size_t>(limit) : most;
}

/** Counts the equal bytes from `left` and `right` on, at most `most`. */
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

/** Counts the equal bytes directly before `left` and `right`, at most `most`. */
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
