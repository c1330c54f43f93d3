// Owns the functions of the C library that this library stands in for. Each asks the plan, then
// fails, does half, or does what its namesake does. The names of calls in a plan are those without
// 64 at their end. What the C library calls inside itself (fopen, the loader, threads' stacks) does
// not come by here.
#include "fault_plan.hpp"

#include <algorithm>
#include <cerrno>
#include <cstdarg>
#include <cstdio>
#include <cstring>
#include <ctime>
#include <dirent.h>
#include <dlfcn.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/time.h>
#include <sys/uio.h>
#include <unistd.h>

using vindex::faults::Action;
using vindex::faults::ask;
using vindex::faults::ask_memory;
using vindex::faults::fixed_date;
using vindex::faults::kill_now;
using vindex::faults::Verdict;

namespace {

/// The namesake in the libraries behind this one.
template <typename Function>
Function next(const char* symbol) {
  return reinterpret_cast<Function>(::dlsym(RTLD_NEXT, symbol));
}

/// A call that fails with -1, or with `failure`, and errno.
template <typename Result, typename Real>
Result injected(const Verdict& verdict, Result failure, Real real) {
  if (verdict.action == Action::kFail) {
    errno = verdict.error_number;
    return failure;
  }
  const Result result = real();
  if (verdict.action == Action::kKillAfter) {
    kill_now();
  }
  return result;
}

/// A transfer of `bytes`, half of them where it is to be short.
template <typename Real>
ssize_t transferred(const Verdict& verdict, std::size_t bytes, Real real) {
  const bool halved = verdict.action == Action::kShorten && bytes > 1;
  return injected<ssize_t>(verdict, -1, [&] { return real(halved ? bytes / 2 : bytes); });
}

/// The same for pieces: the first of them, or half of an only one.
template <typename Real>
ssize_t transferred_pieces(const Verdict& verdict, const iovec* pieces, int count, Real real) {
  if (verdict.action != Action::kShorten || count < 1) {
    return injected<ssize_t>(verdict, -1, [&] { return real(pieces, count); });
  }
  iovec first = pieces[0];
  if (count == 1 && first.iov_len > 1) {
    first.iov_len /= 2;
  }
  return real(&first, 1);
}

bool takes_mode(int flags) { return (flags & (O_CREAT | O_TMPFILE)) != 0; }

}  // namespace

// `symbol` under its own name, once for every call place.
#define REAL(symbol, type) static const auto real = next<type>(#symbol)

#define OPEN_LIKE(symbol, name)                                                        \
  extern "C" int symbol(const char* path, int flags, ...) {                            \
    REAL(symbol, int (*)(const char*, int, ...));                                      \
    mode_t mode = 0;                                                                   \
    if (takes_mode(flags)) {                                                           \
      va_list more;                                                                    \
      va_start(more, flags);                                                           \
      mode = va_arg(more, mode_t);                                                     \
      va_end(more);                                                                    \
    }                                                                                  \
    return injected(ask(name, path, -1), -1, [&] { return real(path, flags, mode); }); \
  }
OPEN_LIKE(open, "open")
OPEN_LIKE(open64, "open")

#define OPENAT_LIKE(symbol, name)                                                              \
  extern "C" int symbol(int folder, const char* path, int flags, ...) {                        \
    REAL(symbol, int (*)(int, const char*, int, ...));                                         \
    mode_t mode = 0;                                                                           \
    if (takes_mode(flags)) {                                                                   \
      va_list more;                                                                            \
      va_start(more, flags);                                                                   \
      mode = va_arg(more, mode_t);                                                             \
      va_end(more);                                                                            \
    }                                                                                          \
    return injected(ask(name, path, -1), -1, [&] { return real(folder, path, flags, mode); }); \
  }
OPENAT_LIKE(openat, "openat")
OPENAT_LIKE(openat64, "openat")

/// A call whose matching word is a path or a descriptor; `-1` and errno where it fails.
#define CALL(symbol, name, parameters, arguments, path, descriptor)                   \
  extern "C" int symbol parameters {                                                  \
    REAL(symbol, int(*) parameters);                                                  \
    return injected(ask(name, path, descriptor), -1, [&] { return real arguments; }); \
  }
#define BY_PATH(symbol, name, parameters, arguments) \
  CALL(symbol, name, parameters, arguments, path, -1)
#define BY_FILE(symbol, name, parameters, arguments) \
  CALL(symbol, name, parameters, arguments, nullptr, file)

BY_PATH(creat, "creat", (const char* path, mode_t mode), (path, mode))
BY_PATH(creat64, "creat", (const char* path, mode_t mode), (path, mode))
BY_PATH(rename, "rename", (const char* path, const char* to) noexcept, (path, to))
BY_PATH(renameat, "renameat", (int from, const char* path, int into, const char* to) noexcept,
        (from, path, into, to))
BY_PATH(renameat2, "renameat2",
        (int from, const char* path, int into, const char* to, unsigned flags) noexcept,
        (from, path, into, to, flags))
BY_PATH(link, "link", (const char* path, const char* to) noexcept, (path, to))
BY_PATH(linkat, "linkat",
        (int from, const char* path, int into, const char* to, int flags) noexcept,
        (from, path, into, to, flags))
BY_PATH(unlink, "unlink", (const char* path) noexcept, (path))
BY_PATH(unlinkat, "unlinkat", (int folder, const char* path, int flags) noexcept,
        (folder, path, flags))
BY_PATH(remove, "remove", (const char* path) noexcept, (path))
BY_PATH(mkdir, "mkdir", (const char* path, mode_t mode) noexcept, (path, mode))
BY_PATH(rmdir, "rmdir", (const char* path) noexcept, (path))
BY_PATH(truncate64, "truncate", (const char* path, off64_t bytes) noexcept, (path, bytes))
BY_PATH(stat, "stat", (const char* path, struct stat* out) noexcept, (path, out))
BY_PATH(stat64, "stat", (const char* path, struct stat64* out) noexcept, (path, out))
BY_PATH(lstat, "lstat", (const char* path, struct stat* out) noexcept, (path, out))
BY_PATH(lstat64, "lstat", (const char* path, struct stat64* out) noexcept, (path, out))
BY_PATH(fstatat, "fstatat", (int folder, const char* path, struct stat* out, int flags) noexcept,
        (folder, path, out, flags))
BY_PATH(fstatat64, "fstatat",
        (int folder, const char* path, struct stat64* out, int flags) noexcept,
        (folder, path, out, flags))
BY_PATH(statx, "statx",
        (int folder, const char* path, int flags, unsigned mask, struct statx* out) noexcept,
        (folder, path, flags, mask, out))
BY_PATH(statvfs, "statvfs", (const char* path, struct statvfs* out) noexcept, (path, out))
BY_PATH(statvfs64, "statvfs", (const char* path, struct statvfs64* out) noexcept, (path, out))
BY_PATH(utimensat, "utimensat",
        (int folder, const char* path, const timespec* times, int flags) noexcept,
        (folder, path, times, flags))
BY_FILE(futimens, "futimens", (int file, const timespec* times) noexcept, (file, times))
BY_FILE(fstat, "fstat", (int file, struct stat* out) noexcept, (file, out))
BY_FILE(fstat64, "fstat", (int file, struct stat64* out) noexcept, (file, out))
BY_FILE(fsync, "fsync", (int file), (file))
BY_FILE(fdatasync, "fdatasync", (int file), (file))
BY_FILE(ftruncate, "ftruncate", (int file, off_t bytes) noexcept, (file, bytes))
BY_FILE(ftruncate64, "ftruncate", (int file, off64_t bytes) noexcept, (file, bytes))
BY_FILE(fallocate, "fallocate", (int file, int mode, off_t at, off_t bytes),
        (file, mode, at, bytes))
BY_FILE(fallocate64, "fallocate", (int file, int mode, off64_t at, off64_t bytes),
        (file, mode, at, bytes))
BY_FILE(flock, "flock", (int file, int operation) noexcept, (file, operation))

extern "C" int socket(int domain, int type, int protocol) noexcept {
  static const auto real = next<int (*)(int, int, int)>("socket");
  return injected(ask("socket", nullptr, -1), -1, [&] { return real(domain, type, protocol); });
}

extern "C" int connect(int file, const sockaddr* address, socklen_t bytes) {
  static const auto real = next<int (*)(int, const sockaddr*, socklen_t)>("connect");
  return injected(ask("connect", nullptr, file), -1, [&] { return real(file, address, bytes); });
}

extern "C" ssize_t send(int file, const void* from, std::size_t bytes, int flags) {
  static const auto real = next<ssize_t (*)(int, const void*, std::size_t, int)>("send");
  return transferred(ask("send", nullptr, file), bytes,
                     [&](std::size_t count) { return real(file, from, count, flags); });
}

extern "C" ssize_t recv(int file, void* into, std::size_t bytes, int flags) {
  static const auto real = next<ssize_t (*)(int, void*, std::size_t, int)>("recv");
  return transferred(ask("recv", nullptr, file), bytes,
                     [&](std::size_t count) { return real(file, into, count, flags); });
}

extern "C" int poll(pollfd* files, nfds_t count, int milliseconds) {
  static const auto real = next<int (*)(pollfd*, nfds_t, int)>("poll");
  return injected(ask("poll", nullptr, -1), -1, [&] { return real(files, count, milliseconds); });
}

// Linux gives the descriptor back whatever close() says.
extern "C" int close(int file) {
  REAL(close, int (*)(int));
  const Verdict verdict = ask("close", nullptr, file);
  const int result = real(file);
  return injected(verdict, -1, [&] { return result; });
}

#define FCNTL_LIKE(symbol)                                          \
  extern "C" int symbol(int file, int command, ...) {               \
    REAL(symbol, int (*)(int, int, ...));                           \
    va_list more;                                                   \
    va_start(more, command);                                        \
    void* const argument = va_arg(more, void*);                     \
    va_end(more);                                                   \
    return injected(ask("fcntl", nullptr, file), -1,                \
                    [&] { return real(file, command, argument); }); \
  }
FCNTL_LIKE(fcntl)
FCNTL_LIKE(fcntl64)

#define TRANSFER(symbol, name, pointer)                                             \
  extern "C" ssize_t symbol(int file, pointer data, std::size_t bytes) {            \
    REAL(symbol, ssize_t (*)(int, pointer, std::size_t));                           \
    return transferred(ask(name, nullptr, file), bytes,                             \
                       [&](std::size_t count) { return real(file, data, count); }); \
  }
TRANSFER(read, "read", void*)
TRANSFER(write, "write", const void*)

#define TRANSFER_AT(symbol, name, pointer, offset)                                      \
  extern "C" ssize_t symbol(int file, pointer data, std::size_t bytes, offset at) {     \
    REAL(symbol, ssize_t (*)(int, pointer, std::size_t, offset));                       \
    return transferred(ask(name, nullptr, file), bytes,                                 \
                       [&](std::size_t count) { return real(file, data, count, at); }); \
  }
TRANSFER_AT(pread, "pread", void*, off_t)
TRANSFER_AT(pread64, "pread", void*, off64_t)
TRANSFER_AT(pwrite, "pwrite", const void*, off_t)
TRANSFER_AT(pwrite64, "pwrite", const void*, off64_t)

#define PIECES(symbol, name)                                                      \
  extern "C" ssize_t symbol(int file, const iovec* pieces, int count) {           \
    REAL(symbol, ssize_t (*)(int, const iovec*, int));                            \
    return transferred_pieces(                                                    \
        ask(name, nullptr, file), pieces, count,                                  \
        [&](const iovec* some, int number) { return real(file, some, number); }); \
  }
PIECES(readv, "readv")
PIECES(writev, "writev")

#define PIECES_AT(symbol, name)                                                       \
  extern "C" ssize_t symbol(int file, const iovec* pieces, int count, off64_t at) {   \
    REAL(symbol, ssize_t (*)(int, const iovec*, int, off64_t));                       \
    return transferred_pieces(                                                        \
        ask(name, nullptr, file), pieces, count,                                      \
        [&](const iovec* some, int number) { return real(file, some, number, at); }); \
  }
PIECES_AT(preadv, "preadv")
PIECES_AT(preadv64, "preadv")
PIECES_AT(pwritev, "pwritev")
PIECES_AT(pwritev64, "pwritev")

extern "C" ssize_t copy_file_range(int from, off64_t* from_at, int file, off64_t* at,
                                   std::size_t bytes, unsigned flags) {
  REAL(copy_file_range, ssize_t(*)(int, off64_t*, int, off64_t*, std::size_t, unsigned));
  return transferred(ask("copy_file_range", nullptr, file), bytes, [&](std::size_t count) {
    return real(from, from_at, file, at, count, flags);
  });
}

/// OpenBLAS asks for ever for a buffer that it does not get (docs/runs/reliability.md). The program
/// makes sure of the room just before; that memory runs out between the two is the library's limit,
/// and no fault is put there.
bool is_buffer_of_openblas(const void* caller, std::size_t bytes) {
  constexpr std::size_t kBufferBytes = std::size_t{128} << 20U;
  Dl_info of{};
  return bytes == kBufferBytes && ::dladdr(caller, &of) != 0 && of.dli_fname != nullptr &&
         std::strstr(of.dli_fname, "openblas") != nullptr;
}

#define MMAP_LIKE(symbol, offset)                                                              \
  extern "C" void* symbol(void* where, std::size_t bytes, int protection, int flags, int file, \
                          offset at) noexcept {                                                \
    REAL(symbol, void* (*)(void*, std::size_t, int, int, int, offset));                        \
    if (is_buffer_of_openblas(__builtin_return_address(0), bytes)) {                           \
      return real(where, bytes, protection, flags, file, at);                                  \
    }                                                                                          \
    return injected(ask("mmap", nullptr, file), MAP_FAILED,                                    \
                    [&] { return real(where, bytes, protection, flags, file, at); });          \
  }
MMAP_LIKE(mmap, off_t)
MMAP_LIKE(mmap64, off64_t)

extern "C" DIR* opendir(const char* path) {
  REAL(opendir, DIR * (*)(const char*));
  return injected<DIR*>(ask("opendir", path, -1), nullptr, [&] { return real(path); });
}
extern "C" dirent* readdir(DIR* folder) {
  REAL(readdir, dirent * (*)(DIR*));
  return injected<dirent*>(ask("readdir", nullptr, ::dirfd(folder)), nullptr,
                           [&] { return real(folder); });
}
extern "C" dirent64* readdir64(DIR* folder) {
  REAL(readdir64, dirent64 * (*)(DIR*));
  return injected<dirent64*>(ask("readdir", nullptr, ::dirfd(folder)), nullptr,
                             [&] { return real(folder); });
}

// These two say what went wrong by what they return.
extern "C" int posix_fallocate64(int file, off64_t at, off64_t bytes) {
  REAL(posix_fallocate64, int (*)(int, off64_t, off64_t));
  const Verdict verdict = ask("fallocate", nullptr, file);
  return injected(verdict, verdict.error_number, [&] { return real(file, at, bytes); });
}
extern "C" int pthread_create(pthread_t* thread, const pthread_attr_t* attributes,
                              void* (*start)(void*), void* argument) noexcept {
  REAL(pthread_create, int (*)(pthread_t*, const pthread_attr_t*, void* (*)(void*), void*));
  const Verdict verdict = ask("pthread_create", nullptr, -1);
  return injected(verdict, verdict.error_number,
                  [&] { return real(thread, attributes, start, argument); });
}

extern "C" int clock_gettime(clockid_t clock, timespec* now) noexcept {
  REAL(clock_gettime, int (*)(clockid_t, timespec*));
  if (clock == CLOCK_REALTIME && fixed_date() != 0) {
    *now = {fixed_date(), 0};
    return 0;
  }
  return real(clock, now);
}
extern "C" time_t time(time_t* out) noexcept {
  timespec now = {};
  ::clock_gettime(CLOCK_REALTIME, &now);
  if (out != nullptr) {
    *out = now.tv_sec;
  }
  return now.tv_sec;
}

extern "C" int gettimeofday(timeval* now, void* zone) noexcept {
  REAL(gettimeofday, int (*)(timeval*, void*));
  if (fixed_date() != 0) {
    *now = {fixed_date(), 0};
    return 0;
  }
  return real(now, zone);
}

// The allocator: its own names inside the C library, because dlsym() allocates.
extern "C" void* __libc_malloc(std::size_t bytes);
extern "C" void* __libc_calloc(std::size_t count, std::size_t bytes);
extern "C" void* __libc_realloc(void* block, std::size_t bytes);
extern "C" void* __libc_memalign(std::size_t alignment, std::size_t bytes);

extern "C" void* malloc(std::size_t bytes) noexcept {
  return injected<void*>(ask_memory("malloc", bytes), nullptr,
                         [&] { return __libc_malloc(bytes); });
}
extern "C" void* calloc(std::size_t count, std::size_t bytes) noexcept {
  return injected<void*>(ask_memory("malloc", count * bytes), nullptr,
                         [&] { return __libc_calloc(count, bytes); });
}
extern "C" void* realloc(void* block, std::size_t bytes) noexcept {
  return injected<void*>(ask_memory("malloc", bytes), nullptr,
                         [&] { return __libc_realloc(block, bytes); });
}
extern "C" void* aligned_alloc(std::size_t alignment, std::size_t bytes) noexcept {
  return injected<void*>(ask_memory("malloc", bytes), nullptr,
                         [&] { return __libc_memalign(alignment, bytes); });
}
extern "C" int posix_memalign(void** out, std::size_t alignment, std::size_t bytes) noexcept {
  const Verdict verdict = ask_memory("malloc", bytes);
  if (verdict.action == Action::kFail) {
    return verdict.error_number;
  }
  *out = __libc_memalign(alignment, bytes);
  return *out == nullptr ? ENOMEM : 0;
}
