/**
 * Finds where each request of a connection begins and ends, as bytes arrive, and detects bytes that two parsers could
 * read differently (RFC 9112, section 11.2) before they are processed. It stores no bytes: it returns how many of the
 * bytes are complete, and the caller keeps the rest.
 */
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <vector>

namespace framing {

/** Why reading stopped. `src/http/framing-guard.ts` maps these numbers to messages. */
enum class Refusal : uint8_t {
  kNone = 0,
  kStartLine = 1,
  kHeaderLine = 2,
  kHost = 3,
  kLengthRepeated = 4,
  kLengthMalformed = 5,
  kBoth = 6,
  kCoding = 7,
  kHeadTooLarge = 8,
  kChunkExtension = 9,
  kChunkSize = 10,
  kChunkEnd = 11,
  kTrailers = 12,
  kVersion = 13,
};

/** The result of scanning some bytes. */
struct Finding {
  /** Number of complete bytes: heads, parts of bodies, chunk lines. The rest waits for more bytes, or is refused. */
  size_t whole;
  Refusal refusal;
  /** The refused bytes are in a chunked body whose head was complete. */
  bool is_in_chunks;
  /** The chunk's data is not followed by a line end. */
  bool lacks_line_end;
  /**
   * The end, including the blank line, of a head after which the protocol changes; 0 if no such head ends in these
   * bytes.
   */
  size_t switch_at;
};

/** The length that a head announces for all bytes after a change of protocol: the longest possible body. */
constexpr uint64_t kSwitchedBytes = 999999999999999ULL;

constexpr std::array<bool, 256> MakeTable(bool (*belongs)(int)) {
  std::array<bool, 256> table{};
  for (int byte = 0; byte < 256; byte++) table[static_cast<size_t>(byte)] = belongs(byte);
  return table;
}

constexpr bool IsTokenByte(int byte) {
  if ((byte >= '0' && byte <= '9') || (byte >= 'A' && byte <= 'Z') || (byte >= 'a' && byte <= 'z')) return true;
  for (const char mark : {'!', '#', '$', '%', '&', '\'', '*', '+', '-', '.', '^', '_', '`', '|', '~'})
    if (byte == mark) return true;
  return false;
}
/** Accepts DEL. The forwarder later refuses a request with DEL but keeps the connection. */
constexpr bool IsValueByte(int byte) { return byte >= 0x20 || byte == '\t'; }
constexpr bool IsWordByte(int byte) { return byte > 0x20; }

inline constexpr std::array<bool, 256> kToken = MakeTable(IsTokenByte);
inline constexpr std::array<bool, 256> kValue = MakeTable(IsValueByte);
inline constexpr std::array<bool, 256> kWord = MakeTable(IsWordByte);

constexpr uint64_t kEach = 0x0101010101010101ULL;

/**
 * Skips bytes that are valid in a header value, eight at a time while none of them is below the space.
 * @param seen the bits of all skipped bytes are added to it with OR
 * @returns the first byte that is invalid in a value, or the end
 */
inline const uint8_t* SkipValue(const uint8_t* at, const uint8_t* end, uint64_t* seen) {
  uint64_t bits = 0;
  for (uint64_t eight; end - at >= 8; at += 8) {
    std::memcpy(&eight, at, 8);
    if (((eight - 0x20 * kEach) & ~eight & (0x80 * kEach)) != 0) break;
    bits |= eight;
  }
  while (at < end && kValue[*at]) bits |= *at++;
  *seen |= bits;
  return at;
}

/**
 * Where a head is in the bytes that were read last, which contain its end. `start` is negative if the head began in
 * earlier bytes.
 */
struct HeadPlace {
  ptrdiff_t start;
  ptrdiff_t end;
  /** How many heads ended before this one in these bytes. */
  uint32_t number;
};

class Scanner {
 public:
  /**
   * @param head_bytes_max a longer head is refused
   * @param switches_protocols whether all bytes after a head that asks for WebSocket and announces no body belong to
   *   the new protocol
   */
  explicit Scanner(uint32_t head_bytes_max, bool switches_protocols = false)
      : head_bytes_max_(head_bytes_max), switches_protocols_(switches_protocols) {}

  /**
   * Scans the next bytes. Must not be called again after a refusal.
   * @param data the bytes that follow the previous ones
   */
  Finding Read(const char* data, size_t length) {
    const auto* const start = reinterpret_cast<const uint8_t*>(data);
    const uint8_t* const end = start + length;
    const uint8_t* at = start;
    whole_ = 0;
    switch_at_ = 0;
    high_heads_.clear();
    heads_ = 0;
    refusal_ = Refusal::kNone;
    lacks_line_end_ = false;
    bool is_in_chunks = false;
    while (at < end && refusal_ == Refusal::kNone) {
      is_in_chunks = state_ >= State::kChunkSize;
      if (state_ == State::kLength || state_ == State::kChunkData) {
        at = SkipBody(at, end);
        whole_ = static_cast<size_t>(at - start);
      } else if (is_in_chunks) {
        at = ReadChunkByte(at, start);
      } else {
        const uint8_t* const from = at;
        at = ReadHead(at, end, start);
        head_bytes_ += static_cast<uint32_t>(at - from);
        if (state_ < State::kLength && head_bytes_ > head_bytes_max_ && refusal_ == Refusal::kNone)
          refusal_ = Refusal::kHeadTooLarge;
      }
    }
    head_start_ -= end - start;
    return {whole_, refusal_, is_in_chunks && refusal_ != Refusal::kNone, lacks_line_end_, switch_at_};
  }

  /** Returns the heads that ended in the bytes read last and have values with bytes above 127. */
  const std::vector<HeadPlace>& HighHeads() const { return high_heads_; }

  /** Whether the next byte begins a request. */
  bool IsAtStart() const { return state_ == State::kStart; }

 private:
  enum class State : uint8_t {
    kStart,
    kMethod,
    kTargetStart,
    kTarget,
    kVersion,
    kStartLineEnd,
    kLineStart,
    kName,
    kValueStart,
    kValue,
    kValueEnd,
    kHeadEnd,
    kLength,
    kChunkSize,
    kChunkSizeEnd,
    kChunkData,
    kChunkCr,
    kChunkLf,
    kTrailerCr,
    kTrailerLf,
  };

  enum class Field : uint8_t { kOther, kLength, kCoding, kHost, kUpgrade, kConnection };

  static constexpr size_t kNameKept = 17;
  static constexpr size_t kWordKept = 15;
  static constexpr uint8_t kChunkDigitsMax = 13;
  /** The current option cannot be `upgrade`. */
  static constexpr uint8_t kNoOption = 255;

  const uint8_t* SkipBody(const uint8_t* at, const uint8_t* end) {
    const auto there = static_cast<uint64_t>(end - at);
    const uint64_t taken = there < remaining_ ? there : remaining_;
    remaining_ -= taken;
    if (remaining_ == 0) {
      if (state_ == State::kLength) StartRequest();
      else state_ = State::kChunkCr;
    }
    return at + taken;
  }

  void StartRequest() {
    state_ = State::kStart;
    head_bytes_ = 0;
  }

  /**
   * Reads bytes until the state changes, the bytes end, or a byte is refused.
   * @returns the first byte that was not read
   */
  const uint8_t* ReadHead(const uint8_t* at, const uint8_t* end, const uint8_t* start) {
    switch (state_) {
      case State::kStart:
        lengths_ = codings_ = hosts_ = 0;
        is_length_valid_ = is_chunked_ = true;
        is_upgrade_asked_ = is_upgrade_named_ = false;
        remaining_ = 0;
        seen_ = 0;
        head_start_ = at - start;
        if (!kWord[*at]) return Refuse(at, Refusal::kStartLine);
        word_length_ = 0;
        state_ = State::kMethod;
        return at;
      case State::kMethod:
        for (; at < end && kWord[*at]; at++) KeepWordByte(*at);
        if (at == end) return at;
        if (*at != ' ') return Refuse(at, Refusal::kStartLine);
        is_get_ = word_length_ == 3 && std::memcmp(word_, "GET", 3) == 0;
        state_ = State::kTargetStart;
        return at + 1;
      case State::kTargetStart:
        if (!kWord[*at]) return Refuse(at, Refusal::kStartLine);
        state_ = State::kTarget;
        return at;
      case State::kTarget:
        while (at < end && kWord[*at]) at++;
        if (at == end) return at;
        if (*at != ' ') return Refuse(at, Refusal::kStartLine);
        word_length_ = 0;
        state_ = State::kVersion;
        return at + 1;
      case State::kVersion:
        for (; at < end && kWord[*at]; at++) KeepWordByte(*at);
        if (at == end) return at;
        // Without a version, another parser may read these bytes as part of the target.
        if (*at != '\r' || word_length_ != 8 || std::memcmp(word_, "HTTP/", 5) != 0)
          return Refuse(at, Refusal::kStartLine);
        if (std::memcmp(word_ + 5, "1.1", 3) != 0) return Refuse(at, Refusal::kVersion);
        state_ = State::kStartLineEnd;
        return at + 1;
      case State::kStartLineEnd:
        if (*at != '\n') return Refuse(at, Refusal::kStartLine);
        state_ = State::kLineStart;
        return at + 1;
      case State::kLineStart:
        at = SkipLines(at, end, &seen_);
        if (at == end) return at;
        if (*at == '\r') {
          state_ = State::kHeadEnd;
          return at + 1;
        }
        // A folded line begins with a space; a line without a name begins with the colon.
        if (!kToken[*at]) return Refuse(at, Refusal::kHeaderLine);
        name_length_ = 0;
        state_ = State::kName;
        return at;
      case State::kName:
        for (; at < end && kToken[*at]; at++) {
          if (name_length_ < kNameKept) name_[name_length_] = static_cast<char>(*at | 0x20);
          if (name_length_ <= kNameKept) name_length_++;
        }
        if (at == end) return at;
        if (*at != ':') return Refuse(at, Refusal::kHeaderLine);
        field_ = FindField();
        word_length_ = 0;
        option_length_ = 0;
        state_ = State::kValueStart;
        return at + 1;
      case State::kValueStart:
        while (at < end && (*at == ' ' || *at == '\t')) at++;
        if (at < end) state_ = State::kValue;
        return at;
      case State::kValue:
        if (field_ == Field::kOther) {
          at = SkipValue(at, end, &seen_);
        } else if (field_ == Field::kConnection) {
          for (; at < end && kValue[*at]; at++) ReadOptionByte(*at);
        } else {
          for (; at < end && kValue[*at]; at++) KeepWordByte(*at);
        }
        if (at == end) return at;
        if (*at != '\r') return Refuse(at, Refusal::kHeaderLine);
        state_ = State::kValueEnd;
        return at + 1;
      case State::kValueEnd:
        if (*at != '\n') return Refuse(at, Refusal::kHeaderLine);
        if (field_ != Field::kOther) TakeField();
        state_ = State::kLineStart;
        return at + 1;
      case State::kHeadEnd:
        if (*at != '\n') return Refuse(at, Refusal::kHeaderLine);
        EndHead();
        if (refusal_ == Refusal::kNone) {
          whole_ = static_cast<size_t>(at + 1 - start);
          if ((seen_ & (0x80 * kEach)) != 0) high_heads_.push_back({head_start_, at + 1 - start, heads_});
          heads_++;
        }
        if (is_switched_ && refusal_ == Refusal::kNone) {
          switch_at_ = whole_;
          is_switched_ = false;
        }
        return at + 1;
      default:
        return end;
    }
  }

  /**
   * Skips whole lines whose names, by their length and first letter, cannot affect the framing: most lines. Other lines
   * are read state by state.
   * @returns the position of the first line that was not skipped
   */
  static const uint8_t* SkipLines(const uint8_t* at, const uint8_t* end, uint64_t* seen) {
    for (;;) {
      const uint8_t* colon = at;
      while (colon < end && kToken[*colon]) colon++;
      const auto length = colon - at;
      if (colon == end || length == 0 || *colon != ':' || length == 4 || length == 14 || length == 17 ||
          (length == 7 && (*at | 0x20) == 'u') || (length == 10 && (*at | 0x20) == 'c'))
        return at;
      const uint8_t* const line_end = SkipValue(colon + 1, end, seen);
      if (end - line_end < 2 || line_end[0] != '\r' || line_end[1] != '\n') return at;
      at = line_end + 2;
    }
  }

  void KeepWordByte(uint8_t byte) {
    seen_ |= byte;
    if (word_length_ < kWordKept) word_[word_length_] = static_cast<char>(byte);
    if (word_length_ <= kWordKept) word_length_++;
  }

  Field FindField() const {
    if (name_length_ == 14 && std::memcmp(name_, "content-length", 14) == 0) return Field::kLength;
    if (name_length_ == 17 && std::memcmp(name_, "transfer-encoding", 17) == 0) return Field::kCoding;
    if (name_length_ == 7 && std::memcmp(name_, "upgrade", 7) == 0) return Field::kUpgrade;
    if (name_length_ == 10 && std::memcmp(name_, "connection", 10) == 0) return Field::kConnection;
    return name_length_ == 4 && std::memcmp(name_, "host", 4) == 0 ? Field::kHost : Field::kOther;
  }

  /** Searches for the option `upgrade` in the list of a Connection header. */
  void ReadOptionByte(uint8_t byte) {
    seen_ |= byte;
    constexpr char kUpgrade[] = "upgrade";
    if (byte == ',') {
      EndOption();
    } else if (byte != ' ' && byte != '\t') {
      const bool is_next = option_length_ < 7 && static_cast<char>(byte | 0x20) == kUpgrade[option_length_];
      option_length_ = is_next ? static_cast<uint8_t>(option_length_ + 1) : kNoOption;
    }
  }

  void EndOption() {
    if (option_length_ == 7) is_upgrade_named_ = true;
    option_length_ = 0;
  }

  bool IsWebSocket(size_t length) const {
    constexpr char kWebSocket[] = "websocket";
    if (length != 9) return false;
    for (size_t at = 0; at < 9; at++)
      if (static_cast<char>(word_[at] | 0x20) != kWebSocket[at]) return false;
    return true;
  }

  void TakeField() {
    size_t length = word_length_;
    // Only the beginning of a longer word is kept. No accepted length or coding has so many characters.
    const bool is_kept = length <= kWordKept;
    while (is_kept && length > 0 && (word_[length - 1] == ' ' || word_[length - 1] == '\t')) length--;
    if (field_ == Field::kConnection) {
      EndOption();
    } else if (field_ == Field::kUpgrade) {
      is_upgrade_asked_ = is_upgrade_asked_ || (is_kept && IsWebSocket(length));
    } else if (field_ == Field::kHost) {
      CountUp(&hosts_);
    } else if (field_ == Field::kCoding) {
      CountUp(&codings_);
      is_chunked_ = is_chunked_ && is_kept && length == 7 && std::memcmp(word_, "chunked", 7) == 0;
    } else {
      CountUp(&lengths_);
      is_length_valid_ = is_kept && length > 0;
      remaining_ = 0;
      for (size_t place = 0; is_length_valid_ && place < length; place++) {
        is_length_valid_ = word_[place] >= '0' && word_[place] <= '9';
        remaining_ = remaining_ * 10 + static_cast<uint64_t>(word_[place] - '0');
      }
    }
  }

  static void CountUp(uint8_t* count) {
    if (*count < 2) (*count)++;
  }

  void EndHead() {
    if (hosts_ != 1) {
      refusal_ = Refusal::kHost;
    } else if (codings_ > 0) {
      if (lengths_ > 0) refusal_ = Refusal::kBoth;
      else if (codings_ > 1 || !is_chunked_) refusal_ = Refusal::kCoding;
      else StartChunk();
    } else if (lengths_ > 1) {
      refusal_ = Refusal::kLengthRepeated;
    } else if (lengths_ == 1 && !is_length_valid_) {
      refusal_ = Refusal::kLengthMalformed;
    } else if (lengths_ == 1 && remaining_ > 0) {
      state_ = State::kLength;
    } else if (switches_protocols_ && is_get_ && is_upgrade_asked_ && is_upgrade_named_ && lengths_ == 0) {
      is_switched_ = true;
      remaining_ = kSwitchedBytes;
      state_ = State::kLength;
    } else {
      StartRequest();
    }
  }

  void StartChunk() {
    state_ = State::kChunkSize;
    remaining_ = 0;
    digits_ = 0;
  }

  const uint8_t* ReadChunkByte(const uint8_t* at, const uint8_t* start) {
    const uint8_t byte = *at;
    switch (state_) {
      case State::kChunkSize: {
        const int digit = ReadDigit(byte);
        if (digit >= 0) {
          if (++digits_ > kChunkDigitsMax) return Refuse(at, Refusal::kChunkSize);
          remaining_ = remaining_ * 16 + static_cast<uint64_t>(digit);
          return at + 1;
        }
        if (digits_ == 0 || byte != '\r')
          return Refuse(at, digits_ > 0 && byte == ';' ? Refusal::kChunkExtension : Refusal::kChunkSize);
        state_ = State::kChunkSizeEnd;
        return at + 1;
      }
      case State::kChunkSizeEnd:
        if (byte != '\n') return Refuse(at, Refusal::kChunkSize);
        // The last chunk is complete only with the lines that must follow it.
        state_ = remaining_ == 0 ? State::kTrailerCr : State::kChunkData;
        if (remaining_ > 0) whole_ = static_cast<size_t>(at + 1 - start);
        return at + 1;
      case State::kChunkCr:
      case State::kChunkLf:
        if (byte != (state_ == State::kChunkCr ? '\r' : '\n')) {
          lacks_line_end_ = true;
          return Refuse(at, Refusal::kChunkEnd);
        }
        if (state_ == State::kChunkCr) {
          state_ = State::kChunkLf;
        } else {
          StartChunk();
          whole_ = static_cast<size_t>(at + 1 - start);
        }
        return at + 1;
      case State::kTrailerCr:
        if (byte != '\r') return Refuse(at, Refusal::kTrailers);
        state_ = State::kTrailerLf;
        return at + 1;
      default:
        if (byte != '\n') return Refuse(at, Refusal::kTrailers);
        StartRequest();
        whole_ = static_cast<size_t>(at + 1 - start);
        return at + 1;
    }
  }

  static int ReadDigit(uint8_t byte) {
    if (byte >= '0' && byte <= '9') return byte - '0';
    if (byte >= 'a' && byte <= 'f') return byte - 'a' + 10;
    if (byte >= 'A' && byte <= 'F') return byte - 'A' + 10;
    return -1;
  }

  const uint8_t* Refuse(const uint8_t* at, Refusal refusal) {
    refusal_ = refusal;
    return at;
  }

  const uint32_t head_bytes_max_;
  const bool switches_protocols_;
  uint32_t head_bytes_ = 0;
  /** Bytes left in the body or the chunk. */
  uint64_t remaining_ = 0;
  size_t whole_ = 0;
  /** The bits of all bytes in the head's values, combined with OR. */
  uint64_t seen_ = 0;
  /** Offset of the head from the first of the bytes that are being read. */
  ptrdiff_t head_start_ = 0;
  /** Number of heads that ended in the bytes that are being read. */
  uint32_t heads_ = 0;
  std::vector<HeadPlace> high_heads_;
  State state_ = State::kStart;
  Field field_ = Field::kOther;
  Refusal refusal_ = Refusal::kNone;
  bool lacks_line_end_ = false;
  bool is_length_valid_ = true;
  bool is_chunked_ = true;
  /** Only GET can ask for WebSocket (RFC 6455, 4.1). */
  bool is_get_ = false;
  bool is_upgrade_asked_ = false;
  bool is_upgrade_named_ = false;
  bool is_switched_ = false;
  size_t switch_at_ = 0;
  uint8_t option_length_ = 0;
  /** Numbers of length headers, transfer codings and hosts. Counting stops at two. */
  uint8_t lengths_ = 0;
  uint8_t codings_ = 0;
  uint8_t hosts_ = 0;
  uint8_t digits_ = 0;
  uint8_t name_length_ = 0;
  uint8_t word_length_ = 0;
  char name_[kNameKept] = {};
  /** The version, or the value of a relevant field. */
  char word_[kWordKept] = {};
};

}  // namespace framing
