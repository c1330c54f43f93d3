// Owns the environment that lets programs meet faults (tests/faults/fault_plan.hpp says what the
// names mean): set while it lives, for programs that are started meanwhile.
#pragma once

#include <cstdlib>
#include <string>
#include <utility>
#include <vector>

namespace vindex::testing {

class FaultEnvironment {
 public:
  /// `library`: of tests/faults. Names without their beginning: {"AT", "1"} is VINDEX_FAULT_AT=1.
  FaultEnvironment(const std::string& library,
                   const std::vector<std::pair<std::string, std::string>>& plan) {
    set("LD_PRELOAD", library);
    for (const auto& [name, value] : plan) {
      set("VINDEX_FAULT_" + name, value);
    }
  }
  ~FaultEnvironment() {
    for (const std::string& name : names_) {
      ::unsetenv(name.c_str());
    }
  }
  FaultEnvironment(const FaultEnvironment&) = delete;
  FaultEnvironment& operator=(const FaultEnvironment&) = delete;

 private:
  void set(const std::string& name, const std::string& value) {
    ::setenv(name.c_str(), value.c_str(), 1);
    names_.push_back(name);
  }
  std::vector<std::string> names_;
};

}  // namespace vindex::testing
