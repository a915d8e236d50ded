/** How far two pieces of memory are equal from their beginnings and ends: a body and the one before it. */
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>

namespace {

/** Bytes that are compared at once: of so many, where two bodies part is soon found. */
constexpr size_t kComparedBytes = 2048;

/** `most`, or `limit` where that is less; nothing of what is no number. */
inline size_t LimitLength(size_t most, double limit) {
  if (!(limit > 0)) return 0;
  return limit < static_cast<double>(most) ? static_cast<size_t>(limit) : most;
}

/** Equal bytes from `left` and `right` on. */
inline size_t CountEqualAhead(const uint8_t* left, const uint8_t* right, size_t most) {
  size_t at = 0;
  // The library's comparison takes the widest loads there are, but does not say where the two part.
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
