/** Finds escaped characters of a token: `\u002d`, `%2D`, UTF-16. */
#pragma once

#include <cstddef>
#include <cstdint>

#include "byte-classes.h"
#include "processor.h"
#include "view.h"

namespace {

/** Reads a hex digit. @returns its value; 16 for any other byte */
inline unsigned ReadHex(uint8_t byte) {
  if (byte >= '0' && byte <= '9') return byte - '0';
  const uint8_t small = byte | 0x20;
  return small >= 'a' && small <= 'f' ? small - 'a' + 10u : 16u;
}

/** Whether the two hex digits at `at` encode a character of a token. */
inline bool IsTokenHex(const Bytes& bytes, size_t at) {
  if (at + 2 > bytes.length) return false;
  const unsigned high = ReadHex(bytes.data[at]);
  const unsigned low = ReadHex(bytes.data[at + 1]);
  return high < 8 && low < 16 && kTables.token[high << 4 | low];
}

/** Whether an escaped character of a token begins at `at`. */
bool IsEscape(const Bytes& bytes, size_t at) {
  const uint8_t* const data = bytes.data;
  if (data[at] == 0) return at + 2 < bytes.length && kTables.token[data[at + 1]] && data[at + 2] == 0;
  if (data[at] == '\\') {
    return at + 6 <= bytes.length && data[at + 1] == 'u' && data[at + 2] == '0' && data[at + 3] == '0' &&
           IsTokenHex(bytes, at + 4);
  }
  if (data[at] != '%') return false;
  size_t digits = at + 1;
  // The percent sign may itself be percent-encoded, several times.
  while (digits + 4 <= bytes.length && data[digits] == '2' && data[digits + 1] == '5' && ReadHex(data[digits + 2]) < 16 &&
         ReadHex(data[digits + 3]) < 16) {
    digits += 2;
  }
  return IsTokenHex(bytes, digits);
}

#if defined(ASKS_PROCESSOR)
/** Marks those of 32 positions at which an escape may begin. */
__attribute__((target("avx2"))) inline __m256i MarkEscapes(const uint8_t* place) {
  const __m256i a = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(place));
  const __m256i b = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(place + 1));
  const __m256i escape = _mm256_and_si256(_mm256_cmpeq_epi8(a, _mm256_set1_epi8('\\')), _mm256_cmpeq_epi8(b, _mm256_set1_epi8('u')));
  const __m256i other = _mm256_or_si256(_mm256_cmpeq_epi8(a, _mm256_set1_epi8('%')), _mm256_cmpeq_epi8(a, _mm256_setzero_si256()));
  return _mm256_or_si256(escape, other);
}

constexpr size_t kEscapeWindow = 32;
constexpr size_t kEscapeWindows = 4;

/** FindEscape for 128 positions at once. @returns a position, or -1 with `at` moved to the first unsearched byte */
__attribute__((target("avx2"))) int64_t FindEscapeAvx2(const Bytes& bytes, size_t* at, size_t to) {
  size_t place = *at;
  for (; place + kEscapeWindows * kEscapeWindow <= to && place + kEscapeWindows * kEscapeWindow < bytes.length;
       place += kEscapeWindows * kEscapeWindow) {
    __m256i marks[kEscapeWindows];
    __m256i any = _mm256_setzero_si256();
    for (size_t window = 0; window < kEscapeWindows; window++) {
      marks[window] = MarkEscapes(bytes.data + place + window * kEscapeWindow);
      any = _mm256_or_si256(any, marks[window]);
    }
    if (_mm256_testz_si256(any, any)) continue;
    for (size_t window = 0; window < kEscapeWindows; window++) {
      uint32_t mask = static_cast<uint32_t>(_mm256_movemask_epi8(marks[window]));
      for (; mask != 0; mask &= mask - 1) {
        const size_t hit = place + window * kEscapeWindow + static_cast<size_t>(__builtin_ctz(mask));
        if (IsEscape(bytes, hit)) return static_cast<int64_t>(hit);
      }
    }
  }
  *at = place;
  return -1;
}
#endif

/** Finds the first position in [from, to) of an escaped character of a token; -1 if none. */
int64_t FindEscape(const Bytes& bytes, size_t from, size_t to) {
  size_t at = from;
#if defined(ASKS_PROCESSOR)
  if (processor.avx2) {
    const int64_t hit = FindEscapeAvx2(bytes, &at, to);
    if (hit >= 0) return hit;
  }
#endif
#if defined(__SSE2__)
  for (; at + 16 <= to; at += 16) {
    const __m128i a = _mm_loadu_si128(reinterpret_cast<const __m128i*>(bytes.data + at));
    const __m128i marks = _mm_or_si128(_mm_cmpeq_epi8(a, _mm_set1_epi8('%')), _mm_cmpeq_epi8(a, _mm_set1_epi8('\\')));
    const __m128i all = _mm_or_si128(marks, _mm_cmpeq_epi8(a, _mm_setzero_si128()));
    for (unsigned mask = static_cast<unsigned>(_mm_movemask_epi8(all)); mask != 0; mask &= mask - 1) {
      const size_t hit = at + static_cast<size_t>(__builtin_ctz(mask));
      if (IsEscape(bytes, hit)) return static_cast<int64_t>(hit);
    }
  }
#endif
  for (; at < to; at++) {
    if (IsEscape(bytes, at)) return static_cast<int64_t>(at);
  }
  return -1;
}

}  // namespace
