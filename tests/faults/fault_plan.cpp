// Owns reading the plan from the environment, counting the calls that match, and the log of what
// was injected.
#include "fault_plan.hpp"

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <fcntl.h>
#include <fnmatch.h>
#include <string_view>
#include <sys/syscall.h>
#include <unistd.h>

namespace vindex::faults {

namespace {

constexpr unsigned long kEvery = ~0UL;
constexpr std::size_t kMaxPath = 1024;

struct Plan {
  std::string_view calls = "*";
  const char* path = "*";
  const char* log = nullptr;
  unsigned long first = 0, times = 1, min_bytes = 0, delay_milliseconds = 0, date = 0;
  Verdict verdict;
  int signal = 0;  // before the call
};

struct ErrorName {
  std::string_view name;
  int number;
};
constexpr ErrorName kErrors[] = {
    {"EIO", EIO},       {"ENOSPC", ENOSPC}, {"ECONNRESET", ECONNRESET}, {"EINTR", EINTR},
    {"EDQUOT", EDQUOT}, {"ENOMEM", ENOMEM}, {"EAGAIN", EAGAIN},         {"EACCES", EACCES},
    {"EPERM", EPERM},   {"ENOENT", ENOENT}, {"ENOLCK", ENOLCK},         {"ENOSYS", ENOSYS},
    {"EINVAL", EINVAL}, {"EMFILE", EMFILE}, {"ESTALE", ESTALE},         {"EOPNOTSUPP", EOPNOTSUPP}};

/// A plan that is not understood injects nothing and must not look as if it had been survived.
[[noreturn]] void refuse(const char* what) {
  constexpr std::string_view kBefore = "fault injection: cannot be understood: ";
  (void)::syscall(SYS_write, STDERR_FILENO, kBefore.data(), kBefore.size());
  (void)::syscall(SYS_write, STDERR_FILENO, what, std::strlen(what));
  (void)::syscall(SYS_write, STDERR_FILENO, "\n", 1);
  ::_exit(99);
}

unsigned long number(const char* name, unsigned long otherwise) {
  const char* const text = std::getenv(name);
  if (text == nullptr) {
    return otherwise;
  }
  if (std::strcmp(text, "all") == 0) {
    return kEvery;
  }
  char* end = nullptr;
  const unsigned long value = std::strtoul(text, &end, 10);
  return *text != '\0' && *end == '\0' ? value : (refuse(name), otherwise);
}

Plan read_plan() {
  Plan plan;
  if (const char* const calls = std::getenv("VINDEX_FAULT_CALLS")) {
    plan.calls = calls;
  }
  if (const char* const path = std::getenv("VINDEX_FAULT_PATH")) {
    plan.path = path;
  }
  plan.log = std::getenv("VINDEX_FAULT_LOG");
  plan.first = number("VINDEX_FAULT_AT", 0);
  plan.times = number("VINDEX_FAULT_TIMES", 1);
  plan.min_bytes = number("VINDEX_FAULT_BYTES", 0);
  plan.date = number("VINDEX_FAULT_DATE", 0);
  const char* const what = std::getenv("VINDEX_FAULT_DO");
  const std::string_view action = what == nullptr ? "" : what;
  const auto* const error = std::find_if(std::begin(kErrors), std::end(kErrors),
                                         [&](const ErrorName& e) { return e.name == action; });
  if (error != std::end(kErrors)) {
    plan.verdict = {Action::kFail, error->number};
  } else if (action == "short") {
    plan.verdict.action = Action::kShorten;
  } else if (action == "kill-before") {
    plan.signal = SIGKILL;
  } else if (action == "SIGINT") {
    plan.signal = SIGINT;
  } else if (action == "SIGTERM") {
    plan.signal = SIGTERM;
  } else if (action == "SIGUSR1") {
    plan.signal = SIGUSR1;
  } else if (action == "kill-after") {
    plan.verdict.action = Action::kKillAfter;
  } else if (action.starts_with("delay=")) {
    plan.delay_milliseconds = std::strtoul(action.data() + 6, nullptr, 10);
  } else if (plan.first != 0) {
    refuse("VINDEX_FAULT_DO");
  }
  return plan;
}

const Plan& plan() {
  static const Plan plan = read_plan();
  return plan;
}

bool is_listed(std::string_view list, std::string_view name) {
  while (!list.empty()) {
    const std::size_t comma = std::min(list.find(','), list.size());
    if (list.substr(0, comma) == name) {
      return true;
    }
    list.remove_prefix(std::min(comma + 1, list.size()));
  }
  return false;
}

char* put(char* at, const char* end, std::string_view text) {
  const std::size_t room = static_cast<std::size_t>(end - at);
  const std::size_t count = std::min(room, text.size());
  std::memcpy(at, text.data(), count);
  return at + count;
}

void log(const char* file, bool wrong, unsigned long count, const char* name, const char* path) {
  char line[kMaxPath + 64];
  char digits[24];
  char* digit = digits + sizeof(digits);
  do {
    *--digit = static_cast<char>('0' + count % 10);
    count /= 10;
  } while (count > 0);
  const char* const end = line + sizeof(line) - 1;
  char* at = put(line, end, wrong ? "! " : "");
  at = put(at, end, {digit, static_cast<std::size_t>(digits + sizeof(digits) - digit)});
  at = put(put(put(put(at, end, " "), end, name), end, " "), end, path);
  *at++ = '\n';
  const long descriptor =
      ::syscall(SYS_openat, AT_FDCWD, file, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
  if (descriptor >= 0) {
    (void)::syscall(SYS_write, descriptor, line, at - line);
    (void)::syscall(SYS_close, descriptor);
  }
}

Verdict judge(const char* name, const char* path) {
  static std::atomic<unsigned long> calls{0};
  const unsigned long count = ++calls;
  const bool wrong =
      plan().first != 0 && count >= plan().first && count - plan().first < plan().times;
  if (plan().log != nullptr) {
    log(plan().log, wrong, count, name, path);
  }
  if (!wrong) {
    return {};
  }
  if (plan().signal == SIGKILL) {
    kill_now();
  }
  if (plan().signal != 0) {
    (void)::syscall(SYS_kill, ::syscall(SYS_getpid), plan().signal);
  }
  if (plan().delay_milliseconds > 0) {
    const timespec time = {static_cast<time_t>(plan().delay_milliseconds / 1000),
                           static_cast<long>(plan().delay_milliseconds % 1000) * 1'000'000};
    (void)::syscall(SYS_nanosleep, &time, nullptr);
  }
  return plan().verdict;
}

}  // namespace

Verdict ask(const char* name, const char* path, int descriptor) {
  if (plan().calls != "*" && !is_listed(plan().calls, name)) {
    return {};
  }
  const int kept = errno;
  char opened[kMaxPath] = "";
  if (path == nullptr && descriptor >= 0) {
    char link[40] = "/proc/self/fd/";
    char* at = link + std::strlen(link);
    char digits[12];
    int count = 0;
    do {
      digits[count++] = static_cast<char>('0' + descriptor % 10);
      descriptor /= 10;
    } while (descriptor > 0);
    while (count > 0) {
      *at++ = digits[--count];
    }
    *at = '\0';
    const long length = ::syscall(SYS_readlink, link, opened, sizeof(opened) - 1);
    opened[std::max(length, 0L)] = '\0';
  }
  const char* const where = path == nullptr ? opened : path;
  const Verdict verdict = ::fnmatch(plan().path, where, 0) == 0 ? judge(name, where) : Verdict{};
  errno = kept;
  return verdict;
}

Verdict ask_memory(const char* name, std::size_t bytes) {
  if (bytes < plan().min_bytes || !is_listed(plan().calls, name)) {
    return {};
  }
  const int kept = errno;
  const Verdict verdict = judge(name, "");
  errno = kept;
  return verdict;
}

long fixed_date() { return static_cast<long>(plan().date); }

void kill_now() {
  (void)::syscall(SYS_kill, ::syscall(SYS_getpid), SIGKILL);
  while (true) {  // until it arrives
  }
}

}  // namespace vindex::faults
