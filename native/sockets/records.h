/**
 * Finds where a TLS close notification may begin in the received bytes. Records are recognised by their heads, which
 * are not encrypted. Any server thread; a connection belongs to one thread.
 */
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>

namespace records {

/** Length of a record's head: type, version and length (RFC 8446, 5.1). */
constexpr size_t kHeadBytes = 5;
constexpr uint8_t kAlert = 21;
constexpr uint8_t kData = 23;
/**
 * In TLS 1.3, the record of an alert has the type of data. Its length is that of the alert, the true type and the tag
 * together.
 */
constexpr size_t kHiddenAlertBytes = 2 + 1 + 16;

/** The position within the sequence of TLS records of a connection. */
class Walker {
 public:
  /** Advances over bytes that have been read. */
  void Skip(const char* data, size_t length) { Walk<false>(data, length); }

  /**
   * Finds where the next read should stop. It stops before a possible alert, but not before the first byte.
   * @returns how many of these bytes to read next, at least one
   */
  size_t FindEnd(const char* data, size_t length) const {
    Walker ahead = *this;
    return ahead.Walk<true>(data, length);
  }

 private:
  template <bool kStops>
  size_t Walk(const char* data, size_t length) {
    for (size_t at = 0; at < length;) {
      if (left_ > 0) {
        const size_t taken = std::min(left_, length - at);
        left_ -= taken;
        at += taken;
        continue;
      }
      if (kStops && head_count_ == 0 && at > 0 && IsGoodbye(data + at, length - at)) return at;
      head_[head_count_++] = static_cast<uint8_t>(data[at++]);
      if (head_count_ < kHeadBytes) continue;
      left_ = static_cast<size_t>(head_[3]) << 8 | head_[4];
      head_count_ = 0;
    }
    return length;
  }

  static bool IsGoodbye(const char* head, size_t length) {
    if (length < kHeadBytes) return false;
    const auto type = static_cast<uint8_t>(head[0]);
    const size_t bytes = static_cast<size_t>(static_cast<uint8_t>(head[3])) << 8 | static_cast<uint8_t>(head[4]);
    return type == kAlert || (type == kData && bytes == kHiddenAlertBytes);
  }

  uint8_t head_[kHeadBytes] = {};
  size_t head_count_ = 0;
  /** Number of bytes of the current record that have not been read. */
  size_t left_ = 0;
};

}  // namespace records
