// Owns removing and setting those variables before a library is loaded.
#include "arithmetic_environment.hpp"

#include "blas/blas_library.hpp"
#include <vindex/error.hpp>

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

const std::string& blas_core_wish() {
  static const std::string wish = [] {
    const char* const set = std::getenv("OPENBLAS_CORETYPE");
    std::string wished = set == nullptr ? "" : set;
    // Builds of OpenBLAS on OpenMP ask OpenMP in every calling thread.
    ::setenv("OPENBLAS_NUM_THREADS", "1", 1);
    ::setenv("OMP_NUM_THREADS", "1", 1);
    if (const std::string core = blas::preferred_blas_core(); wished.empty() && !core.empty()) {
      ::setenv("OPENBLAS_CORETYPE", core.c_str(), 1);
    }
    return wished;
  }();
  return wish;
}

bool wants_matrix_unit() {
  const char* const set = std::getenv("VINDEX_MATRIX_UNIT");
  const std::string wished = set == nullptr ? "" : set;
  if (!wished.empty() && wished != "auto" && wished != "none") {
    throw UsageError("E-MATRIX-UNIT",
                     "VINDEX_MATRIX_UNIT is auto or none, not " + printable(wished));
  }
  return wished != "none";
}

}  // namespace vindex::apps
