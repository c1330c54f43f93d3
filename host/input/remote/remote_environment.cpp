// Owns the variables that were handed over, and their reading as text, switch or number of seconds.
#include "remote_environment.hpp"

#include "core/files/small_file.hpp"
#include "core/text/text_parts.hpp"
#include <vindex/error.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <mutex>
#include <utility>

namespace vindex::input {

namespace {

struct Given {
  std::mutex mutex;
  Variables variables;
};

Given& given() {
  static Given environment;
  return environment;
}

}  // namespace

void set_remote_environment(Variables variables) {
  const std::lock_guard lock(given().mutex);
  given().variables = std::move(variables);
}

std::string variable(const char* name) {
  Variables variables;
  {
    const std::lock_guard lock(given().mutex);
    variables = given().variables;
  }
  return variables ? variables(name) : std::string();
}

bool is_on(const char* name) {
  std::string value = variable(name);
  std::transform(value.begin(), value.end(), value.begin(), [](char c) {
    return c >= 'a' && c <= 'z' ? static_cast<char>(c - 'a' + 'A') : c;
  });
  return value == "1" || value == "ON" || value == "YES" || value == "TRUE";
}

double seconds_of(const char* name, double otherwise) {
  constexpr double kMost = 3600;
  const auto seconds = whole_number<int>(variable(name));
  return seconds && *seconds >= 1 && *seconds <= kMost ? *seconds : otherwise;
}

std::string without_tilde(const std::string& path) {
  return path == "~" || path.starts_with("~/") ? variable("HOME") + path.substr(1) : path;
}

std::string text_of_file(const std::string& path, std::size_t most, const char* id) {
  SmallFile file = small_file(path, most);
  if (file.kind == PathKind::kOther) {
    throw MissingInputError(
        id, fmt::format("{} is a pipe, socket or device, not a regular file", printable(path)));
  }
  return std::move(file.text);
}

std::string trimmed(std::string_view text) {
  constexpr std::string_view kWhite = " \t\r\n";
  const std::size_t begin = text.find_first_not_of(kWhite);
  const std::size_t end = text.find_last_not_of(kWhite);
  return begin == std::string_view::npos ? std::string()
                                         : std::string(text.substr(begin, end + 1 - begin));
}

}  // namespace vindex::input
