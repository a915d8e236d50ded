/**
 * Functions for memory that two processes share and for returning free memory to the system; `memory-engine.ts`
 * documents them. Uses only Node-API. Any thread: no state is kept between calls.
 */
#include <fcntl.h>
#include <node_api.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cerrno>
#include <climits>
#include <cstdint>

#ifdef __GLIBC__
#include <malloc.h>
#endif

#include "arguments.h"

namespace {

/** Reads a number of bytes: a multiple of the page size, from `least` to 2^53. */
bool ReadPages(napi_env env, napi_value value, double least, uint64_t* into) {
  double number = 0;
  if (napi_get_value_double(env, value, &number) != napi_ok) {
    napi_throw_type_error(env, nullptr, "a number of bytes is expected");
    return false;
  }
  const double page = static_cast<double>(sysconf(_SC_PAGESIZE));
  if (!(number >= least) || number > 9007199254740992.0 || std::fmod(number, page) != 0) {
    napi_throw_range_error(env, nullptr, "a multiple of the page size is expected");
    return false;
  }
  *into = static_cast<uint64_t>(number);
  return true;
}

bool ReadDescriptor(napi_env env, napi_value value, int* into) {
  uint32_t number = 0;
  if (!ReadWhole(env, value, 0, &number)) return false;
  if (number > INT_MAX) {
    napi_throw_range_error(env, nullptr, "the number is not a file descriptor");
    return false;
  }
  *into = static_cast<int>(number);
  return true;
}

/** Finds the whole pages within a memory range. @returns false if it contains no whole page */
bool FindPages(uint8_t* memory, size_t length, uint8_t** from, size_t* bytes) {
  const uintptr_t page = static_cast<uintptr_t>(sysconf(_SC_PAGESIZE));
  const uintptr_t start = reinterpret_cast<uintptr_t>(memory);
  const uintptr_t first = (start + page - 1) / page * page;
  const uintptr_t end = (start + length) / page * page;
  if (end <= first) return false;
  *from = reinterpret_cast<uint8_t*>(first);
  *bytes = end - first;
  return true;
}

napi_value MakeMemory(napi_env env, napi_callback_info info) {
  napi_value arguments[1];
  uint64_t bytes = 0;
  if (!ReadArguments(env, info, 1, arguments) || !ReadPages(env, arguments[0], 1, &bytes)) return nullptr;
#ifdef MFD_ALLOW_SEALING
  const int descriptor = memfd_create("understudy-capture", MFD_CLOEXEC | MFD_ALLOW_SEALING);
  if (descriptor < 0) return MakeNumber(env, -errno);
  // The seals keep any process from shrinking the memory. Otherwise a process that has mapped it could crash.
  if (ftruncate(descriptor, static_cast<off_t>(bytes)) != 0 ||
      fcntl(descriptor, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL) != 0) {
    const int why = errno;
    close(descriptor);
    return MakeNumber(env, -why);
  }
  return MakeNumber(env, descriptor);
#else
  return MakeNumber(env, -ENOSYS);
#endif
}

napi_value MapMemory(napi_env env, napi_callback_info info) {
  napi_value arguments[3];
  int descriptor = 0;
  uint8_t* memory = nullptr;
  size_t length = 0;
  uint32_t may_write = 0;
  if (!ReadArguments(env, info, 3, arguments) || !ReadDescriptor(env, arguments[0], &descriptor) ||
      !ReadNumbers(env, arguments[1], napi_uint8_array, &memory, &length) ||
      !ReadWhole(env, arguments[2], 0, &may_write))
    return nullptr;
  uint8_t* from = nullptr;
  size_t bytes = 0;
  if (!FindPages(memory, length, &from, &bytes)) return MakeNumber(env, -EINVAL);
  // An access beyond the end of the memory would crash the process, so no more than its length is mapped.
  const off_t size = lseek(descriptor, 0, SEEK_END);
  if (size < 0) return MakeNumber(env, -errno);
  if (static_cast<uint64_t>(size) < bytes) bytes = static_cast<size_t>(size);
  if (bytes == 0) return MakeNumber(env, -EINVAL);
  const int rights = PROT_READ | (may_write == 0 ? 0 : PROT_WRITE);
  void* mapped = mmap(from, bytes, rights, MAP_SHARED | MAP_FIXED, descriptor, 0);
  if (mapped == MAP_FAILED) return MakeNumber(env, -errno);
  return MakeNumber(env, static_cast<double>(from - memory));
}

napi_value UnmapMemory(napi_env env, napi_callback_info info) {
  napi_value arguments[1];
  uint8_t* memory = nullptr;
  size_t length = 0;
  if (!ReadArguments(env, info, 1, arguments) ||
      !ReadNumbers(env, arguments[0], napi_uint8_array, &memory, &length))
    return nullptr;
  uint8_t* from = nullptr;
  size_t bytes = 0;
  if (!FindPages(memory, length, &from, &bytes)) return MakeNumber(env, 0);
  void* mapped =
      mmap(from, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED | MAP_NORESERVE, -1, 0);
  return MakeNumber(env, mapped == MAP_FAILED ? -errno : 0);
}

napi_value EmptyMemory(napi_env env, napi_callback_info info) {
  napi_value arguments[3];
  int descriptor = 0;
  uint64_t from = 0;
  uint64_t bytes = 0;
  if (!ReadArguments(env, info, 3, arguments) || !ReadDescriptor(env, arguments[0], &descriptor) ||
      !ReadPages(env, arguments[1], 0, &from) || !ReadPages(env, arguments[2], 1, &bytes))
    return nullptr;
#ifdef FALLOC_FL_PUNCH_HOLE
  if (fallocate(descriptor, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, static_cast<off_t>(from),
                static_cast<off_t>(bytes)) != 0)
    return MakeNumber(env, -errno);
  return MakeNumber(env, 0);
#else
  return MakeNumber(env, -ENOSYS);
#endif
}

napi_value TrimMemory(napi_env env, napi_callback_info info) {
  napi_value arguments[1];
  uint32_t kept = 0;
  if (!ReadArguments(env, info, 1, arguments) || !ReadWhole(env, arguments[0], 0, &kept)) return nullptr;
#ifdef __GLIBC__
  return MakeNumber(env, malloc_trim(kept));
#else
  return MakeNumber(env, 0);
#endif
}

napi_value Init(napi_env env, napi_value exports) {
  return Export(env, exports,
                {{"makeMemory", MakeMemory},
                 {"mapMemory", MapMemory},
                 {"unmapMemory", UnmapMemory},
                 {"emptyMemory", EmptyMemory},
                 {"trimMemory", TrimMemory}});
}

}  // namespace

NAPI_MODULE(NODE_GYP_MODULE_NAME, Init)
