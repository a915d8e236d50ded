/**
 * Fuzzes the functions of native/bytes with any bytes (libFuzzer; run.mjs). Each search must give the same result
 * with all widths of instructions, and this result must equal that of a search byte by byte.
 */
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <vector>

#include "../../../native/bytes/common-ends.h"
#include "../../../native/bytes/copy.h"
#include "../../../native/bytes/needles.h"
#include "../../../native/bytes/plain.h"
#include "../../../native/bytes/processor.h"
#include "../../../native/bytes/suspects.h"

namespace {

constexpr uint32_t kLevels = 3;

void Expect(bool holds, const char* what) {
  if (holds) return;
  std::fprintf(stderr, "%s\n", what);
  std::abort();
}

/** A separate allocation, so that the sanitizer notices a byte beyond it. */
struct Piece {
  std::unique_ptr<uint8_t[]> memory;
  Bytes bytes;
  Piece(const uint8_t* from, size_t length) : memory(new uint8_t[length]) {
    if (length > 0) memcpy(memory.get(), from, length);
    bytes.data = memory.get();
    bytes.length = length;
  }
};

std::vector<size_t> ListSuspects(const Bytes& bytes, size_t from, size_t to) {
  std::vector<size_t> found;
  size_t run[2];
  TokenWalk walk;
  for (size_t at = from; FindSuspect(bytes.data, at, to, run, &walk); at = run[1] + 1) {
    found.push_back(run[0]);
    found.push_back(run[1]);
  }
  return found;
}

int64_t FindPackedPlainly(const Bytes& bytes, size_t from, size_t to, const Bytes& needles) {
  int64_t first = -1;
  for (size_t at = 0; at + 4 <= needles.length;) {
    uint32_t size;
    memcpy(&size, needles.data + at, 4);
    at += 4;
    if (size > needles.length - at) break;
    for (size_t place = from; size > 0 && place < to && place + size <= bytes.length; place++) {
      if (memcmp(bytes.data + place, needles.data + at, size) != 0) continue;
      if (first < 0 || static_cast<int64_t>(place) < first) first = static_cast<int64_t>(place);
      break;
    }
    at += size;
  }
  return first;
}

int64_t FindBase64Plainly(const Bytes& bytes, size_t from, size_t to, size_t chars) {
  size_t run = 0;
  for (size_t at = from; at < to; at++) {
    run = kTables.base64[bytes.data[at]] ? run + 1 : 0;
    if (chars > 0 && run == chars) return static_cast<int64_t>(at + 1 - chars);
  }
  return -1;
}

/** The results that must be equal with all widths of instructions. */
struct Answers {
  std::vector<size_t> suspects;
  int64_t needle;
  int64_t base64;
  bool holds_none;
  bool operator==(const Answers& other) const {
    return suspects == other.suspects && needle == other.needle && base64 == other.base64 &&
           holds_none == other.holds_none;
  }
};

Answers Ask(uint32_t level, const Bytes& bytes, size_t from, size_t to, const Bytes& needles, size_t chars) {
  UseLevel(level);
  return {ListSuspects(bytes, from, to), FindPacked(bytes, from, to, needles), FindBase64(bytes, from, to, chars),
          HoldsNone(bytes, needles)};
}

void LookForAll(const Bytes& bytes, size_t from, size_t to, const Bytes& needles, size_t chars) {
  const Answers answers = Ask(0, bytes, from, to, needles, chars);
  for (uint32_t level = 1; level < kLevels; level++) {
    Expect(Ask(level, bytes, from, to, needles, chars) == answers, "a search with wider instructions has another result");
  }
  Expect(answers.needle == FindPackedPlainly(bytes, from, to, needles), "another needle");
  Expect(answers.base64 == FindBase64Plainly(bytes, from, to, chars), "other base64");
  const bool holds_none = ListSuspects(bytes, 0, bytes.length).empty() &&
                          FindPackedPlainly(bytes, 0, bytes.length, needles) < 0;
  Expect(answers.holds_none == holds_none, "isPlain contradicts the searches");
}

void CompareEnds(const Bytes& a, const Bytes& b) {
  const size_t most = std::min(a.length, b.length);
  const size_t ahead = CountEqualAhead(a.data, b.data, most);
  Expect(ahead <= most && memcmp(a.data, b.data, ahead) == 0, "the measured beginnings are not equal");
  Expect(ahead == most || a.data[ahead] != b.data[ahead], "the common beginning is longer than measured");
  const uint8_t* a_end = a.data + a.length;
  const uint8_t* b_end = b.data + b.length;
  const size_t behind = CountEqualBehind(a_end, b_end, most);
  Expect(behind <= most && memcmp(a_end - behind, b_end - behind, behind) == 0, "the measured ends are not equal");
  Expect(behind == most || a_end[-1 - static_cast<ptrdiff_t>(behind)] != b_end[-1 - static_cast<ptrdiff_t>(behind)],
         "the common end is longer than measured");
}

void CopyAll(const Bytes& bytes, size_t offset) {
  std::unique_ptr<uint8_t[]> into(new uint8_t[bytes.length + offset]);
  CopyPastCaches(into.get() + offset, bytes.data, bytes.length);
  Expect(memcmp(into.get() + offset, bytes.data, bytes.length) == 0, "another copy");
}

}  // namespace

/** The first bytes choose where the rest is divided, and which range is examined. */
extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  constexpr size_t kHead = 8;
  if (size < kHead) return 0;
  const uint8_t* head = data;
  data += kHead;
  size -= kHead;
  const size_t part = std::min<size_t>(size, head[0] | (head[1] & 3) << 8);
  const Piece needles(data, part);
  const Piece text(data + part, size - part);
  const size_t length = text.bytes.length;
  const size_t from = length == 0 ? 0 : (head[2] | head[3] << 8) % (length + 1) % 97;
  const size_t to = length - (length == from ? 0 : (head[4] | head[5] << 8) % (length - from + 1) % 97);
  LookForAll(text.bytes, from, to, needles.bytes, head[6]);
  CompareEnds(needles.bytes, text.bytes);
  const Piece most(text.bytes.data, length / 2);
  CompareEnds(most.bytes, text.bytes);
  CopyAll(text.bytes, head[7] & 63);
  return 0;
}
