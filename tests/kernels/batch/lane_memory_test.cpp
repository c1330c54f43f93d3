// A lane keeps within its share of the device, whatever shapes it measured before.
#include "decode/encoding/encoded_matrix.hpp"
#include "kernels/cuda_backend.hpp"
#include "kernels/route/self_test_inputs.hpp"
#include "tests/emulated_cuda/passed_trials.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <emulated/device.hpp>
#include <memory>

namespace vindex::test::lane_memory_test {
namespace {

using namespace kernels;

/// A batch of one shape, of weights without pattern.
struct Shape {
  std::int64_t rows, cols;
  std::size_t count;
  std::int32_t vectors;

  MeasureOptions options() const {
    MeasureOptions wanted;
    wanted.vectors = vectors;
    return wanted;
  }
  std::uint64_t bytes(const CudaBackend& backend) const {
    const float weight = 0.0F;
    const decode::EncodedMatrix one = decode::float32_view(&weight, 1, 1);
    return backend.device_workspace_bytes(*one.encoding, rows, cols, options(),
                                          static_cast<std::int64_t>(count));
  }
  void measure_by(CudaBackend& backend) const {
    std::vector<float> weights(static_cast<std::size_t>(rows * cols));
    for (std::size_t i = 0; i < weights.size(); ++i) {
      weights[i] = static_cast<float>(random_unit(5, i));
    }
    std::vector<std::unique_ptr<MatrixInput>> inputs;
    std::vector<MatrixInput*> batch;
    for (std::size_t i = 0; i < count; ++i) {
      inputs.push_back(make_memory_input(decode::float32_view(weights.data(), rows, cols)));
      batch.push_back(inputs.back().get());
    }
    std::vector<MatrixReport> out(count);
    backend.measure(batch, options(), 0, out);
    for (const MatrixReport& report : out) {
      EXPECT_EQ(report.sigma.size(), static_cast<std::size_t>(std::min(rows, cols)));
    }
  }
};

TEST(LaneMemory, ShapesThatTakeTurnsKeepWithinTheShareOfOne) {
  constexpr Shape kShapes[] = {
      {160, 128, 6, 0}, {64, 6000, 3, 0}, {64, 80, 8, 3}, {128, 130, 1, 2}};
  const KernelTable table;
  std::uint64_t most = 0;
  {
    CudaBackend plenty(0, table, passed_trials());
    plenty.prepare({});  // routes, and so sizes, go by the verdicts
    for (const Shape& shape : kShapes) {
      most = std::max(most, shape.bytes(plenty));
    }
  }
  // A lane's share is three eighths of what is free at the start.
  emulated::set_device_memory(emulated::device_bytes_in_use() + most / 3 * 8 + 4096);
  {
    CudaBackend backend(0, table, passed_trials());
    backend.prepare({});
    const std::size_t before = emulated::device_bytes_in_use();
    (void)emulated::take_peak_device_bytes();
    for (int round = 0; round < 2; ++round) {
      for (const Shape& shape : kShapes) {
        shape.measure_by(backend);
        EXPECT_LE(emulated::take_peak_device_bytes() - before, most + 4096)
            << shape.rows << " x " << shape.cols << ", round " << round;
      }
    }
  }
  emulated::set_device_memory(8ULL << 30U);
}

}  // namespace
}  // namespace vindex::test::lane_memory_test
