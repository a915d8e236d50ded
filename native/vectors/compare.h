/**
 * Computes the inner product of a vector and a stored vector. The result is exactly the same on every machine, whatever
 * instructions it has. `vector-engine.ts` has a TypeScript version. There are two forms of stored vectors: short ones
 * (`src/search/short-vector.ts`: a 16-bit integer for each dimension, then the scale as a 32-bit float) and packed
 * ones (`src/search/packed-vector.ts`: the low eight bits of each integer, the signs, the exponents, the factor).
 */
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>

namespace {

/** Number of parallel sums. The fallback uses as many, and adds them up in the same order. */
constexpr size_t kSums = 8;

/** How many 16-bit numbers of a short vector hold its scale. */
constexpr size_t kScaleNumbers = sizeof(float) / sizeof(int16_t);

/** How many numbers of a packed vector share an exponent. One byte holds the signs of `kSums` numbers. */
constexpr size_t kBlockNumbers = 32;

constexpr size_t CountShort(size_t dimensions) { return dimensions + kScaleNumbers; }

constexpr size_t CountPacked(size_t dimensions) {
  return dimensions + (dimensions + kSums - 1) / kSums + (dimensions + kBlockNumbers - 1) / kBlockNumbers +
         sizeof(float);
}

// The product of a 32-bit float and an integer of at most 16 bits is exact in a 64-bit float, and so is a division by a
// power of two. The order of additions is fixed. So every machine gets the same result, even if it multiplies and adds
// in one step.

inline __attribute__((always_inline)) double AddUp(double* sums) {
  for (size_t width = kSums / 2; width > 0; width /= 2) {
    for (size_t i = 0; i < width; i++) sums[i] += sums[i + width];
  }
  return sums[0];
}

inline __attribute__((always_inline)) double MultiplyShort(const double* query, const int16_t* row, size_t dimensions) {
  double sums[kSums] = {0};
  size_t at = 0;
  for (; at + kSums <= dimensions; at += kSums) {
    for (size_t i = 0; i < kSums; i++) sums[i] += query[at + i] * static_cast<double>(row[at + i]);
  }
  for (size_t i = 0; at + i < dimensions; i++) sums[i] += query[at + i] * static_cast<double>(row[at + i]);
  float scale;
  memcpy(&scale, row + dimensions, sizeof(scale));
  return AddUp(sums) * static_cast<double>(scale);
}

/** Computes 2 to the power of -exponent. */
inline __attribute__((always_inline)) double UnitOf(uint8_t exponent) {
  const uint64_t bits = static_cast<uint64_t>(1023 - exponent) << 52;
  double unit;
  memcpy(&unit, &bits, sizeof(unit));
  return unit;
}

inline __attribute__((always_inline)) double MultiplyPacked(const double* query, const uint8_t* row, size_t dimensions) {
  const uint8_t* const signs = row + dimensions;
  const uint8_t* const exponents = signs + (dimensions + kSums - 1) / kSums;
  double sums[kSums] = {0};
  for (size_t start = 0; start < dimensions; start += kBlockNumbers) {
    const double unit = UnitOf(exponents[start / kBlockNumbers]);
    double parts[kSums] = {0};
    if (start + kBlockNumbers <= dimensions) {
      const uint8_t* const four = signs + start / kSums;
      const uint32_t negative = four[0] | static_cast<uint32_t>(four[1]) << 8 | static_cast<uint32_t>(four[2]) << 16 |
                                static_cast<uint32_t>(four[3]) << 24;
      int32_t wholes[kBlockNumbers];
      for (size_t i = 0; i < kBlockNumbers; i++)
        wholes[i] = row[start + i] - static_cast<int32_t>((negative >> i & 1) << 8);
      for (size_t at = 0; at < kBlockNumbers; at += kSums) {
        for (size_t i = 0; i < kSums; i++) parts[i] += query[start + at + i] * static_cast<double>(wholes[at + i]);
      }
    } else {
      for (size_t at = start; at < dimensions; at++) {
        const int32_t whole = row[at] - ((signs[at / kSums] >> at % kSums & 1) << 8);
        parts[at % kSums] += query[at] * static_cast<double>(whole);
      }
    }
    for (size_t i = 0; i < kSums; i++) sums[i] += parts[i] * unit;
  }
  float factor;
  memcpy(&factor, exponents + (dimensions + kBlockNumbers - 1) / kBlockNumbers, sizeof(factor));
  return factor == 0 ? 0 : AddUp(sums) / static_cast<double>(factor);
}

using CompareShort = double (*)(const double*, const int16_t*, size_t);
using ComparePacked = double (*)(const double*, const uint8_t*, size_t);

double CompareShortAnywhere(const double* query, const int16_t* row, size_t dimensions) {
  return MultiplyShort(query, row, dimensions);
}

double ComparePackedAnywhere(const double* query, const uint8_t* row, size_t dimensions) {
  return MultiplyPacked(query, row, dimensions);
}

#if defined(__x86_64__) && (defined(__GNUC__) || defined(__clang__))
__attribute__((target("avx2,fma"))) double CompareShortAvx2(const double* query, const int16_t* row, size_t dimensions) {
  return MultiplyShort(query, row, dimensions);
}

__attribute__((target("avx2,fma"))) double ComparePackedAvx2(const double* query, const uint8_t* row, size_t dimensions) {
  return MultiplyPacked(query, row, dimensions);
}

bool IsWide(uint32_t level) {
  __builtin_cpu_init();
  return level > 0 && __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma");
}
#else
constexpr auto CompareShortAvx2 = CompareShortAnywhere;
constexpr auto ComparePackedAvx2 = ComparePackedAnywhere;
constexpr bool IsWide(uint32_t) { return false; }
#endif

CompareShort compare_short = IsWide(UINT32_MAX) ? CompareShortAvx2 : CompareShortAnywhere;
ComparePacked compare_packed = IsWide(UINT32_MAX) ? ComparePackedAvx2 : ComparePackedAnywhere;

uint32_t UseCompareLevel(uint32_t level) {
  const bool is_wide = IsWide(level);
  compare_short = is_wide ? CompareShortAvx2 : CompareShortAnywhere;
  compare_packed = is_wide ? ComparePackedAvx2 : ComparePackedAnywhere;
  return is_wide ? 1 : 0;
}

}  // namespace
