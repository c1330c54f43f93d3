// Owns removing those variables before a library is loaded.
#include "arithmetic_environment.hpp"

#include <cstdlib>

namespace vindex::apps {

std::vector<std::string> unset_arithmetic_variables() {
  std::vector<std::string> unset;
  for (const char* name : {"CUBLAS_EMULATE_DOUBLE_PRECISION", "CUBLAS_EMULATE_SINGLE_PRECISION",
                           "NVIDIA_TF32_OVERRIDE"}) {
    if (const char* const value = std::getenv(name)) {
      unset.push_back(std::string(name) + "=" + value);
      ::unsetenv(name);
    }
  }
  return unset;
}

}  // namespace vindex::apps
