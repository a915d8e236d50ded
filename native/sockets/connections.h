/**
 * Functions that the HTTP library calls instead of the system's (`interposition.h`) to accept, read and close
 * connections. They count and cap connections, reject bytes that two parsers could read differently, and stop accepting
 * while no file descriptor is free. Any server thread; a connection belongs to one thread.
 */
#pragma once

#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <sys/types.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <mutex>
#include <string>
#include <unordered_map>
#include <vector>

#include "framing.h"
#include "heads.h"
#include "records.h"

#ifdef __linux__
#include <sys/epoll.h>
#endif

namespace connections {

#ifndef MSG_NOSIGNAL
// Node ignores SIGPIPE in the whole process.
#define MSG_NOSIGNAL 0
#endif

/** Bytes that are kept free in the read buffer. They are needed for the text that replaces refused input. */
constexpr size_t kInsertBytes = 256;
/** Maximum number of bytes read and discarded from a refused connection, so that its client can read the answer. */
constexpr size_t kDroppedBytes = 1 << 20;
/** Maximum number of connections refused in one pass, so that other connections are not delayed. */
constexpr int kRefusedAtOnce = 32;
constexpr uint32_t kHeadBytesDefault = 4096;
constexpr uint32_t kHeadBytesMax = 256 << 10;
constexpr size_t kMarkCharacters = 32;

/**
 * The peer of a connection: an IPv4 address, or the first 64 bits of an IPv6 address, because one host usually has all
 * addresses with these bits.
 */
struct Peer {
  uint64_t network = 0;
  bool is_near = true;

  explicit Peer(const sockaddr_storage& address) {
    uint8_t bytes[16] = {};
    if (address.ss_family == AF_INET) {
      Map4(&reinterpret_cast<const sockaddr_in&>(address).sin_addr);
    } else if (address.ss_family == AF_INET6) {
      std::memcpy(bytes, &reinterpret_cast<const sockaddr_in6&>(address).sin6_addr, 16);
      if (IN6_IS_ADDR_V4MAPPED(&reinterpret_cast<const sockaddr_in6&>(address).sin6_addr)) {
        Map4(bytes + 12);
      } else {
        std::memcpy(&network, bytes, sizeof(network));
        is_near = IN6_IS_ADDR_LOOPBACK(&reinterpret_cast<const sockaddr_in6&>(address).sin6_addr) ||
                  (bytes[0] & 0xfe) == 0xfc || (bytes[0] == 0xfe && (bytes[1] & 0xc0) == 0x80);
      }
    }
  }

 private:
  void Map4(const void* from) {
    uint8_t bytes[4];
    std::memcpy(bytes, from, 4);
    network = 0xffff00000000ULL;
    std::memcpy(&network, bytes, 4);
    is_near = bytes[0] == 127 || bytes[0] == 10 || (bytes[0] == 172 && (bytes[1] & 0xf0) == 16) ||
              (bytes[0] == 192 && bytes[1] == 168) || (bytes[0] == 169 && bytes[1] == 254) ||
              (bytes[0] == 100 && (bytes[1] & 0xc0) == 64);
  }
};

/** The protocol of a port. */
struct PortKind {
  bool is_secure = false;
  /** After a request that asks for WebSocket, all following bytes are passed on as the body of that request. */
  bool switches_protocols = false;
};

struct Connection {
  Connection(const Peer& from, uint32_t head_bytes_max, const PortKind& kind)
      : scanner(head_bytes_max, kind.switches_protocols), peer(from), is_secure(kind.is_secure) {}
  framing::Scanner scanner;
  /** Received bytes of an incomplete head, or of an incomplete line between two chunks. */
  std::string held;
  const Peer peer;
  /** The received bytes are ciphertext; `plaintext.h` checks them after decryption. */
  const bool is_secure;
  bool is_refused = false;
  /**
   * Whether the next answer may contain the length header that the library writes for a body of `kSwitchedBytes`. That
   * header is removed, because an answer that switches protocols must not have a length header.
   */
  bool is_switching = false;
  /** The connection has switched protocols. */
  bool is_switched = false;
  /** Used only for secure connections. */
  records::Walker records;
  /** Slot of the connection's last head (`heads.h`). */
  uint32_t head_slot = heads::kNoSlot;
  /** Number of consecutive heads that differed from the head in `head_slot`. */
  uint8_t head_misses = 0;
};

/** The connections by file descriptor. Entries are allocated in blocks, and blocks are never freed. */
class Table {
 public:
  bool Put(int descriptor, Connection* connection) {
    const auto place = static_cast<size_t>(descriptor);
    if (place / kBlock >= blocks_.size()) return false;
    auto& block = blocks_[place / kBlock];
    Block* there = block.load(std::memory_order_acquire);
    if (there == nullptr) {
      auto* const made = new Block();
      if (block.compare_exchange_strong(there, made, std::memory_order_acq_rel)) there = made;
      else delete made;
    }
    (*there)[place % kBlock].store(connection, std::memory_order_release);
    return true;
  }

  Connection* Find(int descriptor) const {
    const auto place = static_cast<size_t>(descriptor);
    if (descriptor < 0 || place / kBlock >= blocks_.size()) return nullptr;
    const Block* const there = blocks_[place / kBlock].load(std::memory_order_acquire);
    return there == nullptr ? nullptr : (*there)[place % kBlock].load(std::memory_order_acquire);
  }

  Connection* Take(int descriptor) {
    Connection* const found = Find(descriptor);
    if (found != nullptr) Put(descriptor, nullptr);
    return found;
  }

 private:
  static constexpr size_t kBlock = 1024;
  using Block = std::array<std::atomic<Connection*>, kBlock>;
  /** Covers four million descriptors. Connections with a higher descriptor are not accepted. */
  std::array<std::atomic<Block*>, 4096> blocks_{};
};

/** Counters of all threads together. */
struct Counters {
  std::atomic<uint32_t> open{0};
  std::atomic<uint64_t> refused_total{0};
  std::atomic<uint64_t> refused_address{0};
  std::atomic<uint64_t> refused_framing{0};
  std::atomic<uint64_t> accept_pauses{0};
  std::atomic<uint64_t> slow_uploads{0};
};

/** A port on which the service accepts connections. */
struct Port {
  uint32_t number;
  uint32_t listeners;
  /** The answer for a client whose connection exceeds a cap. */
  std::string refusal;
  PortKind kind;
};

struct Shared {
  Table table;
  Counters counters;
  /** Caps on connections, in total and by client address; 0: no cap. */
  std::atomic<uint32_t> total_max{0};
  std::atomic<uint32_t> address_max{0};
  /** The cap by address applies to loopback and private networks as well. */
  std::atomic<bool> is_near_capped{false};
  std::mutex mutex;
  std::vector<Port> ports;
  std::unordered_map<uint64_t, uint32_t> by_network;
  char mark[kMarkCharacters + 1] = {};
  uint32_t head_bytes_max = kHeadBytesDefault;
};

/** The shared state is never destroyed, because a thread may use it while the process exits. */
inline Shared& Get() {
  static auto* const shared = new Shared();
  return *shared;
}

/** The epoll descriptor of this thread's loop; -1 if unknown. */
inline thread_local int loop_descriptor = -1;
/** Listeners of this thread that are paused until a descriptor is free. */
inline thread_local std::vector<int>* paused = nullptr;

/** Bytes that the library is parsing. They begin with a request. */
struct Arrived {
  Connection* connection = nullptr;
  const char* bytes = nullptr;
  size_t length = 0;
};

/**
 * `arrived`: the bytes that this thread received last, until JavaScript calls TakeHead for them. `taken`: the bytes of
 * the last call of TakeHead.
 */
inline thread_local Arrived arrived;
inline thread_local Arrived taken;

constexpr int32_t kUnknownHead = -1;
/** The head is unknown and is not to be remembered. */
constexpr int32_t kPassedHead = -2;
/** The library may have removed bytes from values of the head; `raw_heads` has the head as received. */
constexpr int32_t kRawHead = -3;

/** A head as received, and how many heads precede it in the bytes that the library is parsing. */
struct RawHead {
  uint32_t number;
  std::string bytes;
};

/**
 * Heads with bytes above 127 among the bytes that the library is parsing on this thread, in order. The library treats
 * such bytes as spaces at the beginning and end of a value, and removes them.
 */
inline thread_local std::vector<RawHead>* raw_heads = nullptr;
/** How many heads JavaScript has taken from the bytes that the library is parsing. */
inline thread_local uint32_t heads_taken = 0;

inline void ForgetRawHeads() {
  heads_taken = 0;
  if (raw_heads != nullptr) raw_heads->clear();
}

/** Keeps the heads with bytes above 127 from the scanner's last call. @param bytes the bytes of that call */
inline void KeepRawHeads(const framing::Scanner& scanner, const char* bytes) {
  if (scanner.HighHeads().empty()) return;
  if (raw_heads == nullptr) raw_heads = new std::vector<RawHead>();
  for (const auto& place : scanner.HighHeads())
    raw_heads->push_back({place.number, std::string(bytes + place.start, bytes + place.end)});
}

/** Returns the head of the last call of TakeHead if that head is in `raw_heads`; otherwise nullptr. */
inline const std::string* TakenRawHead() {
  if (raw_heads == nullptr) return nullptr;
  // A binary search: the heads are in order, and one read can bring thousands of small ones.
  const auto found = std::lower_bound(raw_heads->begin(), raw_heads->end(), heads_taken,
                                      [](const RawHead& head, uint32_t count) { return head.number + 1 < count; });
  return found != raw_heads->end() && found->number + 1 == heads_taken ? &found->bytes : nullptr;
}

/**
 * Returns the slot of the head that the library has just parsed, or kUnknownHead, kPassedHead or kRawHead. Call this
 * once for each request, before anything else.
 */
inline int32_t TakeHead() {
  taken = arrived;
  arrived = Arrived();
  heads_taken++;
  if (TakenRawHead() != nullptr) {
    taken = Arrived();
    return kRawHead;
  }
  Connection* const connection = taken.connection;
  if (connection == nullptr) return kPassedHead;
  const uint32_t slot = connection->head_slot;
  if (slot != heads::kNoSlot && heads::IsSame(heads::slots[slot], taken.bytes, taken.length)) {
    taken = Arrived();
    connection->head_misses = 0;
    return static_cast<int32_t>(slot);
  }
  if (connection->head_misses < heads::kMissesMax) {
    connection->head_misses++;
    return kUnknownHead;
  }
  taken = Arrived();
  return kPassedHead;
}

/** Remembers the head for which TakeHead has just returned kUnknownHead. @returns whether the head was stored */
inline bool RememberHead(uint32_t slot, const uint32_t* varying, size_t varying_count, uint32_t lines) {
  const Arrived head = taken;
  taken = Arrived();
  if (head.connection == nullptr || slot >= heads::kSlots) return false;
  heads::Head& into = heads::slots[slot];
  const bool is_kept = heads::Read(head.bytes, head.length, varying, varying_count, lines, &into);
  if (!is_kept) into = heads::Head();
  head.connection->head_slot = is_kept ? slot : heads::kNoSlot;
  return is_kept;
}

#ifdef __linux__

inline bool SetWanted(int listener, uint32_t events) {
  epoll_event event{};
  event.events = events;
  event.data.fd = listener;
  return epoll_ctl(loop_descriptor, EPOLL_CTL_MOD, listener, &event) == 0;
}

/** Pauses a listener. Otherwise epoll would report it again and again, and the library's loop would spin. */
inline void PauseAccepting(int listener) {
  if (loop_descriptor < 0 || !SetWanted(listener, 0)) return;
  if (paused == nullptr) paused = new std::vector<int>();
  paused->push_back(listener);
  Get().counters.accept_pauses.fetch_add(1, std::memory_order_relaxed);
}

/** Resumes the paused listeners of this thread. @returns how many there were */
inline uint32_t ResumeAccepting() {
  if (paused == nullptr) return 0;
  const auto count = static_cast<uint32_t>(paused->size());
  // The call fails for a listener that was closed meanwhile, because the epoll set does not contain it.
  for (const int listener : *paused) SetWanted(listener, EPOLLIN);
  paused->clear();
  return count;
}

inline uint32_t FindPort(int listener) {
  sockaddr_storage address{};
  socklen_t size = sizeof(address);
  if (getsockname(listener, reinterpret_cast<sockaddr*>(&address), &size) != 0) return 0;
  if (address.ss_family == AF_INET) return ntohs(reinterpret_cast<sockaddr_in*>(&address)->sin_port);
  if (address.ss_family == AF_INET6) return ntohs(reinterpret_cast<sockaddr_in6*>(&address)->sin6_port);
  return 0;
}

inline std::string ReadRefusal(uint32_t port) {
  Shared& shared = Get();
  const std::lock_guard<std::mutex> lock(shared.mutex);
  for (const Port& known : shared.ports)
    if (known.number == port) return known.refusal;
  return std::string();
}

/** Finds the protocol of a port. @returns false if the port was not opened with `openPort` */
inline bool FindKind(uint32_t port, PortKind* kind) {
  Shared& shared = Get();
  const std::lock_guard<std::mutex> lock(shared.mutex);
  for (const Port& known : shared.ports) {
    if (known.number != port) continue;
    *kind = known.kind;
    return true;
  }
  return false;
}

/** Reads and discards pending bytes. Otherwise closing would send a reset, and the client could lose the answer. */
inline void Drain(int descriptor) {
  char dropped[16 << 10];
  for (size_t bytes = 0; bytes < kDroppedBytes;) {
    const ssize_t count = recv(descriptor, dropped, sizeof(dropped), MSG_DONTWAIT);
    if (count <= 0) return;
    bytes += static_cast<size_t>(count);
  }
}

inline void Dismiss(int descriptor, const std::string& refusal) {
  send(descriptor, refusal.data(), refusal.size(), MSG_DONTWAIT | MSG_NOSIGNAL);
  shutdown(descriptor, SHUT_WR);
  Drain(descriptor);
  close(descriptor);
}

inline bool IsCounted(const Shared& shared, const Peer& peer) {
  return !peer.is_near || shared.is_near_capped.load(std::memory_order_relaxed);
}

inline void Forget(Connection* connection) {
  if (arrived.connection == connection) arrived = Arrived();
  if (taken.connection == connection) taken = Arrived();
  Shared& shared = Get();
  shared.counters.open.fetch_sub(1, std::memory_order_relaxed);
  const std::lock_guard<std::mutex> lock(shared.mutex);
  const auto found = shared.by_network.find(connection->peer.network);
  if (found != shared.by_network.end() && --found->second == 0) shared.by_network.erase(found);
  delete connection;
}

/** Counts a connection if it is accepted. @returns whether it is accepted */
inline bool Admit(int descriptor, const Peer& peer, const PortKind& kind) {
  Shared& shared = Get();
  const uint32_t total_max = shared.total_max.load(std::memory_order_relaxed);
  if (shared.counters.open.fetch_add(1, std::memory_order_relaxed) >= total_max && total_max > 0) {
    shared.counters.open.fetch_sub(1, std::memory_order_relaxed);
    shared.counters.refused_total.fetch_add(1, std::memory_order_relaxed);
    return false;
  }
  {
    const std::lock_guard<std::mutex> lock(shared.mutex);
    uint32_t& count = shared.by_network[peer.network];
    const uint32_t address_max = shared.address_max.load(std::memory_order_relaxed);
    if (address_max > 0 && count >= address_max && IsCounted(shared, peer)) {
      shared.counters.open.fetch_sub(1, std::memory_order_relaxed);
      shared.counters.refused_address.fetch_add(1, std::memory_order_relaxed);
      return false;
    }
    count++;
  }
  auto* const connection = new Connection(peer, shared.head_bytes_max, kind);
  if (shared.table.Put(descriptor, connection)) return true;
  Forget(connection);
  shared.counters.refused_total.fetch_add(1, std::memory_order_relaxed);
  return false;
}

inline int Accept(int listener, sockaddr* address, socklen_t* length, int flags) {
  const uint32_t port = FindPort(listener);
  PortKind kind;
  const bool is_ours = port != 0 && FindKind(port, &kind);
  const socklen_t room = length == nullptr ? 0 : *length;
  for (int refused = 0; refused < kRefusedAtOnce; refused++) {
    if (length != nullptr) *length = room;
    const int descriptor = accept4(listener, address, length, flags);
    if (!is_ours) return descriptor;
    if (descriptor < 0) {
      const int reason = errno;
      if (reason == EMFILE || reason == ENFILE || reason == ENOBUFS || reason == ENOMEM) PauseAccepting(listener);
      errno = reason;
      return descriptor;
    }
    sockaddr_storage from{};
    if (address != nullptr) std::memcpy(&from, address, *length < sizeof(from) ? *length : sizeof(from));
    if (Admit(descriptor, Peer(from), kind)) return descriptor;
    Dismiss(descriptor, ReadRefusal(port));
  }
  errno = EAGAIN;
  return -1;
}

/** Writes the input that the parser gets instead of refused bytes: a request or a chunk that contains the mark. */
inline size_t Insert(char* into, const framing::Finding& finding) {
  const auto code = static_cast<unsigned>(finding.refusal);
  const char* const mark = Get().mark;
  const int written =
      finding.is_in_chunks
          ? std::snprintf(into, kInsertBytes, "%s%x\r\n%s%02u\r\n", finding.lacks_line_end ? "\r\n" : "",
                          static_cast<unsigned>(kMarkCharacters + 2), mark, code)
          : std::snprintf(into, kInsertBytes, "GET /%s%02u HTTP/1.1\r\nhost: x\r\n\r\n", mark, code);
  return written > 0 ? static_cast<size_t>(written) : 0;
}

/** Writes the header lines that are added to a head after which the protocol changes. */
inline size_t InsertSwitch(char* into) {
  const int written = std::snprintf(into, kInsertBytes, "%s: 1\r\ncontent-length: %llu\r\n", Get().mark,
                                    static_cast<unsigned long long>(framing::kSwitchedBytes));
  return written > 0 ? static_cast<size_t>(written) : 0;
}

/** Stops serving the connection. */
inline void Refuse(int descriptor, Connection* connection, const framing::Finding& finding) {
  connection->is_refused = true;
  connection->held = std::string();
  Get().counters.refused_framing.fetch_add(1, std::memory_order_relaxed);
  // The answer may be complete before the body. Then only this call makes the library read again and close the
  // connection.
  if (finding.is_in_chunks) shutdown(descriptor, SHUT_RD);
}

/**
 * Receives from a secure connection. After a switch of protocols, a TLS close notification is read separately.
 * Otherwise the library would drop the data that it decrypts together with the notification, because `ssl_on_data` of
 * uSockets closes the socket first. That data is the client's last frame.
 */
inline ssize_t ReceiveSecure(int descriptor, Connection* connection, char* memory, size_t length, int flags) {
  size_t wanted = length;
  if (connection->is_switched) {
    const ssize_t seen = recv(descriptor, memory, length, flags | MSG_PEEK);
    if (seen <= 0) return seen;
    wanted = connection->records.FindEnd(memory, static_cast<size_t>(seen));
  }
  const ssize_t count = recv(descriptor, memory, wanted, flags);
  if (count <= 0) return count;
  connection->records.Skip(memory, static_cast<size_t>(count));
  return count;
}

/**
 * Receives bytes, passes on those that are complete, and holds the others back. It never fills the whole buffer,
 * because the library would then read again even if the connection was paused meanwhile.
 * @returns number of bytes passed on; 0 if the client has closed or the connection is refused; -1 with the error in
 *   `errno`, which is EAGAIN if no received bytes are complete
 */
inline ssize_t Receive(int descriptor, void* memory, size_t length, int flags) {
  Connection* const connection = Get().table.Find(descriptor);
  arrived = Arrived();
  ForgetRawHeads();
  if (connection == nullptr) return recv(descriptor, memory, length, flags);
  // The connection is no longer served: report its end to the library.
  if (connection->is_refused) return 0;
  if (connection->is_secure) return ReceiveSecure(descriptor, connection, static_cast<char*>(memory), length - 1, flags);
  std::string& held = connection->held;
  if (length < held.size() + 2 * kInsertBytes) {
    errno = ENOBUFS;
    return -1;
  }
  auto* const bytes = static_cast<char*>(memory);
  char* const fresh = bytes + held.size();
  const ssize_t count = recv(descriptor, fresh, length - held.size() - kInsertBytes, flags);
  if (count <= 0) return count;
  const bool is_start = held.empty() && connection->scanner.IsAtStart();
  const framing::Finding finding = connection->scanner.Read(fresh, static_cast<size_t>(count));
  const bool is_refused = finding.refusal != framing::Refusal::kNone;
  size_t whole = 0;
  if (finding.whole > 0) {
    whole = held.size() + finding.whole;
    if (!held.empty()) {
      std::memcpy(bytes, held.data(), held.size());
      held = std::string();
    }
    KeepRawHeads(connection->scanner, bytes + (whole - finding.whole));
  }
  if (is_refused) {
    Refuse(descriptor, connection, finding);
    return static_cast<ssize_t>(whole + Insert(bytes + whole, finding));
  }
  held.append(fresh + finding.whole, static_cast<size_t>(count) - finding.whole);
  if (finding.switch_at > 0) {
    connection->is_switching = true;
    char lines[kInsertBytes];
    const size_t inserted = InsertSwitch(lines);
    char* const at = bytes + (whole - finding.whole) + finding.switch_at - 2;
    std::memmove(at + inserted, at, whole - static_cast<size_t>(at - bytes));
    std::memcpy(at, lines, inserted);
    whole += inserted;
  }
  if (is_start && whole > 0 && finding.switch_at == 0) arrived = {connection, bytes, whole};
  if (whole > 0) return static_cast<ssize_t>(whole);
  errno = EAGAIN;
  return -1;
}

/**
 * Finds the length header that the library writes into an answer that switches protocols. Such an answer must not have
 * a length header.
 * @param line_bytes receives the length of the header line
 * @param is_whole receives whether the head ends in these bytes
 * @returns where that line begins; `length` if there is no such line
 */
inline size_t FindLength(const char* data, size_t length, size_t* line_bytes, bool* is_whole) {
  char line[64];
  const int written = std::snprintf(line, sizeof(line), "\r\nContent-Length: %llu\r\n",
                                    static_cast<unsigned long long>(framing::kSwitchedBytes));
  const char* const end = data + length;
  constexpr char kHeadEnd[] = "\r\n\r\n";
  const char* const head_end = std::search(data, end, kHeadEnd, kHeadEnd + 4);
  *is_whole = head_end != end;
  const char* const found = std::search(data, head_end == end ? end : head_end + 4, line, line + written);
  *line_bytes = static_cast<size_t>(written) - 2;
  return found == end || (head_end != end && found == head_end + 4) ? length : static_cast<size_t>(found - data) + 2;
}

/**
 * Sends the data through `pass`, without the length header that FindLength found.
 * @returns number of bytes sent; the removed line counts as sent when a byte behind it has been sent
 */
template <typename Pass>
inline ssize_t SendSwitch(Connection* connection, const char* data, size_t length, Pass pass) {
  size_t line_bytes = 0;
  bool is_whole = false;
  const size_t at = FindLength(data, length, &line_bytes, &is_whole);
  if (at == length) {
    if (is_whole) connection->is_switching = false;
    return pass(data, length);
  }
  std::string rest(data, at);
  rest.append(data + at + line_bytes, length - at - line_bytes);
  const ssize_t sent = pass(rest.data(), rest.size());
  if (sent < 0 || static_cast<size_t>(sent) <= at) return sent;
  connection->is_switching = false;
  return sent + static_cast<ssize_t>(line_bytes);
}

inline ssize_t Send(int descriptor, const void* data, size_t length, int flags) {
  Connection* const connection = Get().table.Find(descriptor);
  if (connection == nullptr || !connection->is_switching || connection->is_secure)
    return send(descriptor, data, length, flags);
  return SendSwitch(connection, static_cast<const char*>(data), length,
                    [&](const char* from, size_t bytes) { return send(descriptor, from, bytes, flags); });
}

inline int Close(int descriptor) {
  Connection* const connection = Get().table.Take(descriptor);
  if (connection != nullptr) {
    if (connection->is_refused) Drain(descriptor);
    Forget(connection);
  }
  const int result = close(descriptor);
  const int reason = errno;
  if (paused != nullptr && !paused->empty()) ResumeAccepting();
  errno = reason;
  return result;
}

#else

inline uint32_t ResumeAccepting() { return 0; }

#endif

}  // namespace connections
