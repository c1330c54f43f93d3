// Owns what the conformance suite stands on: one fixture parameterised over back ends, and short
// ways to measure a matrix of floats.
#pragma once

#include "backend/backend.hpp"
#include "tests/support/known_spectra.hpp"

#include <gtest/gtest.h>

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

namespace vindex::test {

/// A matrix of floats as an encoded matrix (F32) that owns its bytes by reference.
decode::EncodedMatrix as_encoded(const FloatMatrix& matrix);

/// The CUDA back end's own text, run on the CPU (tests/emulated_cuda).
inline constexpr const char* kEmulatedCuda = "cuda_emulated";
/// The CPU back end with a matrix unit in plain C++ (tests/support/emulated_tiles.hpp).
inline constexpr const char* kEmulatedTiles = "cpu_tiles";

/// Runs over "cpu", kEmulatedTiles, "cuda" and kEmulatedCuda. Without a device the cases "cuda" are
/// skipped with the reason, unless VINDEX_REQUIRE=cuda is in the environment, which makes that a
/// failure.
class BackendTest : public ::testing::TestWithParam<std::string> {
 protected:
  void SetUp() override;

  MatrixReport measure_floats(const FloatMatrix& matrix, const MeasureOptions& options = {},
                              std::uint64_t workspace_limit = 0, bool transposed = false,
                              std::uint64_t key = 0);
  bool is_emulated() const { return GetParam() == kEmulatedCuda; }
  /// On a device or emulated.
  bool is_cuda() const { return is_emulated() || GetParam() == "cuda"; }
  /// The spectra to go through: all, or the small ones in the emulation.
  std::vector<NamedMatrix> suite() const {
    return is_emulated() ? small_spectrum_suite() : spectrum_suite();
  }

  std::shared_ptr<Backend> backend_;
};

/// What every conformance suite is instantiated over.
inline auto every_backend() {
  return ::testing::Values("cpu", kEmulatedTiles, "cuda", kEmulatedCuda);
}

MeasureOptions with_mode(SpectrumMode mode, bool escalate = true);

}  // namespace vindex::test
