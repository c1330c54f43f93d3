// Runs the built program as a user would and keeps what it said.
#pragma once

#include "tests/support/file_content.hpp"
#include "tests/support/temporary_folder.hpp"

#include <gtest/gtest.h>

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <fcntl.h>
#include <signal.h>
#include <string>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>
#include <vector>

namespace vindex::testing {

struct ProgramResult {
  int exit_code = -1;  ///< 128 + signal where it was killed
  std::string out, err;
  double seconds = 0.0;
  double cpu_seconds = 0.0;  ///< of the process, in user and system: what a loaded machine keeps
  long peak_kib = 0;         ///< peak resident memory
};

/// A started program; finish() waits for it.
class RunningProgram {
 public:
  RunningProgram(const std::string& program, const std::vector<std::string>& arguments,
                 const std::string& scratch)
      : out_(scratch + ".out"), err_(scratch + ".err"), start_(std::chrono::steady_clock::now()) {
    process_ = ::fork();
    if (process_ == 0) {
      ::dup2(::open("/dev/null", O_RDONLY), STDIN_FILENO);
      ::dup2(::open(out_.c_str(), O_WRONLY | O_CREAT | O_TRUNC, 0600), STDOUT_FILENO);
      ::dup2(::open(err_.c_str(), O_WRONLY | O_CREAT | O_TRUNC, 0600), STDERR_FILENO);
      std::vector<char*> words = {const_cast<char*>(program.c_str())};
      for (const std::string& argument : arguments) {
        words.push_back(const_cast<char*>(argument.c_str()));
      }
      words.push_back(nullptr);
      ::execv(program.c_str(), words.data());
      ::_exit(127);
    }
  }
  void signal(int number) const { ::kill(process_, number); }
  ProgramResult finish() {
    ProgramResult result;
    int status = 0;
    struct rusage usage {};
    ::wait4(process_, &status, 0, &usage);
    result.seconds =
        std::chrono::duration<double>(std::chrono::steady_clock::now() - start_).count();
    result.exit_code = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
    result.peak_kib = usage.ru_maxrss;
    for (const struct timeval& spent : {usage.ru_utime, usage.ru_stime}) {
      result.cpu_seconds +=
          static_cast<double>(spent.tv_sec) + 1e-6 * static_cast<double>(spent.tv_usec);
    }
    result.out = file_text(out_);
    result.err = file_text(err_);
    return result;
  }

 private:
  pid_t process_ = -1;
  std::string out_, err_;
  std::chrono::steady_clock::time_point start_;
};

}  // namespace vindex::testing
