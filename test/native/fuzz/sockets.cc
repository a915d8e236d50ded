/**
 * Fuzzes the checks of requests in native/sockets with any bytes (libFuzzer; run.mjs). The result must not depend on
 * the pieces in which the bytes arrive: the same bytes are complete, and the same bytes are refused.
 */
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <memory>

#include "../../../native/sockets/framing.h"
#include "../../../native/sockets/records.h"

namespace {

/** The limit is low, so that inputs exceed it. */
constexpr uint32_t kHeadBytes = 512;

void Expect(bool holds, const char* what) {
  if (holds) return;
  std::fprintf(stderr, "%s\n", what);
  std::abort();
}

struct Outcome {
  size_t whole = 0;
  framing::Refusal refusal = framing::Refusal::kNone;
};

/** @param steps lengths of the pieces, repeated as needed; empty: all at once */
Outcome ReadInPieces(const uint8_t* data, size_t size, const uint8_t* steps, size_t step_count) {
  framing::Scanner scanner(kHeadBytes);
  records::Walker walker;
  Outcome outcome;
  for (size_t from = 0, n = 0; from < size && outcome.refusal == framing::Refusal::kNone; n++) {
    const size_t length = step_count == 0 ? size : std::min<size_t>(size - from, 1 + steps[n % step_count]);
    // A separate allocation, so that the sanitizer notices a byte beyond it.
    const std::unique_ptr<char[]> piece(new char[length]);
    std::copy(data + from, data + from + length, piece.get());
    const size_t end = walker.FindEnd(piece.get(), length);
    Expect(end > 0 && end <= length, "a record ends outside the received bytes");
    walker.Skip(piece.get(), end);
    walker.Skip(piece.get() + end, length - end);
    const framing::Finding finding = scanner.Read(piece.get(), length);
    Expect(finding.whole <= length, "more bytes are complete than were received");
    if (finding.whole > 0) outcome.whole = from + finding.whole;
    outcome.refusal = finding.refusal;
    from += length;
  }
  return outcome;
}

}  // namespace

/** The first bytes are the lengths of pieces. */
extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  constexpr size_t kSteps = 4;
  if (size < kSteps) return 0;
  const uint8_t one = 0;
  const Outcome whole = ReadInPieces(data + kSteps, size - kSteps, nullptr, 0);
  for (const Outcome& cut : {ReadInPieces(data + kSteps, size - kSteps, data, kSteps),
                             ReadInPieces(data + kSteps, size - kSteps, &one, 1)}) {
    Expect(cut.whole == whole.whole, "other bytes are complete when they arrive in pieces");
    // A head that is both too long and invalid is refused for the fault that is seen first.
    const bool is_too_long = cut.refusal == framing::Refusal::kHeadTooLarge;
    Expect(is_too_long ? whole.refusal != framing::Refusal::kNone : cut.refusal == whole.refusal,
           "other bytes are refused when they arrive in pieces");
  }
  return 0;
}
