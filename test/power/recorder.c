// A preloaded library that records what a process does to the files of one folder: every write, sync and change of a
// name, in order, with the bytes. A test constructs from the record what a power cut could have left on the disk.
//
//   LD_PRELOAD=recorder.so POWER_FOLDER=/tmp/data POWER_RECORD=/tmp/record node …
//
// A record is appended with one write, so that the records of all threads and processes have one order. Its parts are:
//
//   u32 length of what follows, u8 operation, u8 flags, u16 length of the path, u64 inode, u64 offset or number, path,
//   bytes
//
// An operation is recorded after it was done and before its caller continues. A sync is recorded twice: at its
// beginning and at its end. Writes that were recorded before the beginning are on the disk at the end.

#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

enum { MAX_FD = 65536, MAX_PATH = 4096 };

// The numbers of the operations, which record.ts repeats.
enum { OPENED = 1, WRITTEN, TRUNCATED, RENAMED, UNLINKED, LINKED, FOLDER_MADE, FOLDER_REMOVED, SYNC_BEGUN, SYNC_ENDED };
// Flags.
enum { IS_SYNCED = 1, IS_FOLDER = 2 };

struct Opened {
  uint64_t inode;
  uint8_t is_watched;
  uint8_t flags;
};

static struct Opened opened[MAX_FD];
static int record_fd = -1;
static char folder[MAX_PATH];
static size_t folder_length;
static uint64_t syncs;
static pthread_once_t once = PTHREAD_ONCE_INIT;

static void Start(void) {
  const char* const name = getenv("POWER_FOLDER");
  const char* const record = getenv("POWER_RECORD");
  if (name == NULL || record == NULL || strlen(name) >= sizeof folder) return;
  strcpy(folder, name);
  folder_length = strlen(folder);
  record_fd = (int)syscall(SYS_openat, AT_FDCWD, record, O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC, 0600);
}

// A child process uses descriptor numbers again. So only descriptors that this process opened are watched.
__attribute__((constructor)) static void Construct(void) { pthread_once(&once, Start); }

// Lock files are not recorded, because their content has no meaning after a power cut.
static int IsWatched(const char* path) {
  pthread_once(&once, Start);
  if (record_fd < 0 || path == NULL || strncmp(path, folder, folder_length) != 0) return 0;
  const size_t length = strlen(path);
  return !(length > 5 && strcmp(path + length - 5, "-lock") == 0);
}

static void Record(uint8_t operation, uint8_t flags, uint64_t inode, uint64_t number, const char* path,
                   const struct iovec* pieces, int count, size_t bytes) {
  uint8_t head[24];
  const uint16_t path_length = path == NULL ? 0 : (uint16_t)strlen(path);
  const uint32_t length = (uint32_t)(sizeof head - 4 + path_length + bytes);
  memcpy(head, &length, 4);
  head[4] = operation;
  head[5] = flags;
  memcpy(head + 6, &path_length, 2);
  memcpy(head + 8, &inode, 8);
  memcpy(head + 16, &number, 8);
  struct iovec all[1026] = {{head, sizeof head}, {(void*)path, path_length}};
  int used = 2;
  size_t left = bytes;
  for (int i = 0; i < count && left > 0 && used < 1026; i++) {
    const size_t part = pieces[i].iov_len < left ? pieces[i].iov_len : left;
    all[used++] = (struct iovec){pieces[i].iov_base, part};
    left -= part;
  }
  const ssize_t written = syscall(SYS_writev, record_fd, all, used);
  if (written != (ssize_t)(length + 4)) {
    static const char words[] = "recorder: the record could not be written\n";
    (void)!write(2, words, sizeof words - 1);
    abort();
  }
}

static uint64_t InodeOf(int fd, uint8_t* flags) {
  struct stat state;
  if (fstat(fd, &state) != 0) return 0;
  if (S_ISDIR(state.st_mode)) *flags |= IS_FOLDER;
  return state.st_ino;
}

static int NoteOpened(int fd, const char* path, int mode) {
  if (fd < 0 || fd >= MAX_FD) return fd;
  opened[fd].is_watched = 0;
  if (!IsWatched(path)) return fd;
  const int saved = errno;
  uint8_t flags = (mode & (O_DSYNC | O_SYNC)) ? IS_SYNCED : 0;
  const uint64_t inode = InodeOf(fd, &flags);
  opened[fd] = (struct Opened){inode, 1, flags};
  const uint64_t is_truncated = (mode & O_TRUNC) != 0;
  if (!(flags & IS_FOLDER)) Record(OPENED, flags, inode, is_truncated, path, NULL, 0, 0);
  errno = saved;
  return fd;
}

// The whole path of a name in an open folder, as recursive removal gives it.
static const char* Resolve(int at, const char* path, char* whole) {
  pthread_once(&once, Start);
  if (record_fd < 0 || at == AT_FDCWD || path == NULL || path[0] == '/') return path;
  char link[64];
  snprintf(link, sizeof link, "/proc/self/fd/%d", at);
  const int saved = errno;
  const ssize_t length = readlink(link, whole, MAX_PATH - 1);
  errno = saved;
  if (length < 0 || (size_t)length + strlen(path) + 2 > MAX_PATH) return path;
  whole[length] = '/';
  strcpy(whole + length + 1, path);
  return whole;
}

#define REAL(name) ((__typeof__(&name))dlsym(RTLD_NEXT, #name))

#define OPEN_BODY(name, place, ...)                     \
  mode_t mode = 0;                                      \
  if (flags & (O_CREAT | O_TMPFILE)) {                  \
    va_list arguments;                                  \
    va_start(arguments, flags);                         \
    mode = va_arg(arguments, mode_t);                   \
    va_end(arguments);                                  \
  }                                                     \
  static __typeof__(&name) real;                        \
  if (real == NULL) real = REAL(name);                  \
  char whole[MAX_PATH];                                 \
  return NoteOpened(real(__VA_ARGS__), Resolve(place, path, whole), flags);

int open(const char* path, int flags, ...) { OPEN_BODY(open, AT_FDCWD, path, flags, mode) }
int open64(const char* path, int flags, ...) { OPEN_BODY(open64, AT_FDCWD, path, flags, mode) }
int openat(int at, const char* path, int flags, ...) { OPEN_BODY(openat, at, at, path, flags, mode) }
int openat64(int at, const char* path, int flags, ...) { OPEN_BODY(openat64, at, at, path, flags, mode) }

int close(int fd) {
  static __typeof__(&close) real;
  if (real == NULL) real = REAL(close);
  if (fd >= 0 && fd < MAX_FD) opened[fd].is_watched = 0;
  return real(fd);
}

// libuv closes descriptors by the system call, which this library cannot observe. A pipe or socket that gets the number
// afterwards must not count as the file. So the inode is compared.
static int IsOpened(int fd) {
  if (fd < 0 || fd >= MAX_FD || !opened[fd].is_watched) return 0;
  const int saved = errno;
  struct stat state;
  if (fstat(fd, &state) != 0 || state.st_ino != opened[fd].inode || (!S_ISREG(state.st_mode) && !S_ISDIR(state.st_mode)))
    opened[fd].is_watched = 0;
  errno = saved;
  return opened[fd].is_watched;
}

static void NoteWritten(int fd, ssize_t written, int64_t offset, const struct iovec* pieces, int count) {
  if (written <= 0) return;
  const int saved = errno;
  // After a write without an offset, the file position is the end of the written bytes.
  const uint64_t at = offset >= 0 ? (uint64_t)offset : (uint64_t)(lseek(fd, 0, SEEK_CUR) - written);
  Record(WRITTEN, opened[fd].flags, opened[fd].inode, at, NULL, pieces, count, (size_t)written);
  errno = saved;
}

ssize_t write(int fd, const void* bytes, size_t count) {
  static __typeof__(&write) real;
  if (real == NULL) real = REAL(write);
  const ssize_t written = real(fd, bytes, count);
  if (IsOpened(fd)) NoteWritten(fd, written, -1, &(struct iovec){(void*)bytes, count}, 1);
  return written;
}

ssize_t pwrite(int fd, const void* bytes, size_t count, off_t at) {
  static __typeof__(&pwrite) real;
  if (real == NULL) real = REAL(pwrite);
  const ssize_t written = real(fd, bytes, count, at);
  if (IsOpened(fd)) NoteWritten(fd, written, at, &(struct iovec){(void*)bytes, count}, 1);
  return written;
}

ssize_t pwrite64(int fd, const void* bytes, size_t count, off64_t at) {
  static __typeof__(&pwrite64) real;
  if (real == NULL) real = REAL(pwrite64);
  const ssize_t written = real(fd, bytes, count, at);
  if (IsOpened(fd)) NoteWritten(fd, written, at, &(struct iovec){(void*)bytes, count}, 1);
  return written;
}

ssize_t writev(int fd, const struct iovec* pieces, int count) {
  static __typeof__(&writev) real;
  if (real == NULL) real = REAL(writev);
  const ssize_t written = real(fd, pieces, count);
  if (IsOpened(fd)) NoteWritten(fd, written, -1, pieces, count);
  return written;
}

ssize_t pwritev(int fd, const struct iovec* pieces, int count, off_t at) {
  static __typeof__(&pwritev) real;
  if (real == NULL) real = REAL(pwritev);
  const ssize_t written = real(fd, pieces, count, at);
  if (IsOpened(fd)) NoteWritten(fd, written, at, pieces, count);
  return written;
}

ssize_t pwritev64(int fd, const struct iovec* pieces, int count, off64_t at) {
  static __typeof__(&pwritev64) real;
  if (real == NULL) real = REAL(pwritev64);
  const ssize_t written = real(fd, pieces, count, at);
  if (IsOpened(fd)) NoteWritten(fd, written, at, pieces, count);
  return written;
}

// The bytes that these functions copy do not pass through the process, so they cannot be recorded. The functions fail
// here, and the caller writes the bytes instead.
ssize_t copy_file_range(int from, off64_t* from_at, int to, off64_t* to_at, size_t count, unsigned flags) {
  static __typeof__(&copy_file_range) real;
  if (real == NULL) real = REAL(copy_file_range);
  if (IsOpened(to)) {
    errno = ENOSYS;
    return -1;
  }
  return real(from, from_at, to, to_at, count, flags);
}

ssize_t sendfile(int to, int from, off_t* at, size_t count) {
  static ssize_t (*real)(int, int, off_t*, size_t);
  if (real == NULL) real = (ssize_t(*)(int, int, off_t*, size_t))dlsym(RTLD_NEXT, "sendfile");
  if (IsOpened(to)) {
    errno = EINVAL;
    return -1;
  }
  return real(to, from, at, count);
}

ssize_t sendfile64(int to, int from, off64_t* at, size_t count) {
  static ssize_t (*real)(int, int, off64_t*, size_t);
  if (real == NULL) real = (ssize_t(*)(int, int, off64_t*, size_t))dlsym(RTLD_NEXT, "sendfile64");
  if (IsOpened(to)) {
    errno = EINVAL;
    return -1;
  }
  return real(to, from, at, count);
}

#define TRUNCATE(name, type)                                                                             \
  int name(int fd, type length) {                                                                        \
    static __typeof__(&name) real;                                                                       \
    if (real == NULL) real = REAL(name);                                                                 \
    const int failed = real(fd, length);                                                                 \
    if (failed == 0 && IsOpened(fd)) Record(TRUNCATED, 0, opened[fd].inode, (uint64_t)length, NULL, NULL, 0, 0); \
    return failed;                                                                                       \
  }
TRUNCATE(ftruncate, off_t)
TRUNCATE(ftruncate64, off64_t)

#define SYNC(name)                                                                \
  int name(int fd) {                                                              \
    static __typeof__(&name) real;                                                \
    if (real == NULL) real = REAL(name);                                          \
    if (!IsOpened(fd)) return real(fd);                                           \
    const uint64_t number = __sync_add_and_fetch(&syncs, 1) | (uint64_t)getpid() << 32; \
    const uint64_t inode = opened[fd].inode;                                      \
    const uint8_t flags = opened[fd].flags;                                       \
    Record(SYNC_BEGUN, flags, inode, number, NULL, NULL, 0, 0);                   \
    const int failed = real(fd);                                                  \
    const int saved = errno;                                                      \
    if (failed == 0) Record(SYNC_ENDED, flags, inode, number, NULL, NULL, 0, 0);  \
    errno = saved;                                                                \
    return failed;                                                                \
  }
SYNC(fsync)
SYNC(fdatasync)

static void NoteNames(int failed, uint8_t operation, const char* from, const char* to) {
  if (failed != 0 || (!IsWatched(from) && !IsWatched(to))) return;
  const int saved = errno;
  Record(operation, 0, 0, 0, from, &(struct iovec){(void*)to, to == NULL ? 0 : strlen(to)}, 1,
         to == NULL ? 0 : strlen(to));
  errno = saved;
}

#define NAMES(result, name, operation, parameters, arguments, from, to) \
  result name parameters {                                             \
    static __typeof__(&name) real;                                     \
    if (real == NULL) real = REAL(name);                               \
    const int failed = real arguments;                                 \
    NoteNames(failed, operation, from, to);                            \
    return failed;                                                     \
  }
NAMES(int, rename, RENAMED, (const char* from, const char* to), (from, to), from, to)
NAMES(int, renameat, RENAMED, (int a, const char* from, int b, const char* to), (a, from, b, to), from, to)
NAMES(int, unlink, UNLINKED, (const char* path), (path), path, NULL)
NAMES(int, link, LINKED, (const char* from, const char* to), (from, to), from, to)
NAMES(int, linkat, LINKED, (int a, const char* from, int b, const char* to, int flags), (a, from, b, to, flags), from, to)
NAMES(int, mkdir, FOLDER_MADE, (const char* path, mode_t mode), (path, mode), path, NULL)
NAMES(int, rmdir, FOLDER_REMOVED, (const char* path), (path), path, NULL)

int unlinkat(int at, const char* path, int flags) {
  static __typeof__(&unlinkat) real;
  if (real == NULL) real = REAL(unlinkat);
  const int failed = real(at, path, flags);
  char whole[MAX_PATH];
  NoteNames(failed, flags & AT_REMOVEDIR ? FOLDER_REMOVED : UNLINKED, Resolve(at, path, whole), NULL);
  return failed;
}
