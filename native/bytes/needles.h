/**
 * Searches for given byte strings (needles), and for long base64.
 */
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>

#include "byte-classes.h"
#include "processor.h"
#include "view.h"

namespace {

/**
 * Limits how many bytes one search compares. Without a limit, an attacker could send a text in which nearly the whole
 * needle must be compared at every position.
 */
struct Patience {
  int64_t left;
  explicit Patience(size_t bytes) : left(static_cast<int64_t>(bytes) * 128 + (1 << 20)) {}
  bool IsSpent() const { return left < 0; }
};

/** Whether the needle begins at `at`. At least `size` bytes must follow. */
inline bool Matches(const uint8_t* at, const uint8_t* needle, size_t size, Patience* patience) {
  size_t same = 0;
  for (; same + 8 <= size; same += 8) {
    uint64_t a;
    uint64_t b;
    memcpy(&a, at + same, 8);
    memcpy(&b, needle + same, 8);
    if (a != b) break;
  }
  patience->left -= static_cast<int64_t>(same) + 8;
  return size - same < 8 && memcmp(at + same, needle + same, size - same) == 0;
}

#if defined(ASKS_PROCESSOR)
/**
 * The first part of FindNeedle, with instructions of twice the width.
 * @returns a position, or -1 after setting `at` to the first unsearched position
 */
__attribute__((target("avx2"))) int64_t FindNeedleAvx2(const uint8_t* bytes, size_t* at, size_t last,
                                                       const uint8_t* needle, size_t size, Patience* patience) {
  const __m256i first = _mm256_set1_epi8(static_cast<char>(needle[0]));
  const __m256i tail = _mm256_set1_epi8(static_cast<char>(needle[size - 1]));
  size_t place = *at;
  while (place + 31 <= last) {
    const __m256i a = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(bytes + place));
    const __m256i b = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(bytes + place + size - 1));
    uint32_t mask = static_cast<uint32_t>(
        _mm256_movemask_epi8(_mm256_and_si256(_mm256_cmpeq_epi8(a, first), _mm256_cmpeq_epi8(b, tail))));
    while (mask != 0) {
      const size_t hit = place + static_cast<size_t>(__builtin_ctz(mask));
      if (Matches(bytes + hit, needle, size, patience)) return static_cast<int64_t>(hit);
      mask &= mask - 1;
    }
    if (patience->IsSpent()) break;
    place += 32;
  }
  *at = place;
  return -1;
}
#endif

/**
 * Finds the first position in [from, to) at which the needle begins; the needle may end beyond `to`. -1 if not found,
 * or if the limit on compared bytes is reached.
 */
int64_t FindNeedle(const uint8_t* bytes, size_t length, size_t from, size_t to, const uint8_t* needle, size_t size,
                   Patience* patience) {
  if (size == 0 || size > length || from >= to) return -1;
  const size_t last = to - 1 < length - size ? to - 1 : length - size;
  size_t at = from;
#if defined(ASKS_PROCESSOR)
  if (processor.avx2) {
    const int64_t hit = FindNeedleAvx2(bytes, &at, last, needle, size, patience);
    if (hit >= 0) return hit;
  }
#endif
#if defined(__SSE2__)
  // Finds those of sixteen positions at which the needle's first and last byte match.
  const __m128i first = _mm_set1_epi8(static_cast<char>(needle[0]));
  const __m128i tail = _mm_set1_epi8(static_cast<char>(needle[size - 1]));
  while (at + 15 <= last && !patience->IsSpent()) {
    const __m128i a = _mm_loadu_si128(reinterpret_cast<const __m128i*>(bytes + at));
    const __m128i b = _mm_loadu_si128(reinterpret_cast<const __m128i*>(bytes + at + size - 1));
    unsigned mask = static_cast<unsigned>(_mm_movemask_epi8(_mm_and_si128(_mm_cmpeq_epi8(a, first), _mm_cmpeq_epi8(b, tail))));
    while (mask != 0) {
      const size_t hit = at + static_cast<size_t>(__builtin_ctz(mask));
      if (Matches(bytes + hit, needle, size, patience)) return static_cast<int64_t>(hit);
      mask &= mask - 1;
    }
    if (patience->IsSpent()) return -1;
    at += 16;
  }
#endif
  while (at <= last && !patience->IsSpent()) {
    const void* found = memchr(bytes + at, needle[0], last - at + 1);
    if (found == nullptr) return -1;
    at = static_cast<size_t>(static_cast<const uint8_t*>(found) - bytes);
    if (Matches(bytes + at, needle, size, patience)) return static_cast<int64_t>(at);
    at++;
  }
  return -1;
}

/**
 * Finds the first position in [from, to) at which a packed needle begins; -1 if not found, -2 if the limit on compared
 * bytes is reached.
 */
int64_t FindPacked(const Bytes& bytes, size_t from, size_t to, const Bytes& needles) {
  int64_t first = -1;
  size_t at = 0;
  Patience patience(from < to ? to - from : 0);
  while (at + 4 <= needles.length) {
    uint32_t size;
    memcpy(&size, needles.data + at, 4);
    at += 4;
    if (size > needles.length - at) break;
    const size_t limit = first < 0 ? to : static_cast<size_t>(first);
    const int64_t hit = FindNeedle(bytes.data, bytes.length, from, limit, needles.data + at, size, &patience);
    if (patience.IsSpent()) return -2;
    if (hit >= 0) first = hit;
    at += size;
  }
  return first;
}

int64_t FindBase64(const Bytes& bytes, size_t from, size_t to, size_t chars) {
  size_t at = from;
  while (chars > 0 && chars <= to && at <= to - chars) {
    size_t back = at + chars;
    while (back > at && kTables.base64[bytes.data[back - 1]]) back--;
    if (back == at) return static_cast<int64_t>(at);
    at = back;
  }
  return -1;
}

}  // namespace
