/**
 * The byte work of the capture writer in C++: each function is that of `twin.ts` with the same name, which says what it
 * does and why; `test/native` holds one against the other.
 * Plain Node-API, so that one binary serves every Node. Nothing is kept between calls and nothing outlives one, so it may
 * run on any thread.
 */
#include <node_api.h>

#include <cstdint>
#include <cstring>

#include "arguments.h"

#if defined(__SSE2__)
#include <emmintrin.h>
#endif
#if defined(__x86_64__) && (defined(__GNUC__) || defined(__clang__))
#define ASKS_PROCESSOR 1
#include <immintrin.h>
#endif

namespace {

constexpr size_t kMinRun = 16;
constexpr size_t kContextBytes = 64;
constexpr size_t kTokenBackBytes = 2048;

struct Tables {
  /** Letters, digits, - and _. */
  uint8_t run[256];
  /** What a Bearer token or base64 may hold. */
  uint8_t token[256];
  /** What base64, base64url and escaped slashes are made of. */
  uint8_t base64[256];
  /** What may stand between a label and its token, percent-encoded too. */
  uint8_t after_label[256];
  /** What may stand between a scheme and its token, escaped or percent-encoded too. */
  uint8_t after_scheme[256];

  Tables() {
    memset(this, 0, sizeof(*this));
    for (int byte = 0; byte < 256; byte++) {
      bool letter = (byte >= 'a' && byte <= 'z') || (byte >= 'A' && byte <= 'Z') || (byte >= '0' && byte <= '9');
      run[byte] = letter || byte == '-' || byte == '_';
      token[byte] = letter || (byte != 0 && strchr("._~+/=-", byte) != nullptr);
      base64[byte] = letter || (byte != 0 && strchr("+/=-_\\", byte) != nullptr);
      bool space = byte == ' ' || (byte >= 9 && byte <= 13) || byte == 0xa0;
      after_label[byte] = space || (byte != 0 && strchr("\"'\\:=%023adAD", byte) != nullptr);
      after_scheme[byte] = space || (byte != 0 && strchr("%20+\\tnTN", byte) != nullptr);
    }
  }
};
const Tables kTables;

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
/** What is used of what the processor can do beyond what every one of its kind can: nothing of it at level 0. */
struct Processor {
  bool avx2;
  bool clmul;
  /** 64 bytes at once, on those that do not slow down for it: they came with the wide multiplication. */
  bool wide;
  explicit Processor(uint32_t level) {
    __builtin_cpu_init();
    avx2 = level > 0 && __builtin_cpu_supports("avx2");
    clmul = level > 0 && __builtin_cpu_supports("pclmul") && __builtin_cpu_supports("sse4.1");
    wide = level > 1 && avx2 && clmul && __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
           __builtin_cpu_supports("avx512vbmi") && __builtin_cpu_supports("vpclmulqdq");
  }
};
Processor processor(UINT32_MAX);
#endif

uint32_t UseLevel([[maybe_unused]] uint32_t level) {
#if defined(ASKS_PROCESSOR)
  processor = Processor(level);
  return processor.wide ? 2 : processor.avx2 || processor.clmul ? 1 : 0;
#else
  return 0;
#endif
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

/** Whether the bytes before `at`, down to `lowest`, end with the word in any case. */
bool EndsWith(const uint8_t* bytes, size_t lowest, size_t at, const char* word) {
  const size_t size = strlen(word);
  if (at - lowest < size) return false;
  for (size_t i = 0; i < size; i++) {
    if ((bytes[at - size + i] | 0x20) != word[i]) return false;
  }
  return true;
}

/** Whether a label or a scheme stands before the token that the run is part of, or is glued to it. */
bool IsLabelled(const uint8_t* bytes, size_t start) {
  size_t token = start;
  const size_t lowest = start > kTokenBackBytes ? start - kTokenBackBytes : 0;
  while (token > lowest && kTables.token[bytes[token - 1]]) {
    token--;
    if (bytes[token] == '=' && (EndsWith(bytes, lowest, token, "key") || EndsWith(bytes, lowest, token, "token") ||
                                EndsWith(bytes, lowest, token, "secret") || EndsWith(bytes, lowest, token, "signature"))) {
      return true;
    }
  }
  // At the beginning of a line there is no label.
  if (token > 0 && bytes[token - 1] == '\n') return false;
  const size_t context = token > kContextBytes ? token - kContextBytes : 0;
  size_t at = token;
  while (at > context && kTables.after_label[bytes[at - 1]]) at--;
  if (EndsWith(bytes, context, at, "key") || EndsWith(bytes, context, at, "token") || EndsWith(bytes, context, at, "secret") ||
      EndsWith(bytes, context, at, "authorization")) {
    return true;
  }
  at = token;
  while (at > context && kTables.after_scheme[bytes[at - 1]]) at--;
  return EndsWith(bytes, context, at, "bearer") || EndsWith(bytes, context, at, "basic");
}

bool IsSuspect(const uint8_t* bytes, size_t start, size_t end) {
  if (start >= 3 && bytes[start - 1] == '.') return true;
  return HoldsBeginning(bytes + start, bytes + end) || BeginsLikeKey(bytes, start, end) || IsLabelled(bytes, start);
}

#if defined(__SSE2__)
constexpr size_t kMaskBytes = 64;

/** Of sixteen bytes: a bit for each that is a run byte. */
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

/** Of a mask of run bytes: a bit for each with which sixteen begin that are all in it. */
inline uint64_t MaskRunStarts(uint64_t mask) {
  mask &= mask >> 1;
  mask &= mask >> 2;
  mask &= mask >> 4;
  return mask & mask >> 8;
}

/** Of 64 bytes: a bit for each with which sixteen run bytes begin that are all among them. */
inline uint64_t MaskRuns(const uint8_t* window) {
  return MaskRunStarts(MaskRunBytes(window) | MaskRunBytes(window + 16) << 16 | MaskRunBytes(window + 32) << 32 |
                       MaskRunBytes(window + 48) << 48);
}
#endif

#if defined(ASKS_PROCESSOR)
/** Of 64 bytes: a bit for each that is a run byte. */
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

/** The first of the windows from `at` on with which sixteen run bytes begin somewhere; beyond the last whole one, that. */
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

/** Where a run ends that goes on to `at` at least. */
size_t FindRunEnd(const uint8_t* bytes, size_t at, size_t to) {
#if defined(__SSE2__)
  while (at + 16 <= to && MaskRunBytes(bytes + at) == 0xffff) at += 16;
#endif
  while (at < to && kTables.run[bytes[at]]) at++;
  return at;
}

/** The first run at or after `at`: its start and end in `run`. @returns whether there is one before `to` */
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
        // The last place that could be judged is the one sixteen bytes before the end.
        at += kMaskBytes - kMinRun + 1;
        continue;
      }
      at += static_cast<size_t>(__builtin_ctzll(runs));
    } else
#endif
    {
      // A window that is looked at from its end: its last foreign byte says where the next can start at the earliest.
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

/**
 * The first run at or after `at` that is a suspect: its start and end in `run`.
 * @returns whether there is one before `to`
 */
bool FindSuspect(const uint8_t* bytes, size_t at, size_t to, size_t run[2]) {
  while (FindRun(bytes, at, to, run)) {
    if (IsSuspect(bytes, run[0], run[1])) return true;
    at = run[1] + 1;
  }
  return false;
}

#if defined(ASKS_PROCESSOR)
/** FindNeedle's first part with instructions of twice the width. @returns a place, or -1 with `at` moved on */
__attribute__((target("avx2"))) int64_t FindNeedleAvx2(const uint8_t* bytes, size_t* at, size_t last,
                                                       const uint8_t* needle, size_t size) {
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
      if (memcmp(bytes + hit, needle, size) == 0) return static_cast<int64_t>(hit);
      mask &= mask - 1;
    }
    place += 32;
  }
  *at = place;
  return -1;
}
#endif

/** The first place in [from, to) where the needle begins, which may end beyond; -1 when there is none. */
int64_t FindNeedle(const uint8_t* bytes, size_t length, size_t from, size_t to, const uint8_t* needle, size_t size) {
  if (size == 0 || size > length || from >= to) return -1;
  const size_t last = to - 1 < length - size ? to - 1 : length - size;
  size_t at = from;
#if defined(ASKS_PROCESSOR)
  if (processor.avx2) {
    const int64_t hit = FindNeedleAvx2(bytes, &at, last, needle, size);
    if (hit >= 0) return hit;
  }
#endif
#if defined(__SSE2__)
  // Sixteen places at once: those where the first and the last byte fit.
  const __m128i first = _mm_set1_epi8(static_cast<char>(needle[0]));
  const __m128i tail = _mm_set1_epi8(static_cast<char>(needle[size - 1]));
  while (at + 15 <= last) {
    const __m128i a = _mm_loadu_si128(reinterpret_cast<const __m128i*>(bytes + at));
    const __m128i b = _mm_loadu_si128(reinterpret_cast<const __m128i*>(bytes + at + size - 1));
    unsigned mask = static_cast<unsigned>(_mm_movemask_epi8(_mm_and_si128(_mm_cmpeq_epi8(a, first), _mm_cmpeq_epi8(b, tail))));
    while (mask != 0) {
      const size_t hit = at + static_cast<size_t>(__builtin_ctz(mask));
      if (memcmp(bytes + hit, needle, size) == 0) return static_cast<int64_t>(hit);
      mask &= mask - 1;
    }
    at += 16;
  }
#endif
  while (at <= last) {
    const void* found = memchr(bytes + at, needle[0], last - at + 1);
    if (found == nullptr) return -1;
    at = static_cast<size_t>(static_cast<const uint8_t*>(found) - bytes);
    if (memcmp(bytes + at, needle, size) == 0) return static_cast<int64_t>(at);
    at++;
  }
  return -1;
}

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
  while (FindSuspect(bytes.data, at, to, run)) {
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

/** The first place in [from, to) where one of the packed needles begins; -1. */
int64_t FindPacked(const Bytes& bytes, size_t from, size_t to, const Bytes& needles) {
  int64_t first = -1;
  size_t at = 0;
  while (at + 4 <= needles.length) {
    uint32_t size;
    memcpy(&size, needles.data + at, 4);
    at += 4;
    if (size > needles.length - at) break;
    const size_t limit = first < 0 ? to : static_cast<size_t>(first);
    const int64_t hit = FindNeedle(bytes.data, bytes.length, from, limit, needles.data + at, size);
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

/** A needle that is looked for where one of its runs is. */
struct AnchoredNeedle {
  const uint8_t* needle;
  size_t size;
  /** Its first run. */
  size_t from;
  size_t to;
};

/** A needle without a run, which may be anywhere. */
struct LooseNeedle {
  const uint8_t* needle;
  size_t size;
};

/** The needles of one search by the way they are looked for; those for which there is no room are for the caller. */
struct NeedleSet {
  static constexpr size_t kAnchored = 64;
  static constexpr size_t kLoose = 4;
  AnchoredNeedle anchored[kAnchored];
  size_t anchored_count = 0;
  LooseNeedle loose[kLoose];
  size_t loose_count = 0;
  /** Of the loose ones. */
  size_t longest = 1;
};

/** Whether the run is a suspect, or one of the anchored needles lies around it. */
bool IsRunPlain(const Bytes& bytes, size_t start, size_t end, const NeedleSet& needles) {
  if (IsSuspect(bytes.data, start, end)) return false;
  for (size_t i = 0; i < needles.anchored_count; i++) {
    const AnchoredNeedle& one = needles.anchored[i];
    const size_t span = one.to - one.from;
    if (end - start < span) continue;
    const size_t from = start > one.from ? start - one.from : 0;
    const size_t to = end - span + 1;
    if (to <= one.from) continue;
    if (FindNeedle(bytes.data, bytes.length, from, to - one.from, one.needle, one.size) >= 0) return false;
  }
  return true;
}

#if defined(__SSE2__)
constexpr size_t kGroupWindows = 8;
constexpr size_t kGroupBytes = kGroupWindows * kMaskBytes;
constexpr size_t kMaxGroups = 16;

/** What is to know of up to 16 groups of 8 windows of 64 bytes. */
struct GroupMarks {
  /** For each window a bit for each run byte; first that of the window before all others. */
  uint64_t run[1 + kMaxGroups * kGroupWindows];
  /** Whether sixteen run bytes in succession may end in the group, or a loose needle may begin in it. */
  bool is_open[kMaxGroups];
};

/** Whether in one of the windows sixteen run bytes in succession end; `run[-1]` is the one before them. */
__attribute__((always_inline)) inline bool HoldRun(const uint64_t* run) {
  uint64_t any = 0;
  for (size_t window = 0; window < kGroupWindows; window++) {
    uint64_t before = *(run + window - 1);
    uint64_t mask = run[window];
    mask &= mask << 1 | before >> 63;
    before &= before << 1;
    mask &= mask << 2 | before >> 62;
    before &= before << 2;
    mask &= mask << 4 | before >> 60;
    before &= before << 4;
    any |= mask & (mask << 8 | before >> 56);
  }
  return any != 0;
}

void MarkGroups(const uint8_t* bytes, size_t groups, const NeedleSet& needles, GroupMarks* marks) {
  uint64_t* run = marks->run + 1;
  for (size_t group = 0; group < groups; group++, run += kGroupWindows) {
    __m128i loose = _mm_setzero_si128();
    for (size_t window = 0; window < kGroupWindows; window++, bytes += kMaskBytes) {
      run[window] = MaskRunBytes(bytes) | MaskRunBytes(bytes + 16) << 16 | MaskRunBytes(bytes + 32) << 32 |
                    MaskRunBytes(bytes + 48) << 48;
      for (size_t i = 0; i < needles.loose_count; i++) {
        const LooseNeedle& one = needles.loose[i];
        const __m128i first = _mm_set1_epi8(static_cast<char>(one.needle[0]));
        const __m128i last = _mm_set1_epi8(static_cast<char>(one.needle[one.size - 1]));
        for (size_t at = 0; at < kMaskBytes; at += 16) {
          const __m128i a = _mm_loadu_si128(reinterpret_cast<const __m128i*>(bytes + at));
          const __m128i b = _mm_loadu_si128(reinterpret_cast<const __m128i*>(bytes + at + one.size - 1));
          loose = _mm_or_si128(loose, _mm_and_si128(_mm_cmpeq_epi8(a, first), _mm_cmpeq_epi8(b, last)));
        }
      }
    }
    marks->is_open[group] = _mm_movemask_epi8(loose) != 0 || HoldRun(run);
  }
}
#endif

#if defined(ASKS_PROCESSOR)
/** MarkGroups with instructions of twice the width. */
__attribute__((target("avx2"))) void MarkGroupsAvx2(const uint8_t* bytes, size_t groups, const NeedleSet& needles,
                                                    GroupMarks* marks) {
  uint64_t* run = marks->run + 1;
  __m256i first[NeedleSet::kLoose];
  __m256i last[NeedleSet::kLoose];
  for (size_t i = 0; i < needles.loose_count; i++) {
    first[i] = _mm256_set1_epi8(static_cast<char>(needles.loose[i].needle[0]));
    last[i] = _mm256_set1_epi8(static_cast<char>(needles.loose[i].needle[needles.loose[i].size - 1]));
  }
  for (size_t group = 0; group < groups; group++, run += kGroupWindows) {
    __m256i loose = _mm256_setzero_si256();
    for (size_t window = 0; window < kGroupWindows; window++, bytes += kMaskBytes) {
      run[window] = MaskRunBytesAvx2(bytes);
      for (size_t i = 0; i < needles.loose_count; i++) {
        const uint8_t* ends = bytes + needles.loose[i].size - 1;
        for (size_t at = 0; at < kMaskBytes; at += 32) {
          const __m256i a = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(bytes + at));
          const __m256i b = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(ends + at));
          loose = _mm256_or_si256(loose,
                                  _mm256_and_si256(_mm256_cmpeq_epi8(a, first[i]), _mm256_cmpeq_epi8(b, last[i])));
        }
      }
    }
    marks->is_open[group] = _mm256_movemask_epi8(loose) != 0 || HoldRun(run);
  }
}

/** For each byte below 128 whether it is a run byte: its highest bit. */
struct RunLookup {
  alignas(64) uint8_t rows[128];
  RunLookup() {
    for (int byte = 0; byte < 128; byte++) rows[byte] = kTables.run[byte] ? 0x80 : 0;
  }
};
const RunLookup kRunLookup;

/** HoldRun for all windows at once. */
__attribute__((target("avx512f"))) inline bool HoldRunWide(const uint64_t* run) {
  __m512i mask = _mm512_loadu_si512(run);
  __m512i before = _mm512_loadu_si512(run - 1);
  const auto narrow = [&mask, &before](unsigned places) __attribute__((target("avx512f"), always_inline)) {
    const __m512i carried = _mm512_srli_epi64(before, 64 - places);
    mask = _mm512_and_si512(mask, _mm512_or_si512(_mm512_slli_epi64(mask, places), carried));
    before = _mm512_and_si512(before, _mm512_slli_epi64(before, places));
  };
  narrow(1);
  narrow(2);
  narrow(4);
  narrow(8);
  return _mm512_test_epi64_mask(mask, mask) != 0;
}

/** MarkGroups, a window at once; `count` is how many loose needles there are. */
template <size_t count>
__attribute__((target("avx512f,avx512bw,avx512vbmi"))) void MarkGroupsWide(const uint8_t* bytes, size_t groups,
                                                                           const NeedleSet& needles,
                                                                           GroupMarks* marks) {
  const __m512i low = _mm512_load_si512(kRunLookup.rows);
  const __m512i high = _mm512_load_si512(kRunLookup.rows + 64);
  uint64_t* run = marks->run + 1;
  __m512i first[NeedleSet::kLoose];
  __m512i last[NeedleSet::kLoose];
  size_t reach[NeedleSet::kLoose];
  for (size_t i = 0; i < count; i++) {
    reach[i] = needles.loose[i].size - 1;
    first[i] = _mm512_set1_epi8(static_cast<char>(needles.loose[i].needle[0]));
    last[i] = _mm512_set1_epi8(static_cast<char>(needles.loose[i].needle[reach[i]]));
  }
  for (size_t group = 0; group < groups; group++, run += kGroupWindows) {
    // A byte is 0 where, in one of the windows, the first and the last byte of a needle fit.
    __m512i loose = _mm512_set1_epi8(-1);
    for (size_t window = 0; window < kGroupWindows; window++, bytes += kMaskBytes) {
      const __m512i all = _mm512_loadu_si512(bytes);
      run[window] = _mm512_movepi8_mask(_mm512_andnot_si512(all, _mm512_permutex2var_epi8(low, all, high)));
      for (size_t i = 0; i < count; i++) {
        const __m512i ends = _mm512_xor_si512(_mm512_loadu_si512(bytes + reach[i]), last[i]);
        // 0xf6: the first, or the other two xored.
        loose = _mm512_min_epu8(loose, _mm512_ternarylogic_epi64(ends, all, first[i], 0xf6));
      }
    }
    marks->is_open[group] = _mm512_testn_epi8_mask(loose, loose) != 0 || HoldRunWide(run);
  }
}
#endif

#if defined(__SSE2__)
/** The widest of the three. */
void MarkGroupsFast(const uint8_t* bytes, size_t groups, const NeedleSet& needles, GroupMarks* marks) {
#if defined(ASKS_PROCESSOR)
  if (processor.wide) {
    switch (needles.loose_count) {
      case 0:
        return MarkGroupsWide<0>(bytes, groups, needles, marks);
      case 1:
        return MarkGroupsWide<1>(bytes, groups, needles, marks);
      case 2:
        return MarkGroupsWide<2>(bytes, groups, needles, marks);
      case 3:
        return MarkGroupsWide<3>(bytes, groups, needles, marks);
      default:
        return MarkGroupsWide<NeedleSet::kLoose>(bytes, groups, needles, marks);
    }
  }
  if (processor.avx2) return MarkGroupsAvx2(bytes, groups, needles, marks);
#endif
  MarkGroups(bytes, groups, needles, marks);
}

/**
 * The walk of HoldsNone over all whole groups, for runs and loose needles together: a body of hundreds of KB waits for
 * memory once instead of once for each question.
 * @param run_from where the search for runs is to go on; `loose_from` where that for loose needles is
 * @returns whether there is nothing
 */
bool AreGroupsPlain(const Bytes& bytes, const NeedleSet& needles, size_t* run_from, size_t* loose_from) {
  GroupMarks marks;
  // All that begins within a group lies within the bytes.
  const size_t all = bytes.length < needles.longest ? 0 : (bytes.length - needles.longest + 1) / kGroupBytes;
  // The end of the last run; and how many run bytes the windows before ended with, fewer than make a run.
  size_t done = 0;
  size_t carried = 0;
  marks.run[0] = 0;
  for (size_t marked = 0; marked < all; marked += kMaxGroups) {
    const size_t groups = all - marked < kMaxGroups ? all - marked : kMaxGroups;
    MarkGroupsFast(bytes.data + marked * kGroupBytes, groups, needles, &marks);
    for (size_t group = 0; group < groups; group++) {
      const uint64_t* run = marks.run + 1 + group * kGroupWindows;
      const size_t from = (marked + group) * kGroupBytes;
      if (marks.is_open[group]) {
        for (size_t i = 0; i < needles.loose_count; i++) {
          const LooseNeedle& one = needles.loose[i];
          if (FindNeedle(bytes.data, bytes.length, from, from + kGroupBytes, one.needle, one.size) >= 0) return false;
        }
        for (size_t window = 0; window < kGroupWindows; window++) {
          const size_t at = from + window * kMaskBytes;
          uint64_t mask = run[window];
          if (done > at) mask = done - at < kMaskBytes ? mask & ~0ull << (done - at) : 0;
          while (mask != 0) {
            const uint64_t starts = MaskRunStarts(mask);
            const size_t leading = ~mask == 0 ? kMaskBytes : static_cast<size_t>(__builtin_ctzll(~mask));
            size_t start;
            if (carried + leading >= kMinRun) start = at - carried;
            else if (starts != 0) start = at + static_cast<size_t>(__builtin_ctzll(starts));
            else break;
            const size_t end = FindRunEnd(bytes.data, start + kMinRun, bytes.length);
            if (!IsRunPlain(bytes, start, end, needles)) return false;
            carried = 0;
            done = end;
            mask = end - at < kMaskBytes ? mask & ~0ull << (end - at) : 0;
          }
          carried = static_cast<size_t>(__builtin_clzll(~mask));
        }
      } else {
        // Of what a run before left over there is nothing in it: the run would have ended here, and opened it, or earlier.
        carried = static_cast<size_t>(__builtin_clzll(~run[kGroupWindows - 1]));
      }
    }
    marks.run[0] = marks.run[groups * kGroupWindows];
  }
  const size_t end = all * kGroupBytes;
  *run_from = done > end ? done : end - carried;
  *loose_from = end;
  return true;
}
#endif

/**
 * Whether none of the needles is in the bytes, and no suspect. A needle that holds a run can only be where a run is, and
 * of these a text has few; the others may be anywhere.
 */
bool HoldsNone(const Bytes& bytes, const Bytes& packed) {
  NeedleSet needles;
  for (size_t at = 0; at + 4 <= packed.length;) {
    uint32_t size;
    memcpy(&size, packed.data + at, 4);
    at += 4;
    if (size > packed.length - at) break;
    const uint8_t* needle = packed.data + at;
    at += size;
    if (size == 0 || size > bytes.length) continue;
    size_t run[2];
    if (needles.anchored_count < NeedleSet::kAnchored && FindRun(needle, 0, size, run)) {
      needles.anchored[needles.anchored_count++] = {needle, size, run[0], run[1]};
    } else if (needles.loose_count < NeedleSet::kLoose) {
      needles.loose[needles.loose_count++] = {needle, size};
      if (size > needles.longest) needles.longest = size;
    } else if (FindNeedle(bytes.data, bytes.length, 0, bytes.length, needle, size) >= 0) {
      return false;
    }
  }
  size_t run_from = 0;
  size_t loose_from = 0;
#if defined(__SSE2__)
  if (!AreGroupsPlain(bytes, needles, &run_from, &loose_from)) return false;
#endif
  for (size_t i = 0; i < needles.loose_count; i++) {
    const LooseNeedle& one = needles.loose[i];
    if (FindNeedle(bytes.data, bytes.length, loose_from, bytes.length, one.needle, one.size) >= 0) return false;
  }
  size_t run[2];
  for (size_t at = run_from; FindRun(bytes.data, at, bytes.length, run); at = run[1] + 1) {
    if (!IsRunPlain(bytes, run[0], run[1], needles)) return false;
  }
  return true;
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
  const bool plain = HoldsNone(bytes, needles) && FindBase64(bytes, 0, bytes.length, chars) < 0;
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
  size_t max = a.length - a_from < b.length - b_from ? a.length - a_from : b.length - b_from;
  if (!(limit > 0)) return MakeNumber(env, 0);
  if (limit < static_cast<double>(max)) max = static_cast<size_t>(limit);
  const uint8_t* left = a.data + a_from;
  const uint8_t* right = b.data + b_from;
  size_t at = 0;
  while (at + 8 <= max) {
    uint64_t x;
    uint64_t y;
    memcpy(&x, left + at, 8);
    memcpy(&y, right + at, 8);
    if (x != y) break;
    at += 8;
  }
  while (at < max && left[at] == right[at]) at++;
  return MakeNumber(env, static_cast<double>(at));
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
  size_t max = a_to < b_to ? a_to : b_to;
  if (!(limit > 0)) return MakeNumber(env, 0);
  if (limit < static_cast<double>(max)) max = static_cast<size_t>(limit);
  const uint8_t* left = a.data + a_to;
  const uint8_t* right = b.data + b_to;
  size_t at = 0;
  while (at + 8 <= max) {
    uint64_t x;
    uint64_t y;
    memcpy(&x, left - at - 8, 8);
    memcpy(&y, right - at - 8, 8);
    if (x != y) break;
    at += 8;
  }
  while (at < max && left[-1 - static_cast<ptrdiff_t>(at)] == right[-1 - static_cast<ptrdiff_t>(at)]) at++;
  return MakeNumber(env, static_cast<double>(at));
}

/** memmove with stores that pass the caches by, for memory that does not overlap. */
void CopyPastCaches(uint8_t* into, const uint8_t* from, size_t length) {
#if defined(__SSE2__)
  constexpr size_t kLine = 64;
  const size_t beyond = reinterpret_cast<uintptr_t>(into) % kLine;
  const size_t head = beyond == 0 ? 0 : kLine - beyond;
  if (length >= head + kLine) {
    memcpy(into, from, head);
    into += head;
    from += head;
    length -= head;
    for (; length >= kLine; into += kLine, from += kLine, length -= kLine) {
      const __m128i* source = reinterpret_cast<const __m128i*>(from);
      __m128i* target = reinterpret_cast<__m128i*>(into);
      const __m128i a = _mm_loadu_si128(source);
      const __m128i b = _mm_loadu_si128(source + 1);
      const __m128i c = _mm_loadu_si128(source + 2);
      const __m128i d = _mm_loadu_si128(source + 3);
      _mm_stream_si128(target, a);
      _mm_stream_si128(target + 1, b);
      _mm_stream_si128(target + 2, c);
      _mm_stream_si128(target + 3, d);
    }
    // Such stores wait for nobody, and another thread may be told of them next.
    _mm_sfence();
  }
#endif
  if (length > 0) memcpy(into, from, length);
}

/** The arguments of copyBytes and copyBytesAside. @returns whether they are as they should be */
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

/** CRC-32 (ISO 3309, as zlib has it), a byte at a time; `crc` and the result are inverted. */
struct CrcTable {
  uint32_t rows[8][256];
  CrcTable() {
    for (uint32_t byte = 0; byte < 256; byte++) {
      uint32_t crc = byte;
      for (int bit = 0; bit < 8; bit++) crc = (crc >> 1) ^ (0xedb88320u & (0u - (crc & 1)));
      rows[0][byte] = crc;
    }
    for (uint32_t byte = 0; byte < 256; byte++) {
      for (int row = 1; row < 8; row++) {
        rows[row][byte] = (rows[row - 1][byte] >> 8) ^ rows[0][rows[row - 1][byte] & 0xff];
      }
    }
  }
};
const CrcTable kCrcTable;

uint32_t UpdateCrc(uint32_t crc, const uint8_t* bytes, size_t length) {
  const auto& rows = kCrcTable.rows;
  for (; length >= 8; bytes += 8, length -= 8) {
    const uint32_t low = crc ^ (bytes[0] | bytes[1] << 8 | bytes[2] << 16 | static_cast<uint32_t>(bytes[3]) << 24);
    crc = rows[7][low & 0xff] ^ rows[6][low >> 8 & 0xff] ^ rows[5][low >> 16 & 0xff] ^ rows[4][low >> 24] ^
          rows[3][bytes[4]] ^ rows[2][bytes[5]] ^ rows[1][bytes[6]] ^ rows[0][bytes[7]];
  }
  for (; length > 0; bytes++, length--) crc = (crc >> 8) ^ rows[0][(crc ^ *bytes) & 0xff];
  return crc;
}

#if defined(ASKS_PROCESSOR)
/** The sixteen bytes there. */
__attribute__((target("sse4.1,pclmul"))) inline __m128i Load(const uint8_t* at) {
  return _mm_loadu_si128(reinterpret_cast<const __m128i*>(at));
}

/** What stands for `x` and, behind it by the distance that `k` is for, `next`. */
__attribute__((target("sse4.1,pclmul"))) inline __m128i Fold(__m128i x, __m128i k, __m128i next) {
  return _mm_xor_si128(_mm_xor_si128(_mm_clmulepi64_si128(x, k, 0x11), _mm_clmulepi64_si128(x, k, 0x00)), next);
}

/** The checksum of 64 bytes, given as FoldCrc has them, and of those that follow, a multiple of 16. */
__attribute__((target("sse4.1,pclmul"))) uint32_t FinishCrc(__m128i x1, __m128i x2, __m128i x3, __m128i x4,
                                                           const uint8_t* bytes, size_t length) {
  __m128i k = _mm_set_epi64x(0x00ccaa009e, 0x01751997d0);
  x1 = Fold(x1, k, x2);
  x1 = Fold(x1, k, x3);
  x1 = Fold(x1, k, x4);
  for (; length >= 16; bytes += 16, length -= 16) x1 = Fold(x1, k, Load(bytes));
  // From 128 bits to 64, then Barrett's reduction to 32.
  const __m128i low = _mm_setr_epi32(~0, 0, ~0, 0);
  x1 = _mm_xor_si128(_mm_srli_si128(x1, 8), _mm_clmulepi64_si128(x1, k, 0x10));
  x2 = _mm_srli_si128(x1, 4);
  x1 = _mm_xor_si128(_mm_clmulepi64_si128(_mm_and_si128(x1, low), _mm_set_epi64x(0, 0x0163cd6124), 0x00), x2);
  k = _mm_set_epi64x(0x01f7011641, 0x01db710641);
  x2 = _mm_and_si128(_mm_clmulepi64_si128(_mm_and_si128(x1, low), k, 0x10), low);
  x1 = _mm_xor_si128(x1, _mm_clmulepi64_si128(x2, k, 0x00));
  return static_cast<uint32_t>(_mm_extract_epi32(x1, 1));
}

/**
 * The same by carry-less multiplication, for at least 64 bytes and a multiple of 16: V. Gopal et al., "Fast CRC
 * Computation for Generic Polynomials Using PCLMULQDQ Instruction", Intel 2009, with the constants for the reflected
 * polynomial that stand there.
 */
__attribute__((target("sse4.1,pclmul"))) uint32_t FoldCrc(uint32_t crc, const uint8_t* bytes, size_t length) {
  __m128i x1 = _mm_xor_si128(Load(bytes), _mm_cvtsi32_si128(static_cast<int>(crc)));
  __m128i x2 = Load(bytes + 16);
  __m128i x3 = Load(bytes + 32);
  __m128i x4 = Load(bytes + 48);
  const __m128i k = _mm_set_epi64x(0x01c6e41596, 0x0154442bd4);
  bytes += 64;
  length -= 64;
  for (; length >= 64; bytes += 64, length -= 64) {
    x1 = Fold(x1, k, Load(bytes));
    x2 = Fold(x2, k, Load(bytes + 16));
    x3 = Fold(x3, k, Load(bytes + 32));
    x4 = Fold(x4, k, Load(bytes + 48));
  }
  return FinishCrc(x1, x2, x3, x4, bytes, length);
}

#define WIDE_FOLDS "avx512f,avx512bw,vpclmulqdq,pclmul"

/** Load and Fold of four at once. */
__attribute__((target(WIDE_FOLDS))) inline __m512i FoldWide(__m512i x, __m512i k, const uint8_t* next) {
  // 0x96: the three xored.
  return _mm512_ternarylogic_epi64(_mm512_clmulepi64_epi128(x, k, 0x11), _mm512_clmulepi64_epi128(x, k, 0x00),
                                   _mm512_loadu_si512(next), 0x96);
}

/** FoldCrc for at least 256 bytes, by steps of 256: their constants are x^2080 and x^2016 modulo the polynomial. */
__attribute__((target(WIDE_FOLDS))) uint32_t FoldCrcWide(uint32_t crc, const uint8_t* bytes, size_t length) {
  const __m512i far = _mm512_broadcast_i32x4(_mm_set_epi64x(0x01322d1430, 0x011542778a));
  const __m512i near = _mm512_broadcast_i32x4(_mm_set_epi64x(0x01c6e41596, 0x0154442bd4));
  __m512i x1 = _mm512_xor_si512(_mm512_loadu_si512(bytes),
                                _mm512_zextsi128_si512(_mm_cvtsi32_si128(static_cast<int>(crc))));
  __m512i x2 = _mm512_loadu_si512(bytes + 64);
  __m512i x3 = _mm512_loadu_si512(bytes + 128);
  __m512i x4 = _mm512_loadu_si512(bytes + 192);
  bytes += 256;
  length -= 256;
  for (; length >= 256; bytes += 256, length -= 256) {
    x1 = FoldWide(x1, far, bytes);
    x2 = FoldWide(x2, far, bytes + 64);
    x3 = FoldWide(x3, far, bytes + 128);
    x4 = FoldWide(x4, far, bytes + 192);
  }
  const auto join = [near](__m512i x, __m512i next) __attribute__((target(WIDE_FOLDS))) {
    return _mm512_ternarylogic_epi64(_mm512_clmulepi64_epi128(x, near, 0x11), _mm512_clmulepi64_epi128(x, near, 0x00),
                                     next, 0x96);
  };
  x1 = join(join(join(x1, x2), x3), x4);
  for (; length >= 64; bytes += 64, length -= 64) x1 = FoldWide(x1, near, bytes);
  return FinishCrc(_mm512_castsi512_si128(x1), _mm512_extracti32x4_epi32(x1, 1), _mm512_extracti32x4_epi32(x1, 2),
                   _mm512_extracti32x4_epi32(x1, 3), bytes, length);
}
#endif

/** UpdateCrc, by the faster of the two ways. */
uint32_t ExtendCrc(uint32_t crc, const uint8_t* bytes, size_t length) {
#if defined(ASKS_PROCESSOR)
  if (processor.clmul && length >= 64) {
    const size_t whole = length & ~static_cast<size_t>(15);
    crc = processor.wide && whole >= 256 ? FoldCrcWide(crc, bytes, whole) : FoldCrc(crc, bytes, whole);
    bytes += whole;
    length -= whole;
  }
#endif
  return UpdateCrc(crc, bytes, length);
}

/** measureChecksum(bytes, from, to) */
napi_value MeasureChecksum(napi_env env, napi_callback_info info) {
  napi_value arguments[3];
  Bytes bytes;
  size_t from;
  size_t to;
  if (!ReadArguments(env, info, 3, arguments) || !ReadBytes(env, arguments[0], &bytes) ||
      !ReadOffset(env, arguments[1], bytes.length, &from) || !ReadOffset(env, arguments[2], bytes.length, &to)) {
    return nullptr;
  }
  const uint32_t crc = to > from ? ~ExtendCrc(~0u, bytes.data + from, to - from) : 0;
  return MakeNumber(env, static_cast<double>(crc));
}

/** extendChecksum(checksum, bytes) */
napi_value ExtendChecksum(napi_env env, napi_callback_info info) {
  napi_value arguments[2];
  uint32_t checksum;
  Bytes bytes;
  if (!ReadArguments(env, info, 2, arguments) || !ReadWhole(env, arguments[0], 0, &checksum) ||
      !ReadBytes(env, arguments[1], &bytes)) {
    return nullptr;
  }
  return MakeNumber(env, static_cast<double>(~ExtendCrc(~checksum, bytes.data, bytes.length)));
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
      {"isPlain", IsPlain},
      {"measureCommonPrefix", MeasureCommonPrefix},
      {"measureCommonSuffix", MeasureCommonSuffix},
      {"copyBytes", CopyBytes},
      {"copyBytesAside", CopyBytesAside},
      {"measureChecksum", MeasureChecksum},
      {"extendChecksum", ExtendChecksum},
      {"measureMisalignment", MeasureMisalignment},
      {"setWidestLevel", SetWidestLevel<UseLevel>},
  });
}

}  // namespace

NAPI_MODULE(NODE_GYP_MODULE_NAME, Init)
