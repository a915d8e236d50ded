/**
 * Checks in one pass that a body contains neither a suspect nor a needle.
 */
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>

#include "byte-classes.h"
#include "needles.h"
#include "processor.h"
#include "runs.h"
#include "suspects.h"
#include "view.h"

namespace {

/** A needle that contains a run, and is therefore searched for only around runs. */
struct AnchoredNeedle {
  const uint8_t* needle;
  size_t size;
  /** Start and end of the needle's first run. */
  size_t from;
  size_t to;
};

/** A needle without a run, which may be at any position. */
struct LooseNeedle {
  const uint8_t* needle;
  size_t size;
};

/**
 * The needles of one search, grouped by search method. The caller searches separately for needles for which the set has
 * no room.
 */
struct NeedleSet {
  static constexpr size_t kAnchored = 64;
  static constexpr size_t kLoose = 4;
  AnchoredNeedle anchored[kAnchored];
  size_t anchored_count = 0;
  LooseNeedle loose[kLoose];
  size_t loose_count = 0;
  /** Length of the longest loose needle. */
  size_t longest = 1;
  Patience patience;

  explicit NeedleSet(size_t bytes) : patience(bytes) {}
};

/**
 * Whether the run is not a suspect, and no anchored needle is found at it. Returns false, too, if the search reaches
 * its limit of compared bytes.
 */
bool IsRunPlain(const Bytes& bytes, size_t start, size_t end, NeedleSet& needles, TokenWalk* walk) {
  if (IsSuspect(bytes.data, start, end, walk)) return false;
  for (size_t i = 0; i < needles.anchored_count; i++) {
    const AnchoredNeedle& one = needles.anchored[i];
    const size_t span = one.to - one.from;
    if (end - start < span) continue;
    const size_t from = start > one.from ? start - one.from : 0;
    const size_t to = end - span + 1;
    if (to <= one.from) continue;
    if (FindNeedle(bytes.data, bytes.length, from, to - one.from, one.needle, one.size, &needles.patience) >= 0) return false;
  }
  return !needles.patience.IsSpent();
}

#if defined(__SSE2__)
constexpr size_t kGroupWindows = 8;
constexpr size_t kGroupBytes = kGroupWindows * kMaskBytes;
constexpr size_t kMaxGroups = 16;

/** Intermediate results for up to 16 groups of 8 windows of 64 bytes. */
struct GroupMarks {
  /** For each window, a bit for each run byte. The first element is the window before the first group. */
  uint64_t run[1 + kMaxGroups * kGroupWindows];
  /** For each group, whether sixteen consecutive run bytes may end in it or a loose needle may begin in it. */
  bool is_open[kMaxGroups];
};

/** Whether sixteen consecutive run bytes end in one of the windows; `run[-1]` is the window before them. */
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

/** For each byte below 128, the highest bit says whether it is a run byte. */
struct RunLookup {
  alignas(64) uint8_t rows[128];
  RunLookup() {
    for (int byte = 0; byte < 128; byte++) rows[byte] = kTables.run[byte] ? 0x80 : 0;
  }
};
const RunLookup kRunLookup;

/** HoldRun for all windows of a group at once. */
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

/** MarkGroups for one window at a time; `count` is the number of loose needles. */
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
    // A byte becomes 0 if, in any window of the group, both the first and the last byte of a needle match there.
    __m512i loose = _mm512_set1_epi8(-1);
    for (size_t window = 0; window < kGroupWindows; window++, bytes += kMaskBytes) {
      const __m512i all = _mm512_loadu_si512(bytes);
      run[window] = _mm512_movepi8_mask(_mm512_andnot_si512(all, _mm512_permutex2var_epi8(low, all, high)));
      for (size_t i = 0; i < count; i++) {
        const __m512i ends = _mm512_xor_si512(_mm512_loadu_si512(bytes + reach[i]), last[i]);
        // 0xf6 computes `a | (b ^ c)`.
        loose = _mm512_min_epu8(loose, _mm512_ternarylogic_epi64(ends, all, first[i], 0xf6));
      }
    }
    marks->is_open[group] = _mm512_testn_epi8_mask(loose, loose) != 0;
  }
  // A separate loop: a wide load of bytes that narrow stores have just written would wait for these stores.
  for (size_t group = 0; group < groups; group++) {
    if (HoldRunWide(marks->run + 1 + group * kGroupWindows)) marks->is_open[group] = true;
  }
}
#endif

#if defined(__SSE2__)
/** Calls the version with the widest instructions that this processor has. */
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
 * The loop of HoldsNone over all whole groups. It searches for runs and loose needles at once, so that a body of
 * hundreds of KB is loaded from memory only once.
 * @param run_from receives where the search for runs must continue
 * @param loose_from receives where the search for loose needles must continue
 * @returns whether nothing was found
 */
bool AreGroupsPlain(const Bytes& bytes, NeedleSet& needles, TokenWalk* walk, size_t* run_from,
                    size_t* loose_from) {
  GroupMarks marks;
  // Only groups after which the longest loose needle still fits into the bytes.
  const size_t all = bytes.length < needles.longest ? 0 : (bytes.length - needles.longest + 1) / kGroupBytes;
  // `done` is the end of the last run. `carried` counts the run bytes at the end of the previous windows; they are too
  // few for a run.
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
          if (FindNeedle(bytes.data, bytes.length, from, from + kGroupBytes, one.needle, one.size,
                         &needles.patience) >= 0) {
            return false;
          }
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
            if (!IsRunPlain(bytes, start, end, needles, walk)) return false;
            carried = 0;
            done = end;
            mask = end - at < kMaskBytes ? mask & ~0ull << (end - at) : 0;
          }
          carried = static_cast<size_t>(__builtin_clzll(~mask));
        }
      } else {
        // No earlier run continues here: if it ended in this group, the group would be open.
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
 * Whether the bytes contain neither a needle nor a suspect. A needle that contains a run is searched for only around
 * runs, which are rare in a text; other needles are searched for everywhere. Returns false if the search reaches its
 * limit of compared bytes.
 */
bool HoldsNone(const Bytes& bytes, const Bytes& packed) {
  NeedleSet needles(bytes.length);
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
    } else if (FindNeedle(bytes.data, bytes.length, 0, bytes.length, needle, size, &needles.patience) >= 0) {
      return false;
    }
  }
  TokenWalk walk;
  size_t run_from = 0;
  size_t loose_from = 0;
#if defined(__SSE2__)
  if (!AreGroupsPlain(bytes, needles, &walk, &run_from, &loose_from)) return false;
#endif
  for (size_t i = 0; i < needles.loose_count; i++) {
    const LooseNeedle& one = needles.loose[i];
    if (FindNeedle(bytes.data, bytes.length, loose_from, bytes.length, one.needle, one.size, &needles.patience) >= 0) return false;
  }
  if (needles.patience.IsSpent()) return false;
  size_t run[2];
  for (size_t at = run_from; FindRun(bytes.data, at, bytes.length, run); at = run[1] + 1) {
    if (!IsRunPlain(bytes, run[0], run[1], needles, &walk)) return false;
  }
  return true;
}

}  // namespace
