/**
 * Determines once which instructions this processor has in addition to the baseline of its architecture.
 */
#pragma once

#include <cstddef>
#include <cstdint>

#if defined(__SSE2__)
#include <emmintrin.h>
#endif
#if defined(__x86_64__) && (defined(__GNUC__) || defined(__clang__))
#define ASKS_PROCESSOR 1
#include <immintrin.h>
#endif

namespace {

#if defined(ASKS_PROCESSOR)
/** The additional instructions in use; level 0 uses none. */
struct Processor {
  bool avx2;
  /**
   * Instructions for 64 bytes at once (AVX-512). Only for processors with VPCLMULQDQ, because older ones lower their
   * clock for such instructions.
   */
  bool wide;
  explicit Processor(uint32_t level) {
    __builtin_cpu_init();
    avx2 = level > 0 && __builtin_cpu_supports("avx2");
    wide = level > 1 && avx2 && __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
           __builtin_cpu_supports("avx512vbmi") && __builtin_cpu_supports("vpclmulqdq");
  }
};
Processor processor(UINT32_MAX);
#endif

uint32_t UseLevel([[maybe_unused]] uint32_t level) {
#if defined(ASKS_PROCESSOR)
  processor = Processor(level);
  return processor.wide ? 2 : processor.avx2 ? 1 : 0;
#else
  return 0;
#endif
}

}  // namespace
