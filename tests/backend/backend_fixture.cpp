// Owns opening the back end of a parameter, or skipping with its reason.
#include "backend_fixture.hpp"

#include "cpu/cpu_backend.hpp"
#include "decode/encoding/encoded_matrix.hpp"
#include "kernels/cuda_factory.hpp"
#include "tests/emulated_cuda/emulated_backend.hpp"
#include "tests/support/emulated_tiles.hpp"

#include <cstdlib>

namespace vindex::test {

decode::EncodedMatrix as_encoded(const FloatMatrix& matrix) {
  return decode::float32_view(matrix.values.data(), matrix.rows, matrix.cols);
}

void BackendTest::SetUp() {
  if (GetParam() == "cpu") {
    backend_ = cpu::make_cpu_backend(1);
    return;
  }
  if (GetParam() == kEmulatedTiles) {
    backend_ = cpu::make_cpu_backend_on(emulated_tile_product(), "emulated tiles", 1);
    return;
  }
  if (GetParam() == kEmulatedCuda) {
    backend_ = emulated_cuda_backend();
    return;
  }
  std::string why;
  backend_ = kernels::make_cuda_backend(0, why);
  if (backend_ == nullptr) {
    const char* const required = std::getenv("VINDEX_REQUIRE");
    if (required != nullptr && std::string(required) == "cuda") {
      FAIL() << "VINDEX_REQUIRE=cuda, but: " << why;
    }
    GTEST_SKIP() << why;
  }
}

MatrixReport BackendTest::measure_floats(const FloatMatrix& matrix, const MeasureOptions& options,
                                         std::uint64_t workspace_limit, bool transposed,
                                         std::uint64_t key) {
  const auto input = make_memory_input(as_encoded(matrix), transposed, key);
  MatrixInput* const batch[] = {input.get()};
  std::vector<MatrixReport> out(1);
  backend_->measure(batch, options, workspace_limit, out);
  return out[0];
}

MeasureOptions with_mode(SpectrumMode mode, bool escalate) {
  MeasureOptions options;
  options.mode = mode;
  options.escalate = escalate;
  return options;
}

}  // namespace vindex::test
