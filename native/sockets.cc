/**
 * Socket functions that Node lacks or performs slowly; `socket-engine.ts` documents them. Uses only Node-API. Any
 * thread; `sockets/connections.h` keeps the data that outlives a call.
 */
#include <dlfcn.h>
#include <node_api.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/uio.h>

#include <cerrno>
#include <climits>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>

#include "arguments.h"
#include "sockets/connections.h"
#include "sockets/interposition.h"
#include "sockets/plaintext.h"

namespace {

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
    napi_throw_range_error(env, nullptr, "the descriptor is invalid, or the head is too long");
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

#ifdef __linux__

/** Generates the mark. It is random, so that no client can send it and only this addon can insert it. */
bool MakeMark(char* into) {
  uint8_t bytes[connections::kMarkCharacters / 2];
  FILE* const source = std::fopen("/dev/urandom", "rb");
  if (source == nullptr) return false;
  const bool is_read = std::fread(bytes, 1, sizeof(bytes), source) == sizeof(bytes);
  std::fclose(source);
  for (size_t at = 0; is_read && at < sizeof(bytes); at++) std::snprintf(into + 2 * at, 3, "%02x", bytes[at]);
  return is_read;
}

/** Reads the library's limit for heads from the library's environment variable, which src/config.ts sets. */
uint32_t ReadHeadBytesMax() {
  const char* const text = std::getenv("UWS_HTTP_MAX_HEADERS_SIZE");
  const long bytes = text == nullptr ? 0 : std::atol(text);
  if (bytes <= 0) return connections::kHeadBytesDefault;
  return bytes < connections::kHeadBytesMax ? static_cast<uint32_t>(bytes) : connections::kHeadBytesMax;
}

/** Prevents unloading of the addon. The library calls the addon even after the thread that loaded it has ended. */
bool StayLoaded() {
  Dl_info info{};
  if (dladdr(reinterpret_cast<void*>(&connections::Receive), &info) == 0 || info.dli_fname == nullptr) return false;
  return dlopen(info.dli_fname, RTLD_LAZY | RTLD_NOLOAD | RTLD_NODELETE) != nullptr;
}

bool Watch() {
  auto& shared = connections::Get();
  const std::lock_guard<std::mutex> lock(shared.mutex);
  if (shared.mark[0] == 0) {
    shared.head_bytes_max = ReadHeadBytesMax();
    if (!MakeMark(shared.mark) || !StayLoaded()) {
      shared.mark[0] = 0;
      return false;
    }
  }
  return interposition::Replace("us_create_socket_context",
                                {{"accept4", reinterpret_cast<void*>(&connections::Accept)},
                                 {"recv", reinterpret_cast<void*>(&connections::Receive)},
                                 {"send", reinterpret_cast<void*>(&connections::Send)},
                                 {"close", reinterpret_cast<void*>(&connections::Close)}});
}

/** The library's function for decrypted data: the data handler of `HttpContext<true>`. */
constexpr char kOnPlaintext[] = "_ZZN3uWS11HttpContextILb1EE4initEvENUlP11us_socket_tPciE_8__invokeES3_S4_i";

bool WatchPlaintext() {
  auto& shared = connections::Get();
  const std::lock_guard<std::mutex> lock(shared.mutex);
  if (plaintext::descriptor_of == nullptr) {
    void* const function = interposition::FindFunction("us_create_socket_context", "us_poll_fd");
    if (function == nullptr) return false;
    plaintext::descriptor_of = function;
  }
  return interposition::Replace(
      "us_create_socket_context",
      {{kOnPlaintext, reinterpret_cast<void*>(&plaintext::OnPlaintext), &plaintext::parse},
       {"us_internal_ssl_socket_write", reinterpret_cast<void*>(&plaintext::OnWrite), &plaintext::write}});
}

int FindLoopDescriptor(napi_env env) {
  uv_loop_s* loop = nullptr;
  if (napi_get_uv_event_loop(env, &loop) != napi_ok) return -1;
  using BackendOf = int (*)(const uv_loop_s*);
  const auto backend_of = reinterpret_cast<BackendOf>(dlsym(RTLD_DEFAULT, "uv_backend_fd"));
  return backend_of == nullptr ? -1 : backend_of(loop);
}

#else

bool Watch() { return false; }

bool WatchPlaintext() { return false; }

int FindLoopDescriptor(napi_env) { return -1; }

#endif

napi_value WatchConnections(napi_env env, napi_callback_info) {
  napi_value mark;
  const char* const text = Watch() ? connections::Get().mark : "";
  return napi_create_string_latin1(env, text, NAPI_AUTO_LENGTH, &mark) == napi_ok ? mark : nullptr;
}

napi_value WatchSecureConnections(napi_env env, napi_callback_info) {
  return MakeNumber(env, connections::Get().mark[0] != 0 && WatchPlaintext() ? 1 : 0);
}

napi_value OpenPort(napi_env env, napi_callback_info info) {
  napi_value arguments[3];
  uint32_t number = 0;
  uint32_t kind = 0;
  char refusal[kHeadBytes + 1];
  size_t length = 0;
  if (!ReadArguments(env, info, 3, arguments) || !ReadWhole(env, arguments[0], 1, &number) ||
      !ReadWhole(env, arguments[2], 0, &kind))
    return nullptr;
  if (napi_get_value_string_latin1(env, arguments[1], refusal, sizeof(refusal), &length) != napi_ok) {
    napi_throw_type_error(env, nullptr, "a text is expected");
    return nullptr;
  }
  connections::loop_descriptor = FindLoopDescriptor(env);
  auto& shared = connections::Get();
  const std::lock_guard<std::mutex> lock(shared.mutex);
  for (auto& port : shared.ports) {
    if (port.number != number) continue;
    port.listeners++;
    return nullptr;
  }
  shared.ports.push_back({number, 1, std::string(refusal, length), {(kind & 1) != 0, (kind & 2) != 0}});
  return nullptr;
}

napi_value ClosePort(napi_env env, napi_callback_info info) {
  napi_value arguments[1];
  uint32_t number = 0;
  if (!ReadArguments(env, info, 1, arguments) || !ReadWhole(env, arguments[0], 1, &number)) return nullptr;
  auto& shared = connections::Get();
  const std::lock_guard<std::mutex> lock(shared.mutex);
  for (size_t at = 0; at < shared.ports.size(); at++) {
    if (shared.ports[at].number != number) continue;
    if (--shared.ports[at].listeners == 0) shared.ports.erase(shared.ports.begin() + static_cast<ptrdiff_t>(at));
    break;
  }
  return nullptr;
}

napi_value CapConnections(napi_env env, napi_callback_info info) {
  napi_value arguments[3];
  uint32_t total = 0;
  uint32_t by_address = 0;
  uint32_t is_near_capped = 0;
  if (!ReadArguments(env, info, 3, arguments) || !ReadWhole(env, arguments[0], 0, &total) ||
      !ReadWhole(env, arguments[1], 0, &by_address) || !ReadWhole(env, arguments[2], 0, &is_near_capped))
    return nullptr;
  auto& shared = connections::Get();
  shared.total_max = total;
  shared.address_max = by_address;
  shared.is_near_capped = is_near_capped != 0;
  return nullptr;
}

napi_value ResumeAccepting(napi_env env, napi_callback_info) {
  return MakeNumber(env, connections::ResumeAccepting());
}

napi_value TakeHead(napi_env env, napi_callback_info) {
  napi_value slot;
  return napi_create_int32(env, connections::TakeHead(), &slot) == napi_ok ? slot : nullptr;
}

napi_value RawHead(napi_env env, napi_callback_info) {
  const std::string* const head = connections::TakenRawHead();
  napi_value text;
  const char* const bytes = head == nullptr ? "" : head->data();
  const size_t length = head == nullptr ? 0 : head->size();
  return napi_create_string_latin1(env, bytes, length, &text) == napi_ok ? text : nullptr;
}

napi_value RememberHead(napi_env env, napi_callback_info info) {
  napi_value arguments[3];
  uint32_t slot = 0;
  uint32_t* varying = nullptr;
  size_t varying_count = 0;
  uint32_t lines = 0;
  if (!ReadArguments(env, info, 3, arguments) || !ReadWhole(env, arguments[0], 0, &slot) ||
      !ReadNumbers(env, arguments[1], napi_uint32_array, &varying, &varying_count) ||
      !ReadWhole(env, arguments[2], 0, &lines))
    return nullptr;
  return MakeNumber(env, connections::RememberHead(slot, varying, varying_count, lines) ? 1 : 0);
}

napi_value CountSlowUpload(napi_env, napi_callback_info) {
  connections::Get().counters.slow_uploads.fetch_add(1, std::memory_order_relaxed);
  return nullptr;
}

napi_value CountConnections(napi_env env, napi_callback_info info) {
  napi_value arguments[1];
  double* into = nullptr;
  size_t length = 0;
  if (!ReadArguments(env, info, 1, arguments) ||
      !ReadNumbers(env, arguments[0], napi_float64_array, &into, &length))
    return nullptr;
  const auto& counters = connections::Get().counters;
  const double values[] = {
      static_cast<double>(counters.open), static_cast<double>(counters.refused_total),
      static_cast<double>(counters.refused_address), static_cast<double>(counters.refused_framing),
      static_cast<double>(counters.accept_pauses), static_cast<double>(counters.slow_uploads)};
  for (size_t at = 0; at < length && at < sizeof(values) / sizeof(values[0]); at++) into[at] = values[at];
  return nullptr;
}

napi_value ReadDescriptorLimit(napi_env env, napi_callback_info) {
  rlimit limit{};
  if (getrlimit(RLIMIT_NOFILE, &limit) != 0 || limit.rlim_cur == RLIM_INFINITY) return MakeNumber(env, 0);
  return MakeNumber(env, static_cast<double>(limit.rlim_cur));
}

napi_value Init(napi_env env, napi_value exports) {
  return Export(env, exports,
                {{"sendNow", SendNow},
                 {"watchConnections", WatchConnections},
                 {"watchSecureConnections", WatchSecureConnections},
                 {"openPort", OpenPort},
                 {"closePort", ClosePort},
                 {"capConnections", CapConnections},
                 {"resumeAccepting", ResumeAccepting},
                 {"takeHead", TakeHead},
                 {"rawHead", RawHead},
                 {"rememberHead", RememberHead},
                 {"countSlowUpload", CountSlowUpload},
                 {"countConnections", CountConnections},
                 {"readDescriptorLimit", ReadDescriptorLimit}});
}

}  // namespace

NAPI_MODULE(NODE_GYP_MODULE_NAME, Init)
