/**
 * Runs: at least 16 consecutive letters, digits, - and _.
 */
#pragma once

#include <cstddef>
#include <cstdint>

#include "byte-classes.h"
#include "processor.h"

namespace {

constexpr size_t kMinRun = 16;

#if defined(__SSE2__)
constexpr size_t kMaskBytes = 64;

/** Sets a bit for each run byte of sixteen bytes. */
inline uint64_t MaskRunBytes(const uint8_t* window) {
  const __m128i bytes = _mm_loadu_si128(reinterpret_cast<const __m128i*>(window));
  const auto within = [](__m128i offsets, char most) {
    return _mm_cmpeq_epi8(_mm_min_epu8(offsets, _mm_set1_epi8(most)), offsets);
  };
  const __m128i letters = within(_mm_sub_epi8(_mm_or_si128(bytes, _mm_set1_epi8(0x20)), _mm_set1_epi8('a')), 25);
  const __m128i digits = within(_mm_sub_epi8(bytes, _mm_set1_epi8('0')), 9);
  const __m128i marks = _mm_or_si128(_mm_cmpeq_epi8(bytes, _mm_set1_epi8('-')), _mm_cmpeq_epi8(bytes, _mm_set1_epi8('_')));
  return static_cast<uint64_t>(_mm_movemask_epi8(_mm_or_si128(_mm_or_si128(letters, digits), marks)));
}

/** Sets a bit for each position in a mask of run bytes at which sixteen consecutive run bytes begin. */
inline uint64_t MaskRunStarts(uint64_t mask) {
  mask &= mask >> 1;
  mask &= mask >> 2;
  mask &= mask >> 4;
  return mask & mask >> 8;
}

/** Sets a bit for each position, of 64 bytes, at which sixteen consecutive run bytes within these 64 begin. */
inline uint64_t MaskRuns(const uint8_t* window) {
  return MaskRunStarts(MaskRunBytes(window) | MaskRunBytes(window + 16) << 16 | MaskRunBytes(window + 32) << 32 |
                       MaskRunBytes(window + 48) << 48);
}
#endif

#if defined(ASKS_PROCESSOR)
/** Sets a bit for each run byte of 64 bytes. */
__attribute__((target("avx2"))) inline uint64_t MaskRunBytesAvx2(const uint8_t* window) {
  uint64_t mask = 0;
  for (int half = 0; half < 2; half++) {
    const __m256i bytes = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(window + 32 * half));
    const __m256i letter = _mm256_sub_epi8(_mm256_or_si256(bytes, _mm256_set1_epi8(0x20)), _mm256_set1_epi8('a'));
    const __m256i digit = _mm256_sub_epi8(bytes, _mm256_set1_epi8('0'));
    const __m256i letters = _mm256_cmpeq_epi8(_mm256_min_epu8(letter, _mm256_set1_epi8(25)), letter);
    const __m256i digits = _mm256_cmpeq_epi8(_mm256_min_epu8(digit, _mm256_set1_epi8(9)), digit);
    const __m256i marks = _mm256_or_si256(_mm256_cmpeq_epi8(bytes, _mm256_set1_epi8('-')),
                                          _mm256_cmpeq_epi8(bytes, _mm256_set1_epi8('_')));
    const __m256i any = _mm256_or_si256(_mm256_or_si256(letters, digits), marks);
    mask |= static_cast<uint64_t>(static_cast<uint32_t>(_mm256_movemask_epi8(any))) << (32 * half);
  }
  return mask;
}

/**
 * Returns the first window from `at` on in which sixteen consecutive run bytes begin; the position after the last whole
 * window if no run begins.
 * @param runs receives a bit for each position in the window at which they begin; 0 if no run begins
 */
__attribute__((target("avx2"))) size_t SkipPlainAvx2(const uint8_t* bytes, size_t at, size_t to, uint64_t* runs) {
  *runs = 0;
  while (at + kMaskBytes <= to) {
    *runs = MaskRunStarts(MaskRunBytesAvx2(bytes + at));
    if (*runs != 0) break;
    at += kMaskBytes - kMinRun + 1;
  }
  return at;
}
#endif

/** Returns the end of the run to which the bytes directly before `at` belong. */
size_t FindRunEnd(const uint8_t* bytes, size_t at, size_t to) {
#if defined(__SSE2__)
  while (at + 16 <= to && MaskRunBytes(bytes + at) == 0xffff) at += 16;
#endif
  while (at < to && kTables.run[bytes[at]]) at++;
  return at;
}

/** Finds the first run in [at, to), and writes its start and end to `run`. @returns whether there is a run */
bool FindRun(const uint8_t* bytes, size_t at, size_t to, size_t run[2]) {
  while (at + kMinRun <= to) {
#if defined(ASKS_PROCESSOR)
    if (processor.avx2 && at + kMaskBytes <= to) {
      uint64_t runs;
      at = SkipPlainAvx2(bytes, at, to, &runs);
      if (runs == 0) continue;
      at += static_cast<size_t>(__builtin_ctzll(runs));
    } else
#endif
#if defined(__SSE2__)
    if (at + kMaskBytes <= to) {
      const uint64_t runs = MaskRuns(bytes + at);
      if (runs == 0) {
        // In a window, a run can be found only if it begins at least sixteen bytes before the end.
        at += kMaskBytes - kMinRun + 1;
        continue;
      }
      at += static_cast<size_t>(__builtin_ctzll(runs));
    } else
#endif
    {
      // A window is checked from its end: its last byte that is not a run byte determines the earliest start of the
      // next window.
      size_t back = at + kMinRun;
      while (back > at && kTables.run[bytes[back - 1]]) back--;
      if (back > at) {
        at = back;
        continue;
      }
    }
    run[0] = at;
    run[1] = FindRunEnd(bytes, at + kMinRun, to);
    return true;
  }
  return false;
}

}  // namespace
