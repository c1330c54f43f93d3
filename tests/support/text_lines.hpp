// Owns the lines of a text, without their ends.
#pragma once

#include <sstream>
#include <string>
#include <vector>

namespace vindex::testing {

inline std::vector<std::string> lines_of(const std::string& text) {
  std::vector<std::string> lines;
  std::istringstream stream(text);
  for (std::string line; std::getline(stream, line);) {
    lines.push_back(line);
  }
  return lines;
}

}  // namespace vindex::testing
