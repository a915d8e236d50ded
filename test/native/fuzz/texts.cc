/**
 * Fuzzes the counts of native/texts with any texts and any tables (libFuzzer; run.mjs). The same texts must give the
 * same counts, and each count must be possible for the length of its texts.
 */
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <vector>

#include "../../../native/texts/counts.h"

namespace {

void Expect(bool holds, const char* what) {
  if (holds) return;
  std::fprintf(stderr, "%s\n", what);
  std::abort();
}

/** 32-bit numbers in a separate allocation. */
std::vector<uint32_t> TakeNumbers(const uint8_t** data, size_t* size, size_t most) {
  std::vector<uint32_t> numbers(std::min(*size / 4, most));
  if (!numbers.empty()) memcpy(numbers.data(), *data, numbers.size() * 4);
  *data += numbers.size() * 4;
  *size -= numbers.size() * 4;
  numbers.shrink_to_fit();
  return numbers;
}

}  // namespace

/** The first bytes choose the lengths of the tables and of the first two texts. */
extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  constexpr size_t kHead = 6;
  if (size < kHead) return 0;
  const uint8_t* head = data;
  data += kHead;
  size -= kHead;
  std::vector<uint32_t> lexicon = TakeNumbers(&data, &size, 3 + (head[0] & 63));
  if (lexicon.size() >= 3) {
    // The mask of the table: the largest possible one, or any smaller number. In the product it is one less than a
    // power of two.
    const uint32_t room = static_cast<uint32_t>((lexicon.size() - 1) / 2);
    lexicon[0] = head[0] > 127 ? room - 1 : lexicon[0] % room;
  }
  // An empty table whose last places come from the data.
  const std::vector<uint32_t> some = TakeNumbers(&data, &size, head[1]);
  std::vector<uint32_t> triggers(kEntriesAt + some.size());
  std::copy(some.begin(), some.end(), triggers.begin() + static_cast<ptrdiff_t>(kEntriesAt));
  for (size_t i = 0; i < some.size(); i++) {
    triggers[some[i] % kEntriesAt] = some[i] % 3 == 0 ? some[i] : static_cast<uint32_t>(kEntriesAt + i);
  }
  const Tables tables = {lexicon.data(), lexicon.size(), triggers.data(), triggers.size()};
  if (!tables.AreWhole()) return 0;

  std::vector<uint16_t> units(size / 2);
  if (!units.empty()) memcpy(units.data(), data, units.size() * 2);
  // Mostly letters; otherwise every second byte would belong to a foreign script.
  if ((head[2] & 1) == 0) {
    units.assign(data, data + size);
  }
  const size_t first = std::min<size_t>(units.size(), head[3] | (head[2] & 0x1f) << 8);
  const size_t second = std::min<size_t>(units.size() - first, head[4] | (head[5] & 0x1f) << 8);
  const auto read = [&](Which which, Text* text) {
    const size_t from = which == kInput ? 0 : which == kThought ? first : first + second;
    const size_t length = which == kInput ? first : which == kThought ? second : units.size() - from;
    text->length = std::min(length, kTextUnits - 2);
    if (text->length > 0) memcpy(text->units, units.data() + from, text->length * 2);
    return true;
  };
  std::unique_ptr<uint8_t[]> features(new uint8_t[kMeasuredBytes]);
  std::unique_ptr<uint32_t[]> counts(new uint32_t[kCounts]);
  Expect(CountTexts(read, tables, features.get(), counts.get()), "a text was not read");
  Expect(counts[kHeadCount] <= kHeadWords && counts[kKeptCount] <= kInputWords, "more words than the limit");
  Expect(counts[kInputCount] <= first && counts[kObservationCount] <= units.size() - first - second,
         "more words than there are characters");
  Expect(counts[kFunctionCount] <= counts[kInputCount], "more of some words than of all");
  std::unique_ptr<uint8_t[]> features_again(new uint8_t[kMeasuredBytes]);
  std::unique_ptr<uint32_t[]> counts_again(new uint32_t[kCounts]);
  CountTexts(read, tables, features_again.get(), counts_again.get());
  Expect(memcmp(features.get(), features_again.get(), kMeasuredBytes) == 0 &&
             memcmp(counts.get(), counts_again.get(), kCounts * sizeof(uint32_t)) == 0,
         "the same texts have other counts");
  return 0;
}
