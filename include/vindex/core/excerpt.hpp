// Owns how much of a text from a file an error message shows.
#pragma once

#include <vindex/core/error.hpp>

#include <string>
#include <string_view>

namespace vindex {

/// The beginning of `text`, printable, with "..." where more follows: a name from a file may have a
/// hundred megabytes, an error message is one line.
inline std::string excerpt(std::string_view text) {
  constexpr std::size_t kShown = 200;
  return printable(std::string(text.substr(0, kShown))) + (text.size() > kShown ? "..." : "");
}

}  // namespace vindex
