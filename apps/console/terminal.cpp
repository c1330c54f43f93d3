// Owns printing, and the width of a text on a terminal.
#include "terminal.hpp"

#include "apps/process/session.hpp"
#include "core/files/output_sink.hpp"
#include "core/text/secrets.hpp"
#include "core/text/text_table.hpp"
#include "engine/run/version.hpp"

#include <fmt/format.h>

#include <cstdio>
#include <cstdlib>
#include <span>
#include <sys/ioctl.h>
#include <unistd.h>

namespace vindex::apps {

void print_result(const std::string& text) {
  const std::string shown = without_secrets(text);
  try {
    write_standard_output(std::as_bytes(std::span(shown)));
  } catch (const SystemError& error) {
    if (!is_closed_output(error)) {
      throw;
    }
  }
}

void say(const Session& session, const std::string& line) {
  if (!session.quiet) {
    // Nobody may be reading: no reason to stop.
    std::fputs((without_secrets(line) + "\n").c_str(), stderr);
  }
}

void say_warnings(const Session& session, const std::vector<Warning>& warnings) {
  for (const Warning& warning : warnings) {
    say(session, fmt::format("warning {}: {}", warning.id, warning.text));
  }
}

std::string program_name() {
  return fmt::format("vindex {} ({})", engine::program_version(), engine::program_commit());
}

std::size_t text_width(int descriptor) {
  struct winsize size {};
  if (::ioctl(descriptor, TIOCGWINSZ, &size) == 0 && size.ws_col > 0) {
    return size.ws_col;
  }
  constexpr unsigned long kMax = 10'000;
  const char* columns = std::getenv("COLUMNS");
  const unsigned long width = columns == nullptr ? 0 : std::strtoul(columns, nullptr, 10);
  return width > 0 && width <= kMax ? width : kUsualWidth;
}

bool is_live(int descriptor) {
  const char* kind = std::getenv("TERM");
  return ::isatty(descriptor) == 1 && kind != nullptr && *kind != '\0' &&
         std::string(kind) != "dumb";
}

}  // namespace vindex::apps
