/** CRC-32, by the widest multiplication without carries that the processor has. */
#pragma once

#include <cstddef>
#include <cstdint>

#include "processor.h"

namespace {

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

}  // namespace
