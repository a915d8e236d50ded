/** How keys of known shapes begin, and whether one of the beginnings is in a run. */
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>

#include "processor.h"

namespace {

bool StartsWith(const uint8_t* at, const uint8_t* end, const char* word) {
  size_t size = strlen(word);
  return static_cast<size_t>(end - at) >= size && memcmp(at, word, size) == 0;
}

/** Whether one of the beginnings of keys stands at `at`. */
bool IsBeginning(const uint8_t* at, const uint8_t* end) {
  const auto is = [at, end](const char* word) { return StartsWith(at, end, word); };
  const auto lower = [at, end](size_t from, size_t to) {
    if (static_cast<size_t>(end - at) < to) return false;
    for (size_t i = from; i < to; i++) {
      if (at[i] < 'a' || at[i] > 'z') return false;
    }
    return true;
  };
  switch (*at) {
    case 's':
      if (is("sk-") || is("sk_") || is("svc_")) return true;
      return is("shp") && lower(3, 5) && end - at > 5 && at[5] == '_';
    case 'A':
      return is("AIza") || is("AKIA") || is("ASIA") || is("ABSK") || is("AGE-SECRET");
    case 'g':
      if (is("gsk_") || is("github_pat_")) return true;
      if (is("gh") && end - at > 3 && at[3] == '_') return strchr("pousr", at[2]) != nullptr && at[2] != 0;
      if (is("gl")) {
        for (size_t letters = 2; letters <= 5; letters++) {
          if (static_cast<size_t>(end - at) > 2 + letters && lower(2, 2 + letters) && at[2 + letters] == '-') return true;
        }
      }
      return false;
    case 'x':
      return is("xai-") || is("xox") || is("xapp-");
    case 'h':
      return is("hf_");
    case 'n':
      return is("npm_") || is("nvapi-");
    case 'r':
      return is("rk_") || is("r8_");
    case 'p':
      return is("pk_") || is("pplx-") || is("pypi-");
    case 'w':
      return is("whsec_");
    case 'e':
      return is("eyJ");
    case 't':
      return is("tvly-");
    case 'd':
      return is("dop_v1_");
    case 'b':
      return is("bedrock-api-key-");
    default:
      return false;
  }
}

/** The two bytes that beginnings begin with: of a token's pairs hardly one in a hundred is among them. */
struct Pairs {
  uint64_t bits[1024];
  Pairs() {
    memset(bits, 0, sizeof(bits));
    const char* all = "sksvshAIAKASABAGgsgighglxaxohfnpnvrkr8pkpppywheytvdobe";
    for (; *all != 0; all += 2) {
      const unsigned pair = static_cast<uint8_t>(all[0]) << 8 | static_cast<uint8_t>(all[1]);
      bits[pair >> 6] |= 1ull << (pair & 63);
    }
  }
  bool Has(uint8_t first, uint8_t second) const {
    const unsigned pair = static_cast<unsigned>(first) << 8 | second;
    return (bits[pair >> 6] >> (pair & 63) & 1) != 0;
  }
};
const Pairs kPairs;

/**
 * Beginnings that are common within words, or short for what they mean: they count where a token begins alone, which is where
 * its run begins, or behind what is left there of an escape (`\n`, `%0A`, `\u000a`).
 */
const char* const kFirstWords[] = {
    "lin_api_", "lin_oauth_",   "ntn_",         "secret_",    "dapi",   "doo_v1_", "dor_v1_",   "glsa_",    "PMAK-",   "ATATT3",
    "ATCTT3",   "sbp_",         "sb_secret_",   "fm1a_",      "fm1r_",  "fm2_",    "fo1_",      "GOCSPX-",  "lsv2_",   "tgp_v1_",
    "NRAK-",    "IQoJb3JpZ2lu", "FwoGZXIvYXdz", "xkeysib-",   "HRKU-",  "sntryu_", "dckr_",     "figd_",    "pscale_", "e2b_",
    "tskey-",   "rubygems_",
};

/** Which four bytes a first word may begin with: a bit for each sum of them, of which few are none. */
struct FirstBytes {
  uint64_t bits[64];
  FirstBytes() {
    memset(bits, 0, sizeof(bits));
    for (const char* word : kFirstWords) {
      const uint32_t sum = Sum(reinterpret_cast<const uint8_t*>(word));
      bits[sum >> 6] |= 1ull << (sum & 63);
    }
  }
  static uint32_t Sum(const uint8_t* at) {
    uint32_t four;
    memcpy(&four, at, sizeof(four));
    return (four * 0x9e3779b1u) >> 20;
  }
  uint64_t Has(const uint8_t* at) const {
    const uint32_t sum = Sum(at);
    return bits[sum >> 6] >> (sum & 63) & 1;
  }
};
const FirstBytes kFirstBytes;

bool IsFirstWord(const uint8_t* at, const uint8_t* end) {
  for (const char* word : kFirstWords) {
    if (memcmp(at, word, 4) == 0 && StartsWith(at, end, word)) return true;
  }
  return false;
}

/** Whether one of the first words stands where a token begins in the run, which has sixteen bytes at least. */
inline bool BeginsLikeKey(const uint8_t* bytes, size_t start, size_t end) {
  const uint8_t* const run = bytes + start;
  const uint8_t* const stop = bytes + end;
  if (kFirstBytes.Has(run) && IsFirstWord(run, stop)) return true;
  if (start == 0 || (run[-1] != '\\' && run[-1] != '%')) return false;
  for (const size_t skip : {1, 2, 5}) {
    if (kFirstBytes.Has(run + skip) && IsFirstWord(run + skip, stop)) return true;
  }
  return false;
}

#if defined(ASKS_PROCESSOR)
/**
 * Which places may hold one of the pairs, for 32 of them at once: by the halves of both bytes, each of which says for eight
 * groups of pairs whether it is in one of them (the "Teddy" of Hyperscan).
 */
struct PairFilter {
  alignas(16) uint8_t first_low[16];
  alignas(16) uint8_t first_high[16];
  alignas(16) uint8_t second_low[16];
  alignas(16) uint8_t second_high[16];
  PairFilter() {
    memset(this, 0, sizeof(*this));
    // Those with the same first byte together, then those whose first bytes are alike.
    const char* groups[8] = {"sksvsh", "AIAKASABAG", "gsgighgl", "xaxohf", "npnvrkr8", "pkpppy", "whtv", "eydobe"};
    for (int group = 0; group < 8; group++) {
      const uint8_t bit = static_cast<uint8_t>(1 << group);
      for (const char* pair = groups[group]; *pair != 0; pair += 2) {
        first_low[pair[0] & 15] |= bit;
        first_high[pair[0] >> 4] |= bit;
        second_low[pair[1] & 15] |= bit;
        second_high[pair[1] >> 4] |= bit;
      }
    }
  }
};
const PairFilter kPairFilter;

/** HoldsBeginning's walk, 32 places at once. @returns whether there is one; `at` is moved to what is left */
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
  // What must be followed by a dot, which is no byte of a run.
  if (end - at >= 2 && memcmp(end - 2, "SG", 2) == 0) return true;
  if (end - at >= 4 && memcmp(end - 4, "ya29", 4) == 0) return true;
#if defined(ASKS_PROCESSOR)
  if (processor.avx2 && HoldsBeginningAvx2(&at, end)) return true;
#endif
  for (; at + 1 < end; at++) {
    if (kPairs.Has(at[0], at[1]) && IsBeginning(at, end)) return true;
  }
  return false;
}

}  // namespace
