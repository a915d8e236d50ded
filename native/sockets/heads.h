/**
 * Remembers request heads in numbered slots. A client usually sends nearly the same head with each request. To compare
 * the bytes of a head takes a fraction of the time that the library needs to pass each header line to JavaScript.
 * JavaScript keeps the header texts of each slot (`src/http/known-heads.ts`). Each server thread has its own slots.
 */
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string>
#include <vector>

namespace heads {

constexpr uint32_t kSlots = 256;
constexpr uint32_t kNoSlot = UINT32_MAX;
/** Longer heads are not kept. */
constexpr size_t kHeadBytes = 8 << 10;
/** After this many unknown heads in a row, no further heads of a connection are remembered. */
constexpr uint8_t kMissesMax = 8;

/** Bytes that must be equal. They may end with the name of a header whose value may differ. */
struct Span {
  size_t start;
  size_t length;
};

/** The header lines of a head, including the empty line. The values of some lines may vary. */
struct Head {
  std::string bytes;
  std::vector<Span> spans;
};

/** Skips to the end of a line. @returns where the next line begins; nullptr if the line is not complete */
inline const char* SkipLine(const char* at, const char* end) {
  const auto* const found = static_cast<const char*>(std::memchr(at, '\n', static_cast<size_t>(end - at)));
  return found == nullptr ? nullptr : found + 1;
}

/** Whether the bytes begin with a request that has these header lines. */
inline bool IsSame(const Head& head, const char* bytes, size_t length) {
  const char* const end = bytes + length;
  const char* at = SkipLine(bytes, end);
  for (size_t i = 0; at != nullptr && i < head.spans.size(); i++) {
    const Span& span = head.spans[i];
    if (static_cast<size_t>(end - at) < span.length) return false;
    if (std::memcmp(at, head.bytes.data() + span.start, span.length) != 0) return false;
    at += span.length;
    if (i + 1 < head.spans.size()) at = SkipLine(at, end);
  }
  return at != nullptr && !head.spans.empty();
}

/**
 * Reads the header lines of a request.
 * @param varying numbers of the lines whose values vary, in ascending order; the first header line is 0
 * @param lines expected number of header lines
 * @returns false if the number of lines differs, the head has too many bytes or is not complete, or a varying line has
 * no colon
 */
inline bool Read(const char* bytes, size_t length, const uint32_t* varying, size_t varying_count, uint32_t lines,
                 Head* into) {
  const char* const end = bytes + length;
  const char* const start = SkipLine(bytes, end);
  if (start == nullptr) return false;
  into->spans.clear();
  const char* at = start;
  const char* from = start;
  uint32_t line = 0;
  for (size_t next = 0; end - at >= 2 && at[0] != '\r'; line++) {
    const char* const line_end = SkipLine(at, end);
    if (line_end == nullptr) return false;
    if (next < varying_count && varying[next] == line) {
      const auto* const colon = static_cast<const char*>(std::memchr(at, ':', static_cast<size_t>(line_end - at)));
      if (colon == nullptr) return false;
      into->spans.push_back({static_cast<size_t>(from - start), static_cast<size_t>(colon + 1 - from)});
      from = line_end;
      next++;
    }
    at = line_end;
  }
  if (line != lines || end - at < 2 || at[0] != '\r' || at[1] != '\n') return false;
  at += 2;
  const auto total = static_cast<size_t>(at - start);
  if (total > kHeadBytes) return false;
  into->spans.push_back({static_cast<size_t>(from - start), static_cast<size_t>(at - from)});
  into->bytes.assign(start, total);
  return true;
}

/** The slots of this thread, freed with it. */
inline thread_local std::array<Head, kSlots> slots;

}  // namespace heads
