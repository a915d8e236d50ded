/**
 * Assigns numbers to texts. A text that several labels share is stored only once. It is freed when no label has it. Used
 * by `shared-index.h`, on its threads.
 */
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <unordered_map>
#include <vector>

namespace {

constexpr uint32_t kNoText = UINT32_MAX;

class Texts {
 public:
  /** Counts one more label with this text. @returns the text's number */
  uint32_t Take(const std::u16string& text) {
    auto [found, is_new] = numbers_.emplace(text, kNoText);
    if (is_new) {
      if (free_.empty()) {
        found->second = static_cast<uint32_t>(entries_.size());
        entries_.push_back({nullptr, 0});
      } else {
        found->second = free_.back();
        free_.pop_back();
      }
      entries_[found->second] = {&found->first, 0};
      bytes_ += 2 * text.size() + kEntryBytes;
    }
    entries_[found->second].uses++;
    return found->second;
  }

  /** Counts one label fewer with this text. */
  void Give(uint32_t number) {
    if (number == kNoText || --entries_[number].uses > 0) return;
    bytes_ -= 2 * entries_[number].text->size() + kEntryBytes;
    numbers_.erase(numbers_.find(*entries_[number].text));
    entries_[number].text = nullptr;
    free_.push_back(number);
  }

  /** Finds the text's number; kNoText if no label has it. */
  uint32_t Find(const std::u16string& text) const {
    const auto found = numbers_.find(text);
    return found == numbers_.end() ? kNoText : found->second;
  }

  size_t bytes() const { return bytes_; }

 private:
  /** Estimated size of an entry in addition to its text. */
  static constexpr size_t kEntryBytes = 100;

  struct Entry {
    const std::u16string* text;
    size_t uses;
  };

  std::unordered_map<std::u16string, uint32_t> numbers_;
  /** By the text's number. The entry of a free number has no text. */
  std::vector<Entry> entries_;
  std::vector<uint32_t> free_;
  size_t bytes_ = 0;
};

}  // namespace
