// The library that the process gets: one thread, the kernels that fit, and a second copy with them
// where poorer ones are in use. Nothing here links OpenBLAS.
#include "blas/blas_library.hpp"

#include "apps/process/arithmetic_environment.hpp"
#include "backend/backend.hpp"
#include "blas/blas.hpp"
#include "blas/blas_core.hpp"
#include "cpu/cpu_backend.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <string>
#include <thread>
#include <vector>

namespace vindex::blas::blas_library_test {
namespace {

/// As the program does it, before anything is loaded. The choice is the program's here: what the
/// shell wishes for, as some machines make it, is tested in blas_cli_test.cpp.
const std::string environment_wish = [] {
  ::unsetenv("OPENBLAS_CORETYPE");
  return apps::blas_core_wish();
}();

/// Column-major upper triangle of A A^T by its definition.
std::vector<double> product(const std::vector<double>& a, std::int64_t p) {
  std::vector<double> c(a.size(), 0.0);
  for (std::int64_t j = 0; j < p; ++j) {
    for (std::int64_t i = 0; i <= j; ++i) {
      for (std::int64_t k = 0; k < p; ++k) {
        c[static_cast<std::size_t>(j * p + i)] +=
            a[static_cast<std::size_t>(k * p + i)] * a[static_cast<std::size_t>(k * p + j)];
      }
    }
  }
  return c;
}

TEST(BlasLibrary, TakesTheKernelsThatFitThisProcessor) {
  const BlasInfo& info = load_blas();
  EXPECT_TRUE(info.version.starts_with("OpenBLAS 0.")) << info.version;
  const auto fitting = fitting_blas_cores(this_processor());
  const std::string config = blas::blas().openblas_get_config();
  if (fitting.empty() || config.find("DYNAMIC_ARCH") == std::string::npos) {
    GTEST_SKIP() << "no choice here: " << config;
  }
  EXPECT_TRUE(std::any_of(fitting.begin(), fitting.end(), [&](std::string_view name) {
    return is_same_core(name, info.kernels);
  })) << info.kernels;
  EXPECT_EQ(info.warning, "");
  const auto backend = cpu::make_cpu_backend(1, "", cpu::MatrixUnitPreference::kNone);
  EXPECT_EQ(backend->info().libraries, std::vector<std::string>{info.version + " " + info.kernels});
}

TEST(BlasLibrary, TheFirstWishCounts) {
  const std::string kernels = load_blas().kernels;
  EXPECT_EQ(load_blas("Prescott").kernels, kernels);
}

TEST(BlasLibrary, EveryThreadMayCallTheReference) {
  const ReferenceBlas& reference = reference_blas();
  ASSERT_EQ(reference.why_none, "");
  constexpr std::int64_t kSide = 37;
  std::vector<double> wide;
  for (std::int64_t i = 0; i < kSide * kSide; ++i) {
    wide.push_back(std::sin(static_cast<double>(i)));
  }
  const std::vector<float> narrow(wide.begin(), wide.end());
  const std::vector<double> expected = product(wide, kSide);
  std::vector<std::vector<double>> wide_found(2, std::vector<double>(wide.size()));
  std::vector<std::vector<float>> narrow_found(2, std::vector<float>(wide.size()));
  std::vector<std::thread> threads;
  for (std::size_t i = 0; i < 2; ++i) {
    threads.emplace_back([&, i] {
      reference.rank_update(kSide, wide.data(), wide_found[i].data());
      reference.rank_update(kSide, narrow.data(), narrow_found[i].data());
    });
  }
  for (std::thread& thread : threads) {
    thread.join();
  }
  for (std::size_t i = 0; i < 2; ++i) {
    for (std::int64_t j = 0; j < kSide; ++j) {
      for (std::int64_t k = 0; k <= j; ++k) {
        const auto at = static_cast<std::size_t>(j * kSide + k);
        ASSERT_NEAR(wide_found[i][at], expected[at], 1e-13 * kSide);
        ASSERT_NEAR(narrow_found[i][at], expected[at], 1e-6 * kSide);
      }
    }
  }
}

}  // namespace
}  // namespace vindex::blas::blas_library_test
