// Owns the width of a text on a terminal, and whether there is one.
#include "terminal.hpp"

#include <vindex/core/text_table.hpp>

#include <cstdlib>
#include <string>
#include <sys/ioctl.h>
#include <unistd.h>

namespace vindex::apps {

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
