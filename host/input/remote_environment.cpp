#include "remote_environment.hpp"

#include "core/text_parts.hpp"

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

}  // namespace vindex::input
