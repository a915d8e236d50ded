/**
 * The beginnings of known key shapes, and the search for them in a run.
 */
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>

#include "key-table.h"
#include "processor.h"

namespace {

bool StartsWith(const uint8_t* at, const uint8_t* end, const char* word) {
  for (; *word != 0; at++, word++) {
    if (at == end || *at != static_cast<uint8_t>(*word)) return false;
  }
  return true;
}

/** Indexes words by a hash. Words with the same hash are adjacent. */
template <size_t numbers, size_t count>
struct WordIndex {
  const char* words[count];
  uint8_t from[numbers + 1];

  template <typename Number>
  WordIndex(const char* const (&all)[count], Number number) {
    size_t used = 0;
    for (size_t i = 0; i < numbers; i++) {
      from[i] = static_cast<uint8_t>(used);
      for (const char* word : all) {
        if (number(reinterpret_cast<const uint8_t*>(word)) == i) words[used++] = word;
      }
    }
    from[numbers] = static_cast<uint8_t>(used);
  }

  bool Holds(size_t number, const uint8_t* at, const uint8_t* end) const {
    for (size_t i = from[number]; i < from[number + 1]; i++) {
      if (StartsWith(at, end, words[i])) return true;
    }
    return false;
  }
};

constexpr size_t kBeginningCount = sizeof(kBeginnings) / sizeof(*kBeginnings);
constexpr size_t kFirstWordCount = sizeof(kFirstWords) / sizeof(*kFirstWords);
const WordIndex<256, kBeginningCount> kByFirstByte(kBeginnings, [](const uint8_t* word) -> size_t { return word[0]; });

/** Whether a key beginning is at `at`. */
bool IsBeginning(const uint8_t* at, const uint8_t* end) {
  return kByFirstByte.Holds(*at, at, end);
}

/**
 * The pairs of bytes with which key beginnings start. Less than one in a hundred pairs of bytes in a token is such a
 * pair.
 */
struct Pairs {
  uint64_t bits[1024];
  Pairs() {
    memset(bits, 0, sizeof(bits));
    for (const char* word : kBeginnings) {
      const unsigned pair = static_cast<uint8_t>(word[0]) << 8 | static_cast<uint8_t>(word[1]);
      bits[pair >> 6] |= 1ull << (pair & 63);
    }
  }
  bool Has(uint8_t first, uint8_t second) const {
    const unsigned pair = static_cast<unsigned>(first) << 8 | second;
    return (bits[pair >> 6] >> (pair & 63) & 1) != 0;
  }
};
const Pairs kPairs;

/** Hashes the first four bytes of a first word. */
inline size_t SumFour(const uint8_t* at) {
  uint32_t four;
  memcpy(&four, at, sizeof(four));
  return (four * 0x9e3779b1u) >> 20;
}

/**
 * First words: key beginnings that are common inside words, or too short to be significant. They are indexed by the
 * hash of their first four bytes. They count only where a token begins: at the start of its run, or after the rest of
 * an escape (`\n`, `%0A`, `\u000a`).
 */
const WordIndex<4096, kFirstWordCount> kBySum(kFirstWords, SumFour);

bool IsFirstWord(const uint8_t* at, const uint8_t* end) {
  const size_t sum = SumFour(at);
  return kBySum.from[sum] != kBySum.from[sum + 1] && kBySum.Holds(sum, at, end);
}

/** Whether a first word is at the beginning of a token in the run, which has at least sixteen bytes. */
inline bool BeginsLikeKey(const uint8_t* bytes, size_t start, size_t end) {
  const uint8_t* const run = bytes + start;
  const uint8_t* const stop = bytes + end;
  if (IsFirstWord(run, stop)) return true;
  if (start == 0 || (run[-1] != '\\' && run[-1] != '%')) return false;
  for (const size_t skip : {1, 2, 5}) {
    if (IsFirstWord(run + skip, stop)) return true;
  }
  return false;
}

#if defined(ASKS_PROCESSOR)
/**
 * Checks 32 positions at once, and finds those that may have one of the pairs. It looks up both halves of both bytes in
 * tables of eight groups of pairs (the "Teddy" algorithm of Hyperscan).
 */
struct PairFilter {
  alignas(16) uint8_t first_low[16];
  alignas(16) uint8_t first_high[16];
  alignas(16) uint8_t second_low[16];
  alignas(16) uint8_t second_high[16];
  PairFilter() {
    memset(this, 0, sizeof(*this));
    for (int group = 0; group < 8; group++) {
      const uint8_t bit = static_cast<uint8_t>(1 << group);
      for (const char* pair = kPairGroups[group]; *pair != 0; pair += 2) {
        first_low[pair[0] & 15] |= bit;
        first_high[pair[0] >> 4] |= bit;
        second_low[pair[1] & 15] |= bit;
        second_high[pair[1] >> 4] |= bit;
      }
    }
  }
};
const PairFilter kPairFilter;

/**
 * The loop of HoldsBeginning, 32 positions at once.
 * @returns whether there is a beginning; moves `at` to the first unsearched byte
 */
__attribute__((target("avx2"))) bool HoldsBeginningAvx2(const uint8_t** at, const uint8_t* end) {
  const auto table = [](const uint8_t* from) __attribute__((target("avx2"))) {
    return _mm256_broadcastsi128_si256(_mm_load_si128(reinterpret_cast<const __m128i*>(from)));
  };
  const __m256i first_low = table(kPairFilter.first_low);
  const __m256i first_high = table(kPairFilter.first_high);
  const __m256i second_low = table(kPairFilter.second_low);
  const __m256i second_high = table(kPairFilter.second_high);
  const __m256i half = _mm256_set1_epi8(15);
  const uint8_t* place = *at;
  for (; end - place >= 33; place += 32) {
    const __m256i a = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(place));
    const __m256i b = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(place + 1));
    const __m256i first = _mm256_and_si256(
        _mm256_shuffle_epi8(first_low, _mm256_and_si256(a, half)),
        _mm256_shuffle_epi8(first_high, _mm256_and_si256(_mm256_srli_epi16(a, 4), half)));
    const __m256i second = _mm256_and_si256(
        _mm256_shuffle_epi8(second_low, _mm256_and_si256(b, half)),
        _mm256_shuffle_epi8(second_high, _mm256_and_si256(_mm256_srli_epi16(b, 4), half)));
    const __m256i none = _mm256_cmpeq_epi8(_mm256_and_si256(first, second), _mm256_setzero_si256());
    for (uint32_t mask = ~static_cast<uint32_t>(_mm256_movemask_epi8(none)); mask != 0; mask &= mask - 1) {
      if (IsBeginning(place + __builtin_ctz(mask), end)) return true;
    }
  }
  *at = place;
  return false;
}
#endif

bool HoldsBeginning(const uint8_t* at, const uint8_t* end) {
#if defined(ASKS_PROCESSOR)
  if (processor.avx2 && HoldsBeginningAvx2(&at, end)) return true;
#endif
  for (; at + 1 < end; at++) {
    if (kPairs.Has(at[0], at[1]) && IsBeginning(at, end)) return true;
  }
  return false;
}

}  // namespace
