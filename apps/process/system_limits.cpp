// Owns the calls of the system behind these requests, each left out where it fails.
#include "system_limits.hpp"

#include <cerrno>
#include <csignal>
#include <fcntl.h>
#include <initializer_list>
#include <malloc.h>
#include <sys/resource.h>
#include <unistd.h>

namespace vindex::apps {

namespace {

/// Standard descriptors that the caller has closed stay taken, so that no file of ours gets the
/// number of one and what is said lands in it. What stands for them can be read only: results that
/// nobody can see are still an error.
void keep_standard_descriptors() {
  for (const int descriptor : {STDIN_FILENO, STDOUT_FILENO, STDERR_FILENO}) {
    if (::fcntl(descriptor, F_GETFD) == -1 && errno == EBADF) {
      (void)::open("/dev/null", O_RDONLY);  // the lowest free number: this one
    }
  }
}

/// A model of thousands of shards has them all open; the usual soft limit is 1024.
void allow_many_files() {
  struct rlimit limit {};
  if (::getrlimit(RLIMIT_NOFILE, &limit) == 0) {
    limit.rlim_cur = limit.rlim_max;
    (void)::setrlimit(RLIMIT_NOFILE, &limit);  // where it fails, opening says so
  }
}

/// Pages that were freed are taken again, not fresh ones, whose first touch costs several times as
/// much, most of all in a virtual machine. Left alone, the C library finds these limits by what is
/// freed, too slowly for runs whose matrices are all alike: it gives every one's workspace back.
/// They are the highest that it comes to by itself, so that no more is kept than it may keep
/// anyway.
void keep_freed_pages() {
#ifdef __GLIBC__
  constexpr int kLargestInHeap = 32 << 20;
  ::mallopt(M_MMAP_THRESHOLD, kLargestInHeap);
  ::mallopt(M_TRIM_THRESHOLD, 2 * kLargestInHeap);
#endif
}

}  // namespace

void settle_process() {
  keep_freed_pages();
  std::signal(SIGPIPE, SIG_IGN);
  std::signal(SIGXFSZ, SIG_IGN);  // a file size limit is then an ordinary error of write()
  keep_standard_descriptors();
  allow_many_files();
}

}  // namespace vindex::apps
