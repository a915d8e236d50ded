/**
 * Checks the decrypted bytes of secure connections before the HTTP library parses them, and does not pass on bytes that
 * two parsers could read differently. `connections.h` receives only the ciphertext of these connections, so it cannot
 * check them. Any server thread; a connection belongs to one thread.
 */
#pragma once

#include <cstring>
#include <memory>

#include "connections.h"

namespace plaintext {

#ifdef __linux__

/** Types of three functions of the library: the data handler, the getter of a descriptor, and the write function. */
using OnData = void* (*)(void* socket, char* data, int length);
using DescriptorOf = int (*)(void* socket);
using Write = int (*)(void* socket, const char* data, int length, int msg_more);

/** The library's original data handler, which parses the bytes. */
inline void* parse = nullptr;
inline void* descriptor_of = nullptr;
/** The library's original write function, which encrypts and sends. */
inline void* write = nullptr;

/**
 * Bytes of padding before and after the parsed bytes. The library writes behind the bytes that it parses, and may read
 * before them.
 */
constexpr size_t kPadding = 64;

inline void* Parse(void* socket, char* data, size_t length) {
  return reinterpret_cast<OnData>(parse)(socket, data, static_cast<int>(length));
}

/** Replaces the library's data handler. @returns its result: the socket, which may have been replaced or closed */
inline void* OnPlaintext(void* socket, char* data, int length) {
  const int descriptor = reinterpret_cast<DescriptorOf>(descriptor_of)(socket);
  connections::Connection* const connection = connections::Get().table.Find(descriptor);
  if (connection == nullptr || length <= 0) return Parse(socket, data, static_cast<size_t>(length));
  // The connection is no longer served.
  if (connection->is_refused) return socket;
  const auto count = static_cast<size_t>(length);
  const framing::Finding finding = connection->scanner.Read(data, count);
  const bool is_switch = finding.switch_at > 0;
  connections::ForgetRawHeads();
  if (finding.refusal == framing::Refusal::kNone && connection->held.empty() && !is_switch) {
    connections::KeepRawHeads(connection->scanner, data);
    connection->held.assign(data + finding.whole, count - finding.whole);
    return finding.whole == 0 ? socket : Parse(socket, data, finding.whole);
  }
  // Held bytes are copied in front of the new bytes. The text that replaces refused bytes is copied behind them. The
  // library's buffer has no space for either.
  const std::string held = finding.whole > 0 ? std::move(connection->held) : std::string();
  const size_t whole = held.size() + finding.whole;
  const auto memory = std::make_unique<char[]>(whole + connections::kInsertBytes + 2 * kPadding);
  char* const bytes = memory.get() + kPadding;
  std::memcpy(bytes, held.data(), held.size());
  std::memcpy(bytes + held.size(), data, finding.whole);
  if (finding.whole > 0) {
    connection->held = std::string();
    connections::KeepRawHeads(connection->scanner, bytes + held.size());
  }
  if (finding.refusal == framing::Refusal::kNone) {
    connection->held.append(data + finding.whole, count - finding.whole);
    if (!is_switch) return whole == 0 ? socket : Parse(socket, bytes, whole);
    connection->is_switching = true;
    connection->is_switched = true;
    char lines[connections::kInsertBytes];
    const size_t inserted = connections::InsertSwitch(lines);
    char* const at = bytes + held.size() + finding.switch_at - 2;
    std::memmove(at + inserted, at, whole - static_cast<size_t>(at - bytes));
    std::memcpy(at, lines, inserted);
    return Parse(socket, bytes, whole + inserted);
  }
  connections::Refuse(descriptor, connection, finding);
  return Parse(socket, bytes, whole + connections::Insert(bytes + whole, finding));
}

/** Replaces the library's write function. @returns number of bytes accepted */
inline int OnWrite(void* socket, const char* data, int length, int msg_more) {
  const auto pass = [&](const char* from, size_t bytes) {
    return static_cast<ssize_t>(reinterpret_cast<Write>(write)(socket, from, static_cast<int>(bytes), msg_more));
  };
  connections::Connection* const connection =
      connections::Get().table.Find(reinterpret_cast<DescriptorOf>(descriptor_of)(socket));
  if (connection == nullptr || !connection->is_switching || length <= 0)
    return static_cast<int>(pass(data, static_cast<size_t>(length)));
  return static_cast<int>(connections::SendSwitch(connection, data, static_cast<size_t>(length), pass));
}

#endif

}  // namespace plaintext
