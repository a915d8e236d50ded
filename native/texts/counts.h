/**
 * Counts words and marks in the texts of a step, for the monitors. `src/domain/monitors/step-texts.ts` explains the
 * counts and implements them in TypeScript.
 */
#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <cstring>

namespace {

// Layout of the features after the numbers (MEASURED_BYTES in features.ts).
constexpr size_t kInputWords = 40;
constexpr size_t kHeadWords = 20;
constexpr size_t kSketch = 64;
constexpr size_t kWordsAt = 0;
constexpr size_t kHeadAt = kWordsAt + 2 * kInputWords;
constexpr size_t kInputSketchAt = kHeadAt + 2 * kHeadWords;
constexpr size_t kThoughtSketchAt = kInputSketchAt + kSketch;
constexpr size_t kAnsweredAt = kThoughtSketchAt + kSketch;
constexpr size_t kFilterAt = kAnsweredAt + kInputWords + 8;
constexpr size_t kThoughtFilterAt = kFilterAt + 2048 / 8;
constexpr size_t kMeasuredBytes = kThoughtFilterAt + 512 / 8;

// Limits in UTF-16 units. The files are below src/domain/monitors.
// Size of the buffer for a text. A longer text is refused. More than 1.5 times READ_CHARACTERS (step-texts.ts).
constexpr size_t kTextUnits = 6400;
// WORD_CHARACTERS (words.ts).
constexpr size_t kWordUnits = 14;
// HEAD_CHARACTERS (step-texts.ts).
constexpr size_t kHeadUnits = 160;
// READ_CHARACTERS (step-texts.ts).
constexpr size_t kOwnUnits = 4096;
// SIGN_CHARACTERS (digest.ts).
constexpr size_t kSignUnits = 600;

// The index of each count (step-texts.ts).
enum Count {
  kHeadCount,
  kObservationCount,
  kInputCount,
  kFunctionCount,
  kRetryCount,
  kNegationCount,
  kSubjectCount,
  kKeptCount,
  kOutcomeHash,
  kThoughtHash,
  kOwnTriggers,
  kInputTriggers,
  kSignTriggers,
  kCounts,
};

// Classes of a word in the lexicon, as bits.
constexpr uint32_t kIsFunction = 1;
constexpr uint32_t kIsNegation = 2;
constexpr uint32_t kIsRetry = 4;

constexpr uint32_t kFnvOffset = 0x811c9dc5;
constexpr uint32_t kFnvPrime = 0x01000193;
constexpr uint32_t kGolden = 0x9e3779b1;

inline uint32_t Mix(uint32_t value) {
  uint32_t h = value ^ (value >> 16);
  h *= 0x85ebca6b;
  h ^= h >> 13;
  h *= 0xc2b2ae35;
  return h ^ (h >> 16);
}

enum Kind : uint8_t { kNone, kLetter, kDigit, kAlone };

struct Kinds {
  uint8_t of[65536];

  Kinds() {
    for (uint32_t code = 0; code < 65536; code++) {
      const uint32_t lower = code | 32;
      Kind kind = kLetter;
      if (code < 128) {
        kind = code >= '0' && code <= '9' ? kDigit : lower >= 'a' && lower <= 'z' ? kLetter : kNone;
      } else if (code < 0xaa || code == 0xd7 || code == 0xf7) {
        kind = kNone;
      } else if ((code >= 0x3040 && code <= 0x9fff) || (code >= 0xac00 && code <= 0xd7af)) {
        kind = kAlone;
      } else if ((code >= 0x2000 && code <= 0x303f) || (code >= 0xd800 && code <= 0xf8ff)) {
        kind = kNone;
      }
      of[code] = kind;
    }
  }
};
inline const Kinds kKinds;

inline bool IsDigit(uint32_t code) { return code - '0' < 10; }

/** Whether String.prototype.trim removes the character. */
inline bool IsSpace(uint32_t code) {
  if (code < 128) return code == 32 || (code >= 9 && code <= 13);
  return code == 0xa0 || code == 0x1680 || (code >= 0x2000 && code <= 0x200a) || code == 0x2028 || code == 0x2029 ||
         code == 0x202f || code == 0x205f || code == 0x3000 || code == 0xfeff;
}

/** The texts, in the order of the addon's arguments. */
enum Which { kInput, kThought, kObservation };

struct Text {
  uint16_t units[kTextUnits];
  size_t length;
};

inline size_t StemLength(const uint8_t* tail, size_t length) {
  // `tail` has the last three units, the last one first. Units beyond ASCII do not count as letters here.
  const uint8_t last = tail[0];
  if (length >= 7 && last == 'g') {
    if (tail[1] == 'n' && tail[2] == 'i') return length - 3;
  } else if (length >= 6 && (last == 'd' || last == 's') && tail[1] == 'e') {
    return length - 2;
  } else if (length >= 5 && last == 's') {
    return length - 1;
  }
  return length;
}

/** Calls visit(whole, stem, is_subject) for each word of a text. */
template <typename Visit>
inline size_t ReadWords(const uint16_t* text, size_t length, Visit visit) {
  const uint8_t* kinds = kKinds.of;
  uint32_t prefixes[kWordUnits + 1];
  uint8_t tail[3] = {0, 0, 0};
  size_t count = 0;
  for (size_t at = 0; at < length;) {
    uint32_t code = text[at];
    uint8_t kind = kinds[code];
    at++;
    if (kind == kNone) continue;
    count++;
    if (kind == kAlone) {
      const uint32_t alone = Mix((kFnvOffset ^ code) * kFnvPrime);
      visit(alone, alone, false);
      continue;
    }
    size_t units = 0;
    bool has_digits = false;
    uint32_t h = kFnvOffset;
    prefixes[0] = h;
    for (;;) {
      if (units < kWordUnits) {
        if (code - 'A' < 26) code += 32;
        if (kind == kDigit) has_digits = true;
        h = (h ^ code) * kFnvPrime;
        tail[2] = tail[1];
        tail[1] = tail[0];
        tail[0] = code < 128 ? static_cast<uint8_t>(code) : 0;
        prefixes[++units] = h;
      }
      if (at == length) break;
      code = text[at];
      kind = kinds[code];
      if (kind != kLetter && kind != kDigit) break;
      at++;
    }
    const size_t stem = has_digits ? units : StemLength(tail, units);
    const uint32_t whole = Mix(h);
    visit(whole, stem == units ? whole : Mix(prefixes[stem]), !has_digits && units >= 3);
  }
  return count;
}

inline uint32_t Short(uint32_t hash) {
  const uint32_t low = hash & 0xffff;
  return low == 0 ? 1 : low;
}

/** Collects the first `kLimit * 8` different hashes that are added. Seal keeps the smallest `kLimit` of them. */
template <size_t kLimit>
struct WordSet {
  static constexpr size_t kPlaces = 1024;
  static_assert(kLimit * 8 * 2 < kPlaces);
  uint16_t words[kLimit * 8];
  uint16_t places[kPlaces];
  size_t size = 0;

  WordSet() { memset(places, 0, sizeof(places)); }

  void Add(uint32_t word) {
    if (size == kLimit * 8) return;
    size_t place = (word * kGolden) >> 22;
    while (places[place] != 0) {
      if (places[place] == word) return;
      place = (place + 1) & (kPlaces - 1);
    }
    places[place] = static_cast<uint16_t>(word);
    words[size++] = static_cast<uint16_t>(word);
  }

  size_t Seal(uint8_t* into) {
    std::sort(words, words + size);
    const size_t kept = std::min(size, kLimit);
    memcpy(into, words, kept * 2);
    return kept;
  }
};

struct Sketch {
  int32_t sums[kSketch];

  Sketch() { memset(sums, 0, sizeof(sums)); }

  void Add(uint32_t hash) {
    uint32_t h = hash;
    for (int i = 0; i < 4; i++, h = Mix(h + 0x9e3779b9)) sums[h & (kSketch - 1)] += (h & 0x10000) != 0 ? 1 : -1;
  }

  void Seal(uint8_t* into) const {
    int32_t largest = 0;
    for (const int32_t sum : sums) largest = std::max(largest, std::abs(sum));
    if (largest == 0) return;
    for (size_t i = 0; i < kSketch; i++) {
      const double scaled = (static_cast<double>(sums[i]) / largest) * 127;
      // Rounds halves up, like Math.round.
      double rounded = std::ceil(scaled);
      if (rounded - 0.5 > scaled) rounded -= 1;
      into[i] = static_cast<uint8_t>(static_cast<int8_t>(rounded));
    }
  }
};

/** Layout: [mask, then for each slot a hash and the word's class]. */
struct Lexicon {
  const uint32_t* table;
  uint32_t mask;

  uint32_t Find(uint32_t hash) const {
    // The count of visited slots is limited, in case a table has no free slot.
    for (uint32_t at = hash & mask, left = mask; left > 0; at = (at + 1) & mask, left--) {
      const uint32_t* entry = table + 1 + 2 * at;
      if (entry[0] == hash) return hash == 0 ? 0 : entry[1];
      if (entry[0] == 0) return 0;
    }
    return 0;
  }
};

// Triggers (step-texts.ts): the class of each character, a bucket for each hash of three characters, and the words in
// the buckets.
constexpr size_t kCharacters = 256;
constexpr size_t kBuckets = 1024;
constexpr size_t kEntry = 8;
constexpr size_t kEntriesAt = kCharacters + kBuckets;
constexpr size_t kEntryBytes = (kEntry - 3) * 4;

struct Triggers {
  const uint32_t* table;
  size_t length;

  /**
   * Searches a text for triggers.
   * @param folded the text after Fold, followed by kEntryBytes zeros
   * @returns the classes of all triggers found, as bits
   */
  uint32_t Find(const uint8_t* folded, size_t size) const {
    uint32_t found = 0;
    const uint32_t* heads = table + kCharacters;
    for (size_t at = 0; at < size; at++) {
      found |= table[folded[at]];
      uint32_t key;
      memcpy(&key, folded + at, 4);
      key &= 0xffffff;
      uint32_t entry = heads[(key * kGolden) >> 22];
      while (entry != 0 && entry + kEntry <= length) {
        const uint32_t* words = table + entry;
        if (words[2] <= kEntryBytes && memcmp(words + 3, folded + at, words[2]) == 0) found |= words[0];
        // Each entry must refer to an earlier one, so the loop ends.
        entry = words[1] < entry ? words[1] : 0;
      }
    }
    return found;
  }
};

/**
 * Converts ASCII to lower case, and other characters to 0, which no trigger contains. Appends kEntryBytes zeros.
 */
inline void Fold(const uint16_t* text, size_t length, uint8_t* folded) {
  for (size_t at = 0; at < length; at++) {
    const uint16_t code = text[at];
    const uint8_t low = static_cast<uint8_t>(code);
    const uint8_t lower = static_cast<uint8_t>(low - 'A') < 26 ? low | 32 : low;
    folded[at] = code < 128 ? lower : 0;
  }
  memset(folded + length, 0, kEntryBytes);
}

inline uint32_t HashLoosely(const uint16_t* text, size_t length) {
  while (length > 0 && IsSpace(text[length - 1])) length--;
  uint32_t h = 0;
  bool space = true;
  for (size_t at = 0; at < length; at++) {
    const uint32_t code = text[at];
    if (code == 32 || (code >= 9 && code <= 13)) {
      if (!space) h = (h ^ 32) * kFnvPrime;
      space = true;
    } else {
      h = (h ^ code) * kFnvPrime;
      space = false;
    }
  }
  h = Mix(h);
  return h == 0 ? 1 : h;
}

/** Whether the text may contain a value that changes by itself, such as a time (canonical.ts). */
inline bool MayChange(const uint16_t* text, size_t length) {
  for (size_t at = 1; at < length; at++) {
    const uint32_t code = text[at];
    if (code == '-') {
      if (at + 15 < length && text[at + 5] == '-' && text[at + 10] == '-' && text[at + 15] == '-') return true;
      continue;
    }
    const uint32_t letter = code | 32;
    const bool is_unit = letter == 'm' || letter == 's';
    if (code != ':' && !is_unit && letter != 'x') continue;
    const uint32_t before = text[at - 1];
    if (IsDigit(before) || (is_unit && before == 32 && at >= 2 && IsDigit(text[at - 2]))) return true;
  }
  return false;
}

inline bool IsAscii(const uint16_t* text, size_t length) {
  uint16_t all = 0;
  for (size_t at = 0; at < length; at++) all |= text[at];
  return all < 128;
}

inline void SetBit(uint8_t* filter, uint32_t bit) { filter[bit >> 3] |= static_cast<uint8_t>(1 << (bit & 7)); }

/** The patterns and words that are searched for in texts. */
struct Tables {
  const uint32_t* lexicon;
  size_t lexicon_length;
  const uint32_t* triggers;
  size_t trigger_length;

  /** Whether all tables have the length that they state. */
  bool AreWhole() const {
    return lexicon_length >= 3 && lexicon_length >= 1 + 2 * (static_cast<size_t>(lexicon[0]) + 1) &&
           trigger_length >= kEntriesAt;
  }
};

/**
 * Counts the words and marks of a step's three texts, and writes their features.
 * @param read stores one of the texts; returns false if the text could not be read
 * @param features receives kMeasuredBytes bytes
 * @param counts receives kCounts numbers
 * @returns whether all texts were read
 */
template <typename Read>
bool CountTexts(Read read, const Tables& tables, uint8_t* features, uint32_t* counts) {
  const Lexicon lexicon = {tables.lexicon, tables.lexicon[0]};
  const Triggers triggers = {tables.triggers, tables.trigger_length};
  Text text;
  uint8_t folded[kTextUnits + kEntryBytes];
  memset(features, 0, kMeasuredBytes);
  memset(counts, 0, kCounts * sizeof(*counts));

  if (!read(kObservation, &text)) return false;
  uint8_t seen[65536 / 8];
  memset(seen, 0, sizeof(seen));
  {
    WordSet<kHeadWords> head;
    ReadWords(text.units, std::min(text.length, kHeadUnits), [&](uint32_t whole, uint32_t stem, bool) {
      if ((lexicon.Find(whole) & kIsFunction) == 0) head.Add(Short(stem));
    });
    counts[kHeadCount] = static_cast<uint32_t>(head.Seal(features + kHeadAt));
  }
  counts[kObservationCount] =
      static_cast<uint32_t>(ReadWords(text.units, text.length, [&](uint32_t whole, uint32_t stem, bool) {
        if ((lexicon.Find(whole) & kIsFunction) != 0) return;
        const uint32_t word = Short(stem);
        SetBit(seen, word);
        SetBit(features + kFilterAt, (word * kGolden) >> (32 - 11));
      }));
  counts[kOutcomeHash] = MayChange(text.units, text.length) ? 0 : HashLoosely(text.units, text.length);
  Fold(text.units, text.length, folded);
  if (text.length <= kSignUnits + kSignUnits / 2) {
    counts[kSignTriggers] = triggers.Find(folded, text.length);
  } else {
    counts[kSignTriggers] = triggers.Find(folded, kSignUnits) |
                            triggers.Find(folded + text.length - kSignUnits / 2, kSignUnits / 2);
  }

  if (!read(kInput, &text)) return false;
  {
    WordSet<kInputWords> words;
    Sketch sketch;
    counts[kInputCount] =
        static_cast<uint32_t>(ReadWords(text.units, text.length, [&](uint32_t whole, uint32_t stem, bool subject) {
          const uint32_t what = lexicon.Find(whole);
          if ((what & kIsRetry) != 0) counts[kRetryCount]++;
          if ((what & kIsNegation) != 0) counts[kNegationCount]++;
          if ((what & kIsFunction) != 0) {
            counts[kFunctionCount]++;
            return;
          }
          if (subject) counts[kSubjectCount]++;
          words.Add(Short(stem));
          sketch.Add(stem);
        }));
    const size_t kept = words.Seal(features + kWordsAt);
    counts[kKeptCount] = static_cast<uint32_t>(kept);
    for (size_t i = 0; i < kept; i++) {
      const uint16_t word = words.words[i];
      features[kAnsweredAt + i] = (seen[word >> 3] >> (word & 7)) & 1;
    }
    sketch.Seal(features + kInputSketchAt);
    const size_t own = std::min(text.length, kOwnUnits);
    Fold(text.units, own, folded);
    counts[kInputTriggers] = triggers.Find(folded, own);
  }

  if (!read(kThought, &text)) return false;
  {
    Sketch sketch;
    ReadWords(text.units, text.length, [&](uint32_t whole, uint32_t stem, bool subject) {
      const uint32_t what = lexicon.Find(whole);
      if ((what & kIsNegation) != 0) counts[kNegationCount]++;
      if ((what & kIsFunction) != 0) return;
      if (subject) counts[kSubjectCount]++;
      sketch.Add(stem);
      SetBit(features + kThoughtFilterAt, (Short(stem) * kGolden) >> (32 - 9));
    });
    sketch.Seal(features + kThoughtSketchAt);
    Fold(text.units, text.length, folded);
    counts[kOwnTriggers] = counts[kInputTriggers] | triggers.Find(folded, text.length);
    if (IsAscii(text.units, text.length)) {
      for (size_t at = 0; at < text.length; at++) text.units[at] = folded[at];
      counts[kThoughtHash] = HashLoosely(text.units, text.length);
    }
  }
  return true;
}

}  // namespace
