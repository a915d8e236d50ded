/**
 * What JavaScript has no way, or a long one, to ask of sockets: `socket-engine.ts` says what it does. Plain Node-API. Nothing
 * is kept between calls, so it may run on any thread.
 */
#include <dirent.h>
#include <netinet/in.h>
#include <node_api.h>
#include <sys/socket.h>
#include <sys/uio.h>

#include <cerrno>
#include <climits>
#include <cstdlib>
#include <vector>

#include "arguments.h"

namespace {

/** The process's file descriptors; none where they cannot be listed. */
std::vector<int> ListDescriptors() {
  std::vector<int> descriptors;
  DIR* folder = opendir("/dev/fd");
  if (folder == nullptr) return descriptors;
  while (const dirent* entry = readdir(folder)) {
    if (entry->d_name[0] >= '0' && entry->d_name[0] <= '9') descriptors.push_back(std::atoi(entry->d_name));
  }
  closedir(folder);
  return descriptors;
}

/** Whether it is a socket of this port. */
bool IsOfPort(int descriptor, uint32_t port) {
  sockaddr_storage address{};
  socklen_t size = sizeof(address);
  if (getsockname(descriptor, reinterpret_cast<sockaddr*>(&address), &size) != 0) return false;
  if (address.ss_family == AF_INET) return ntohs(reinterpret_cast<sockaddr_in*>(&address)->sin_port) == port;
  if (address.ss_family == AF_INET6) return ntohs(reinterpret_cast<sockaddr_in6*>(&address)->sin6_port) == port;
  return false;
}

napi_value LimitReceiveBuffers(napi_env env, napi_callback_info info) {
  napi_value arguments[2];
  uint32_t port = 0;
  uint32_t bytes = 0;
  if (!ReadArguments(env, info, 2, arguments) || !ReadWhole(env, arguments[0], 1, &port) ||
      !ReadWhole(env, arguments[1], 1, &bytes))
    return nullptr;
  if (bytes > INT_MAX) {
    napi_throw_range_error(env, nullptr, "no buffer is that large");
    return nullptr;
  }
  const int wanted = static_cast<int>(bytes);
  uint32_t limited = 0;
  for (const int descriptor : ListDescriptors()) {
    if (!IsOfPort(descriptor, port)) continue;
    int grown = 0;
    socklen_t size = sizeof(grown);
    // The system gives twice what it is asked for.
    if (getsockopt(descriptor, SOL_SOCKET, SO_RCVBUF, &grown, &size) != 0 || grown / 2 <= wanted) continue;
    if (setsockopt(descriptor, SOL_SOCKET, SO_RCVBUF, &wanted, sizeof(wanted)) == 0) limited++;
  }
  return MakeNumber(env, limited);
}

#ifndef MSG_NOSIGNAL
// Node ignores the signal in the whole process.
#define MSG_NOSIGNAL 0
#endif

/** Longer heads are refused. */
constexpr size_t kHeadBytes = 16 << 10;

napi_value SendNow(napi_env env, napi_callback_info info) {
  napi_value arguments[3];
  uint32_t descriptor = 0;
  char head[kHeadBytes + 2];
  size_t head_length = 0;
  uint8_t* body = nullptr;
  size_t body_length = 0;
  if (!ReadArguments(env, info, 3, arguments) || !ReadWhole(env, arguments[0], 0, &descriptor) ||
      !ReadNumbers(env, arguments[2], napi_uint8_array, &body, &body_length))
    return nullptr;
  if (napi_get_value_string_latin1(env, arguments[1], head, sizeof(head), &head_length) != napi_ok) {
    napi_throw_type_error(env, nullptr, "a text is expected");
    return nullptr;
  }
  if (descriptor > INT_MAX || head_length > kHeadBytes) {
    napi_throw_range_error(env, nullptr, "no descriptor, or too long a head");
    return nullptr;
  }
  iovec parts[] = {{head, head_length}, {body, body_length}};
  msghdr message{};
  message.msg_iov = head_length == 0 ? parts + 1 : parts;
  message.msg_iovlen = head_length == 0 || body_length == 0 ? 1 : 2;
  ssize_t taken;
  do taken = sendmsg(static_cast<int>(descriptor), &message, MSG_DONTWAIT | MSG_NOSIGNAL);
  while (taken < 0 && errno == EINTR);
  if (taken >= 0) return MakeNumber(env, static_cast<double>(taken));
  const bool is_full = errno == EAGAIN || errno == EWOULDBLOCK || errno == ENOBUFS;
  return MakeNumber(env, is_full ? 0 : -errno);
}

napi_value Init(napi_env env, napi_value exports) {
  return Export(env, exports, {{"limitReceiveBuffers", LimitReceiveBuffers}, {"sendNow", SendNow}});
}

}  // namespace

NAPI_MODULE(NODE_GYP_MODULE_NAME, Init)
