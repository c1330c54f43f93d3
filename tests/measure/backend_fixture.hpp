// Owns what the conformance suite stands on: one fixture parameterised over back ends, and short
// ways to measure a matrix of floats.
#pragma once

#include "support/known_spectra.hpp"

#include <vindex/measure/backend.hpp>

#include <gtest/gtest.h>

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

namespace vindex::test {

/// A matrix of floats as an encoded matrix (F32) that owns its bytes by reference.
decode::EncodedMatrix as_encoded(const FloatMatrix& matrix);

/// Runs over "cpu" and "cuda". Without a device the CUDA cases are skipped with the reason, unless
/// VINDEX_REQUIRE=cuda is in the environment, which makes that a failure.
class BackendTest : public ::testing::TestWithParam<std::string> {
 protected:
  void SetUp() override;

  measure::MatrixReport measure_floats(const FloatMatrix& matrix,
                                       const measure::MeasureOptions& options = {},
                                       std::uint64_t workspace_limit = 0, bool transposed = false,
                                       std::uint64_t key = 0);

  std::unique_ptr<measure::Backend> backend_;
};

measure::MeasureOptions with_mode(measure::Mode mode, bool escalate = true);

}  // namespace vindex::test
