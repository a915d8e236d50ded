/**
 * Copies that do not displace other data from the processor's caches.
 */
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>

#include "processor.h"

namespace {

/** Copies like memcpy, with stores that bypass the caches. The ranges must not overlap. */
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
    // These stores are not ordered with later ones, and another thread may be notified next.
    _mm_sfence();
  }
#endif
  if (length > 0) memcpy(into, from, length);
}

}  // namespace
