/**
 * Rows: the form in which a graph keeps a vector (rotated, half a byte per dimension). This file makes rows, and
 * compares them with each other and with a query. Any thread.
 */
#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <stdexcept>
#include <vector>

#if defined(__x86_64__) && (defined(__GNUC__) || defined(__clang__))
#define UNDERSTUDY_X64 1
#include <immintrin.h>
#endif

#include "hnswlib.h"
#include "rotation.h"

namespace {

/**
 * A row takes half a byte per dimension and consists of steps. The low halves of a step's bytes hold the step's first
 * `kStepBytes` dimensions, the high halves the following ones. Rows are padded with zeros to whole steps.
 */
constexpr size_t kStepBytes = 32;
constexpr size_t kStepDimensions = 2 * kStepBytes;
/** The largest number in a row and in a query. Rows store each number plus kOffset. */
constexpr int kRowMax = 7;
constexpr int kQueryMax = 127;
constexpr int kOffset = 8;
/** Candidate bounds for clipping a row's numbers, as fractions of the largest number. */
constexpr float kCuts[] = {1, 0.8f, 0.65f};
/**
 * Maximum random noise that is added to the distance of two rows when points are linked. Without noise, hnswlib links a
 * text to few of the texts that differ from it only in a number, and one text in twenty is never found.
 */
constexpr float kBlur = 0.05f;

/**
 * Limits for the numbers of a vector. A vector with a number above kNumberMax is rejected; all numbers of a vector of
 * length 1 are far smaller. A vector whose largest number is below kNumberMin becomes zero.
 */
constexpr float kNumberMax = 1 << 20;
constexpr float kNumberMin = 1e-30f;
/** Largest scale of a row. It exceeds kNumberMax, because a rotation may concentrate the whole length in one number. */
constexpr float kScaleMax = kNumberMax * 256;

// Sums of products of bytes are integers, so every machine gets the same result in any order of addition.

/** Computes the dot product of `query` and a stored row, whose numbers have kOffset added. */
int32_t MultiplyAnywhere(const int8_t* query, const uint8_t* row, size_t steps) {
  int32_t sum = 0;
  for (; steps > 0; steps--, query += kStepDimensions, row += kStepBytes) {
    for (size_t i = 0; i < kStepBytes; i++) sum += query[i] * (row[i] & 15) + query[kStepBytes + i] * (row[i] >> 4);
  }
  return sum;
}

int32_t MultiplyRowsAnywhere(const uint8_t* a, const uint8_t* b, size_t steps) {
  int32_t sum = 0;
  for (size_t i = 0; i < steps * kStepBytes; i++) {
    sum += ((a[i] & 15) - kOffset) * ((b[i] & 15) - kOffset) + ((a[i] >> 4) - kOffset) * ((b[i] >> 4) - kOffset);
  }
  return sum;
}

#if defined(UNDERSTUDY_X64)
/**
 * Number of steps of a row and a query that a 16-bit sum can add up. Each step adds at most two products of 15 and
 * kQueryMax.
 */
constexpr size_t kQuerySteps = 8;
/** Number of steps of two rows that a 16-bit sum can add up. Each step adds two products of at most kRowMax². */
constexpr size_t kRowSteps = 256;

__attribute__((target("avx2"))) inline int32_t AddLanes(__m256i sums) {
  __m128i four = _mm_add_epi32(_mm256_castsi256_si128(sums), _mm256_extracti128_si256(sums, 1));
  four = _mm_add_epi32(four, _mm_shuffle_epi32(four, 0x4e));
  four = _mm_add_epi32(four, _mm_shuffle_epi32(four, 0xb1));
  return _mm_cvtsi128_si32(four);
}

__attribute__((target("avx2"))) inline __m256i Load(const void* bytes) {
  return _mm256_loadu_si256(static_cast<const __m256i*>(bytes));
}

__attribute__((target("avx2"))) inline __m256i LowerHalves(__m256i bytes) {
  return _mm256_and_si256(bytes, _mm256_set1_epi8(15));
}

__attribute__((target("avx2"))) inline __m256i UpperHalves(__m256i bytes) {
  return LowerHalves(_mm256_srli_epi16(bytes, 4));
}

/** Adds pairs of 16-bit sums to get half as many 32-bit sums. */
__attribute__((target("avx2"))) inline __m256i Widen(__m256i sums) {
  return _mm256_madd_epi16(sums, _mm256_set1_epi16(1));
}

__attribute__((target("avx2"))) int32_t MultiplyAvx2(const int8_t* query, const uint8_t* row, size_t steps) {
  __m256i sums = _mm256_setzero_si256();
  while (steps > 0) {
    const size_t some = std::min(steps, kQuerySteps);
    __m256i lower = _mm256_setzero_si256();
    __m256i upper = _mm256_setzero_si256();
    for (size_t i = 0; i < some; i++, query += kStepDimensions, row += kStepBytes) {
      const __m256i bytes = Load(row);
      lower = _mm256_add_epi16(lower, _mm256_maddubs_epi16(LowerHalves(bytes), Load(query)));
      upper = _mm256_add_epi16(upper, _mm256_maddubs_epi16(UpperHalves(bytes), Load(query + kStepBytes)));
    }
    sums = _mm256_add_epi32(sums, _mm256_add_epi32(Widen(lower), Widen(upper)));
    steps -= some;
  }
  return AddLanes(sums);
}

/**
 * Products of two rows' half bytes, added in pairs. The instruction needs one unsigned operand, so `a` is made positive
 * and its signs are applied to `b`.
 */
__attribute__((target("avx2"))) inline __m256i MultiplyHalves(__m256i a, __m256i b) {
  const __m256i offset = _mm256_set1_epi8(kOffset);
  const __m256i first = _mm256_sub_epi8(a, offset);
  const __m256i second = _mm256_sub_epi8(b, offset);
  return _mm256_maddubs_epi16(_mm256_abs_epi8(first), _mm256_sign_epi8(second, first));
}

__attribute__((target("avx2"))) int32_t MultiplyRowsAvx2(const uint8_t* a, const uint8_t* b, size_t steps) {
  __m256i sums = _mm256_setzero_si256();
  while (steps > 0) {
    const size_t some = std::min(steps, kRowSteps);
    __m256i lower = _mm256_setzero_si256();
    __m256i upper = _mm256_setzero_si256();
    for (size_t i = 0; i < some; i++, a += kStepBytes, b += kStepBytes) {
      lower = _mm256_add_epi16(lower, MultiplyHalves(LowerHalves(Load(a)), LowerHalves(Load(b))));
      upper = _mm256_add_epi16(upper, MultiplyHalves(UpperHalves(Load(a)), UpperHalves(Load(b))));
    }
    sums = _mm256_add_epi32(sums, _mm256_add_epi32(Widen(lower), Widen(upper)));
    steps -= some;
  }
  return AddLanes(sums);
}

#endif

auto multiply = MultiplyAnywhere;
auto multiply_rows = MultiplyRowsAnywhere;

uint32_t UseLevel([[maybe_unused]] uint32_t level) {
#if defined(UNDERSTUDY_X64)
  __builtin_cpu_init();
  const bool is_wide = level > 0 && __builtin_cpu_supports("avx2");
  multiply = is_wide ? MultiplyAvx2 : MultiplyAnywhere;
  multiply_rows = is_wide ? MultiplyRowsAvx2 : MultiplyRowsAnywhere;
#endif
  return multiply == MultiplyAnywhere ? 0 : 1;
}

// Chosen once, when the addon is loaded.
const uint32_t kWidest = UseLevel(UINT32_MAX);

/** Reads the scale (the value of the stored number 1) of a row. The scale follows the row's numbers. */
float ReadScale(const void* row, size_t bytes) {
  float scale;
  memcpy(&scale, static_cast<const uint8_t*>(row) + bytes, sizeof(scale));
  return scale;
}

/** Draws pseudorandom noise between −1 and 1, which is always the same for a pair of rows. */
float DrawBlur(float scale_a, float scale_b) {
  uint32_t a;
  uint32_t b;
  memcpy(&a, &scale_a, sizeof(a));
  memcpy(&b, &scale_b, sizeof(b));
  uint32_t mixed = a * 2654435761u + b * 2654435761u;
  mixed ^= mixed >> 15;
  mixed *= 2246822519u;
  mixed ^= mixed >> 13;
  return static_cast<float>(static_cast<int32_t>(mixed)) / 2147483648.0f;
}

/** Measures the distance of two points that are being linked. */
float MeasureRows(const void* a, const void* b, const void* steps_of_rows) {
  const size_t steps = *static_cast<const size_t*>(steps_of_rows);
  const int32_t product = multiply_rows(static_cast<const uint8_t*>(a), static_cast<const uint8_t*>(b), steps);
  const float scale_a = ReadScale(a, steps * kStepBytes);
  const float scale_b = ReadScale(b, steps * kStepBytes);
  return 1 - static_cast<float>(product) * scale_a * scale_b + kBlur * DrawBlur(scale_a, scale_b);
}

class RowSpace : public hnswlib::SpaceInterface<float> {
 public:
  explicit RowSpace(size_t dimensions)
      : dimensions_(dimensions), steps_((dimensions + kStepDimensions - 1) / kStepDimensions), rotation_(dimensions) {}

  size_t get_data_size() override { return row_bytes() + sizeof(float); }
  hnswlib::DISTFUNC<float> get_dist_func() override { return MeasureRows; }
  void* get_dist_func_param() override { return &steps_; }

  /** Whether the row has values that MakeRow can produce. */
  bool IsRow(const void* row) const {
    const auto* bytes = static_cast<const uint8_t*>(row);
    bool fits = true;
    // Stored numbers are 1 to 15, because kOffset is added.
    for (size_t i = 0; i < row_bytes(); i++) fits &= (bytes[i] & 15) != 0 && bytes[i] >> 4 != 0;
    const float scale = ReadScale(row, row_bytes());
    return fits && scale >= 0 && scale <= kScaleMax;
  }

  size_t dimensions() const { return dimensions_; }
  size_t steps() const { return steps_; }
  /** Bytes that a row's numbers take. */
  size_t row_bytes() const { return steps_ * kStepBytes; }

  /**
   * Makes a query from a vector: rotates it like rows and converts it to integers.
   * @returns the scale (the value of 1)
   * @throws std::range_error for numbers that are not valid in a vector
   */
  float MakeQuery(const float* vector, std::vector<int8_t>* into) const {
    const std::vector<float> numbers = Turn(vector);
    const float step = GreatestOf(numbers) / kQueryMax;
    into->assign(steps_ * kStepDimensions, 0);
    if (step == 0) return 0;
    for (size_t i = 0; i < dimensions_; i++) (*into)[i] = static_cast<int8_t>(Round(numbers[i] / step, kQueryMax));
    return step;
  }

  /**
   * Makes a row from a vector: rotates it, and quantises its numbers. The row ends with its scale.
   * @throws std::range_error for numbers that are not valid in a vector
   */
  std::vector<uint8_t> MakeRow(const float* vector) const {
    std::vector<int8_t> numbers(steps_ * kStepDimensions, 0);
    const float scale = QuantiseRow(Turn(vector), &numbers);
    std::vector<uint8_t> row(row_bytes() + sizeof(scale));
    for (size_t i = 0; i < row_bytes(); i++) {
      const int8_t* lower = &numbers[i / kStepBytes * kStepDimensions + i % kStepBytes];
      row[i] = static_cast<uint8_t>((lower[0] + kOffset) | (lower[kStepBytes] + kOffset) << 4);
    }
    memcpy(&row[row_bytes()], &scale, sizeof(scale));
    return row;
  }

 private:
  std::vector<float> Turn(const float* vector) const {
    bool fits = true;
    // A comparison with NaN is false, so NaN is rejected as well.
    for (size_t i = 0; i < dimensions_; i++) fits &= std::fabs(vector[i]) <= kNumberMax;
    if (!fits) throw std::range_error("the vector has a number that is not finite or far too large");
    return rotation_.Rotate(vector);
  }

  static float GreatestOf(const std::vector<float>& numbers) {
    float greatest = 0;
    for (const float number : numbers) greatest = std::max(greatest, std::fabs(number));
    return greatest < kNumberMin ? 0 : greatest;
  }

  static float Round(float number, int most) {
    const float cut = std::min(static_cast<float>(most), std::max(static_cast<float>(-most), number));
    return static_cast<float>(static_cast<int>(cut + (cut < 0 ? -0.5f : 0.5f)));
  }

  /**
   * Quantises the numbers to fifteen levels. If the largest number set the scale, the levels could be too coarse for
   * the other numbers. So numbers are clipped at a bound: at that element of kCuts that changes the vector's direction
   * least.
   * @returns the scale (the value of level 1) that makes the dot product of the row and its vector exact
   */
  float QuantiseRow(const std::vector<float>& numbers, std::vector<int8_t>* into) const {
    const float greatest = GreatestOf(numbers);
    if (greatest == 0) return 0;
    double best = 0;
    float scale = 0;
    std::vector<int8_t> tried(*into);
    for (const float cut : kCuts) {
      const float step = greatest * cut / kRowMax;
      double product = 0;
      double squares = 0;
      double length = 0;
      for (size_t i = 0; i < dimensions_; i++) {
        const float number = Round(numbers[i] / step, kRowMax);
        tried[i] = static_cast<int8_t>(number);
        product += static_cast<double>(number) * numbers[i];
        squares += static_cast<double>(number) * number;
        length += static_cast<double>(numbers[i]) * numbers[i];
      }
      const double likeness = product * product / squares;
      if (!(likeness > best)) continue;
      best = likeness;
      scale = static_cast<float>(length / product);
      *into = tried;
    }
    return scale;
  }

  size_t dimensions_;
  size_t steps_;
  Rotation rotation_;
};

}  // namespace
