/** Which instructions the processor has beyond those of every one of its kind; asked once. */
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
/** What is used of what the processor can do beyond what every one of its kind can: nothing of it at level 0. */
struct Processor {
  bool avx2;
  /** 64 bytes at once, on those that do not slow down for it: they came with the wide multiplication. */
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
