// Entries that are alike round alike: where many values are equal, sigma_error answers for
// roundings that all go one way (statistics/judgement/spectrum_error.hpp).
#include "backend_fixture.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <string>
#include <utility>
#include <vector>

namespace vindex::test::alike_rounding_test {
namespace {

FloatMatrix constant_and_diagonal(std::int64_t n, float constant, float diagonal) {
  FloatMatrix out{n, n, std::vector<float>(static_cast<std::size_t>(n * n), constant)};
  for (std::int64_t i = 0; i < n; ++i) {
    out.at(i, i) += diagonal;
  }
  return out;
}

FloatMatrix with_equal_columns(std::int64_t n, std::int64_t count) {
  FloatMatrix out = gaussian_matrix(n, n, 9);
  for (std::int64_t r = 0; r < n; ++r) {
    for (std::int64_t c = 1; c < count; ++c) {
      out.at(r, c) = out.at(r, 0);
    }
  }
  return out;
}

using AlikeRounding = BackendTest;

TEST_P(AlikeRounding, IsWithinTheErrorStated) {
  std::vector<NamedMatrix> matrices;
  const auto add = [&](std::string name, FloatMatrix matrix) {
    matrices.push_back({std::move(name), true, std::move(matrix)});
  };
  const std::vector<std::int64_t> sizes =
      is_emulated() ? std::vector<std::int64_t>{48} : std::vector<std::int64_t>{160, 256};
  for (const std::int64_t n : sizes) {
    for (const float diagonal : {1.0F, 30.0F, 100.0F}) {
      for (const float constant : {0.02F, 0.3F}) {
        add("constant and diagonal " + std::to_string(n),
            constant_and_diagonal(n, constant, diagonal));
      }
    }
    add("equal columns " + std::to_string(n), with_equal_columns(n, n / 4));
  }
  for (const NamedMatrix& one : matrices) {
    const std::vector<double> reference = reference_singular_values(one.matrix);
    for (const bool escalate : {true, false}) {
      const MatrixReport report =
          measure_floats(one.matrix, with_mode(SpectrumMode::kDefault, escalate));
      ASSERT_EQ(report.status, MatrixStatus::kMeasured) << report.reason;
      for (std::size_t i = 0; i < reference.size(); ++i) {
        ASSERT_LE(std::abs(report.sigma[i] - reference[i]),
                  report.sigma_error + 1e-14 * reference[0])
            << one.name << " by " << report.method << " at " << i;
      }
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Backends, AlikeRounding, every_backend(),
                         [](const auto& instance) { return instance.param; });

}  // namespace
}  // namespace vindex::test::alike_rounding_test
