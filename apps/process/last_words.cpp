// Owns what is said where an exception has nobody to catch it, or a library ends the program.
#include "last_words.hpp"

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <exception>
#include <new>
#include <unistd.h>

namespace vindex::apps {

namespace {

/// What uthash does within libhdf5 (H5I_register), with 255 and without a word.
constexpr const char* kEndedByLibrary =
    "vindex: E-MEMORY: a library ended the program, as libhdf5 does where it gets no memory; a "
    "smaller --ram-budget or fewer --threads may help\n";

/// The last word where an exception has nobody to catch it, or no memory is left to throw one in:
/// one line and an exit code all the same. What is on disk is as after a kill: valid.
[[noreturn]] void end_at_once() noexcept {
  const auto say = [](const char* text) { (void)!::write(STDERR_FILENO, text, std::strlen(text)); };
  try {
    if (const std::exception_ptr error = std::current_exception()) {
      std::rethrow_exception(error);
    }
    say("vindex: E-INTERNAL: ended by a library\n");
  } catch (const std::bad_alloc&) {
    say(kOutOfMemory);
  } catch (const std::exception& error) {
    say("vindex: E-INTERNAL: nothing could handle this: ");
    say(error.what());
    say("\n");
  } catch (...) {
    say("vindex: E-INTERNAL: nothing could handle an exception\n");
  }
  std::_Exit(static_cast<int>(ExitCode::kInternal));
}

bool has_returned = false;

void end_for_library() {
  if (has_returned) {
    return;
  }
  (void)!::write(STDERR_FILENO, kEndedByLibrary, std::strlen(kEndedByLibrary));
  std::_Exit(static_cast<int>(ExitCode::kInternal));
}

/// Before all other initialisers of this program: they take memory too, those of headers included.
struct LastWords {
  LastWords() {
    std::set_terminate(end_at_once);
    std::atexit(end_for_library);
  }
};
[[gnu::init_priority(101)]] const LastWords kLastWords;

}  // namespace

void end_without_memory(ExitCode code) {
  std::fflush(nullptr);
  std::_Exit(static_cast<int>(code));
}

void main_returns() { has_returned = true; }

}  // namespace vindex::apps
