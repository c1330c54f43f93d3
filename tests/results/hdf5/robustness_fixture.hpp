// Owns what the tests of robustness share: whole files as text, how an action ends, and children
// that may die of it.
#pragma once

#include "tests/support/file_content.hpp"
#include <vindex/error.hpp>

#include <algorithm>
#include <csignal>
#include <filesystem>
#include <fstream>
#include <functional>
#include <string>
#include <sys/wait.h>
#include <unistd.h>
#include <vector>

namespace vindex::results::testing {

namespace fs = std::filesystem;

inline std::string read_file(const std::string& path) { return vindex::testing::file_text(path); }

inline void write_file(const std::string& path, const std::string& bytes) {
  std::ofstream(path, std::ios::binary) << bytes;
}

inline std::vector<std::string> files_in(const std::string& folder) {
  std::vector<std::string> names;
  for (const auto& entry : fs::recursive_directory_iterator(folder)) {
    names.push_back(entry.path().filename());
  }
  std::sort(names.begin(), names.end());
  return names;
}

inline bool some_line_has(const std::vector<std::string>& lines, const std::string& text) {
  return std::any_of(lines.begin(), lines.end(),
                     [&](const std::string& line) { return line.find(text) != std::string::npos; });
}

struct Outcome {
  std::string id;
  ExitCode code = ExitCode::kOk;
};

inline Outcome outcome_of(const std::function<void()>& action) {
  try {
    action();
  } catch (const Error& error) {
    return {error.id(), error.exit_code()};
  }
  return {};
}

/// Runs `action` in a child that may die; its exit status as wait() gives it.
inline int in_child(const std::function<void()>& action, useconds_t kill_after = 0) {
  const pid_t child = fork();
  if (child == 0) {
    try {
      action();
    } catch (const Error& error) {
      _exit(static_cast<int>(error.exit_code()));
    } catch (...) {
      _exit(99);
    }
    _exit(0);
  }
  if (kill_after > 0) {
    usleep(kill_after);
    kill(child, SIGKILL);
  }
  int status = 0;
  waitpid(child, &status, 0);
  return status;
}

}  // namespace vindex::results::testing
