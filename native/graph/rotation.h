/**
 * Rotates vectors so that all their numbers have similar sizes: multiplies by random signs, then applies a
 * Walsh-Hadamard transform. Angles do not change. Rows store each number with few quantization steps, and this loses
 * least if all numbers have similar sizes. Any thread.
 */
#pragma once

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <vector>

namespace {

class Rotation {
 public:
  explicit Rotation(size_t dimensions) : signs_(dimensions), again_(dimensions) {
    while (2 * width_ <= dimensions) width_ *= 2;
    // The signs must be the same at every start and on every machine, because saved graphs contain rotated vectors.
    uint32_t state = kSeed;
    for (std::vector<float>* signs : {&signs_, &again_}) {
      for (float& sign : *signs) {
        state = state * 1664525u + 1013904223u;
        sign = (state >> 31) != 0 ? 1.0f : -1.0f;
      }
    }
  }

  /** Rotates the vector's numbers. */
  std::vector<float> Rotate(const float* vector) const {
    const size_t count = signs_.size();
    std::vector<float> numbers(count);
    for (size_t i = 0; i < count; i++) numbers[i] = vector[i] * signs_[i];
    Mix(numbers.data());
    if (width_ < count) {
      // The first transform does not include the last numbers. A second one mixes them with the others.
      for (size_t i = 0; i < count; i++) numbers[i] *= again_[i];
      Mix(numbers.data() + (count - width_));
    }
    return numbers;
  }

 private:
  static constexpr uint32_t kSeed = 11;

  /** Transforms `width_` numbers in place. The length of the vector does not change. */
  void Mix(float* numbers) const {
    for (size_t half = 1; half < width_; half *= 2) {
      for (size_t block = 0; block < width_; block += 2 * half) {
        for (size_t i = block; i < block + half; i++) {
          const float a = numbers[i];
          const float b = numbers[i + half];
          numbers[i] = a + b;
          numbers[i + half] = a - b;
        }
      }
    }
    const float scale = 1 / std::sqrt(static_cast<float>(width_));
    for (size_t i = 0; i < width_; i++) numbers[i] *= scale;
  }

  std::vector<float> signs_;
  std::vector<float> again_;
  /** How many numbers one transform mixes. */
  size_t width_ = 1;
};

}  // namespace
