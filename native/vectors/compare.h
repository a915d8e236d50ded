/**
 * The inner product of a vector and a stored one, with exactly the same result on every machine and with all
 * instructions. `vector-engine.ts` has the same in TypeScript, and `src/search/short-vector.ts` writes what is stored: a
 * 16-bit integer for each dimension, then the value of 1 as a 32-bit float.
 */
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>

namespace {

/** Parallel sums. The fallback has the same number, and adds them up in the same order. */
constexpr size_t kSums = 8;

/** Numbers of a stored vector that hold its scale. */
constexpr size_t kScaleNumbers = sizeof(float) / sizeof(int16_t);

/**
 * Inner product. The product of a 32-bit float and a 16-bit integer is exact in 64 bits. With a fixed order of additions,
 * every machine therefore gets the same result, whether it multiplies and adds in one step or in two.
 */
inline __attribute__((always_inline)) double MultiplyAdd(const double* query, const int16_t* row, size_t dimensions) {
  double sums[kSums] = {0};
  size_t at = 0;
  for (; at + kSums <= dimensions; at += kSums) {
    for (size_t i = 0; i < kSums; i++) sums[i] += query[at + i] * static_cast<double>(row[at + i]);
  }
  for (size_t i = 0; at + i < dimensions; i++) sums[i] += query[at + i] * static_cast<double>(row[at + i]);
  for (size_t width = kSums / 2; width > 0; width /= 2) {
    for (size_t i = 0; i < width; i++) sums[i] += sums[i + width];
  }
  float scale;
  memcpy(&scale, row + dimensions, sizeof(scale));
  return sums[0] * static_cast<double>(scale);
}

using Compare = double (*)(const double*, const int16_t*, size_t);

double CompareAnywhere(const double* query, const int16_t* row, size_t dimensions) {
  return MultiplyAdd(query, row, dimensions);
}

#if defined(__x86_64__) && (defined(__GNUC__) || defined(__clang__))
__attribute__((target("avx2,fma"))) double CompareAvx2(const double* query, const int16_t* row, size_t dimensions) {
  return MultiplyAdd(query, row, dimensions);
}

Compare ChooseCompare(uint32_t level) {
  __builtin_cpu_init();
  const bool has_wide = __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma");
  return level > 0 && has_wide ? CompareAvx2 : CompareAnywhere;
}
#else
Compare ChooseCompare(uint32_t) { return CompareAnywhere; }
#endif

Compare compare = ChooseCompare(UINT32_MAX);

uint32_t UseCompareLevel(uint32_t level) {
  compare = ChooseCompare(level);
  return compare == CompareAnywhere ? 0 : 1;
}

}  // namespace
