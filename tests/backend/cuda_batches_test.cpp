// What only a back end with a device has: batches of every size, memory that ends, streams whose
// work comes late, host bytes given back early. On the emulated device.
#include "backend_fixture.hpp"

#include "decode/encode/encode.hpp"
#include "tests/emulated_cuda/emulated_backend.hpp"
#include "tests/support/encoded_weights.hpp"
#include <vindex/error.hpp>

#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <emulated/device.hpp>

namespace vindex::test::cuda_batches_test {
namespace {

/// A matrix in one of the encodings of checkpoints, with its bytes.
struct Stored : testing::EncodedWeights {
  Stored(const FloatMatrix& matrix, const decode::Encoding& of)
      : EncodedWeights(testing::encoded_weights(of, matrix.rows, matrix.cols, matrix.values)),
        view(EncodedWeights::view()) {}
  Stored(const Stored&) = delete;
  Stored& operator=(const Stored&) = delete;
  FloatMatrix decoded() const { return {rows, cols, weights()}; }
  decode::EncodedMatrix view;
};

/// Bytes that are overwritten as soon as they are released, and counted while they are held.
class WatchedInput final : public MatrixInput {
 public:
  WatchedInput(const decode::EncodedMatrix& matrix, int& held, int& most, bool in_memory)
      : matrix_(matrix),
        bytes_(matrix.codes, matrix.codes + matrix.rows * matrix.row_stride_bytes),
        held_(held),
        most_(most),
        in_memory_(in_memory) {
    matrix_.codes = bytes_.data();
  }
  const decode::Encoding& encoding() const override { return *matrix_.encoding; }
  std::int64_t rows() const override { return matrix_.rows; }
  std::int64_t cols() const override { return matrix_.cols; }
  bool transposed() const override { return false; }
  std::uint64_t sign_flip_key() const override { return 5; }
  bool in_memory() const override { return in_memory_; }
  decode::EncodedMatrix row_slab(std::int64_t first, std::int64_t count) override {
    EXPECT_FALSE(released_) << "asked for after release()";
    if (!asked_) {
      asked_ = true;
      most_ = std::max(most_, ++held_);
    }
    decode::EncodedMatrix slab = decode::row_slab(matrix_, first, count);
    if (!in_memory_) {  // the one slab there is
      std::fill(slab_.begin(), slab_.end(), std::byte{0xFF});
      slab_.assign(slab.codes, slab.codes + slab.rows * slab.row_stride_bytes);
      largest_slab_ = std::max(largest_slab_, slab_.size());
      slab.codes = slab_.data();
    }
    return slab;
  }
  decode::EncodedMatrix column_slab(std::int64_t first, std::int64_t count) override {
    return decode::column_slab(matrix_, first, count);
  }
  void release() override {
    EXPECT_FALSE(released_) << "released twice";
    released_ = true;
    --held_;
    std::fill(bytes_.begin(), bytes_.end(), std::byte{0xFF});
  }
  bool released() const { return released_; }
  std::size_t largest_slab() const { return largest_slab_; }

 private:
  decode::EncodedMatrix matrix_;
  std::vector<std::byte> bytes_, slab_;
  std::size_t largest_slab_ = 0;
  int& held_;
  int& most_;
  bool in_memory_, asked_ = false, released_ = false;
};

class CudaBatches : public ::testing::Test {
 protected:
  void TearDown() override {
    emulated::set_ordering(emulated::Ordering::kAtOnce);
    emulated::set_schedule_seed(0);
    emulated::set_compute_capability(9, 0);
    emulated::set_device_memory(8ULL << 30U);
  }
  static Backend& backend() { return *emulated_cuda_backend(); }
  static std::vector<MatrixReport> measure(Backend& device,
                                           const std::vector<const Stored*>& matrices,
                                           const MeasureOptions& options) {
    std::vector<std::unique_ptr<MatrixInput>> inputs;
    std::vector<MatrixInput*> batch;
    for (const Stored* one : matrices) {
      inputs.push_back(make_memory_input(one->view, false, 5));
      batch.push_back(inputs.back().get());
    }
    std::vector<MatrixReport> out(batch.size());
    device.measure(batch, options, 0, out);
    return out;
  }
};

std::vector<std::unique_ptr<Stored>> some_matrices(int count, std::int64_t rows,
                                                   std::int64_t cols) {
  std::vector<std::unique_ptr<Stored>> out;
  for (int i = 0; i < count; ++i) {
    const auto seed = static_cast<std::uint64_t>(100 + i);
    out.push_back(std::make_unique<Stored>(
        i % 3 == 2 ? matrix_with_spectrum(rows, cols,
                                          dlatm1_values(3, 1e3, std::min(rows, cols), seed), seed)
                   : gaussian_matrix(rows, cols, seed),
        decode::plain_encoding(decode::ElementType::kBF16)));
  }
  return out;
}

TEST_F(CudaBatches, TheSameBitsForEveryBatchSizeAndThreadOrder) {
  const auto matrices = some_matrices(37, 50, 20);
  std::vector<const Stored*> all;
  for (const auto& one : matrices) {
    all.push_back(one.get());
  }
  const MeasureOptions options = {.svd_route = "two-stage", .sign_flip_draws = 1};
  const auto together = measure(backend(), all, options);
  EXPECT_TRUE(std::any_of(together.begin(), together.end(),
                          [](const MatrixReport& report) { return report.escalated; }));
  EXPECT_FALSE(together[0].escalated);
  emulated::set_schedule_seed(77);
  for (const std::size_t i : {0UL, 2UL, 32UL, 36UL}) {
    const auto alone = measure(backend(), {all[i]}, options);
    EXPECT_EQ(alone[0].sigma, together[i].sigma) << i;
    EXPECT_EQ(alone[0].sign_flip->first_sigma, together[i].sign_flip->first_sigma) << i;
    EXPECT_EQ(alone[0].sign_flip->draws[0].var_at_k, together[i].sign_flip->draws[0].var_at_k) << i;
    EXPECT_EQ(alone[0].method, together[i].method);
    EXPECT_EQ(alone[0].moments.sum_squares, together[i].moments.sum_squares);
  }
}

TEST_F(CudaBatches, EncodedMatricesOfBothOrientationsAndOddSizes) {
  using decode::ElementType;
  double worst = 0.0;
  for (const auto& [rows, cols] :
       {std::pair{160, 64}, {64, 160}, {131, 96}, {33, 64}, {1, 64}, {2, 32}, {31, 96}}) {
    for (const decode::Encoding& encoding :
         {decode::fp8_block_encoding(128, 128), decode::packed_int_encoding(4, 32),
          decode::plain_encoding(ElementType::kQ8_0), decode::plain_encoding(ElementType::kF16),
          decode::plain_encoding(ElementType::kF32)}) {
      SCOPED_TRACE(encoding.label + " " + std::to_string(rows) + " x " + std::to_string(cols));
      const Stored stored(gaussian_matrix(rows, cols, 3, 0.02), encoding);
      const auto reference = reference_singular_values(stored.decoded());
      for (const SpectrumMode mode : {SpectrumMode::kDefault, SpectrumMode::kStrict}) {
        const auto report = measure(backend(), {&stored}, with_mode(mode))[0];
        ASSERT_EQ(report.status, MatrixStatus::kMeasured) << report.reason;
        ASSERT_EQ(report.sigma.size(), reference.size());
        const double tolerance = mode == SpectrumMode::kStrict || report.escalated
                                     ? 50.0 * static_cast<double>(reference.size()) * 0x1p-52
                                     : 2e-6;
        for (std::size_t i = 0; i < reference.size(); ++i) {
          const double error = std::abs(report.sigma[i] - reference[i]) / reference[0];
          EXPECT_LE(error, tolerance) << report.method << " value " << i;
          worst = std::max(worst, error / tolerance);
        }
      }
    }
  }
  std::printf("encoded matrices: %.3f of the allowed error\n", worst);
}

/// A device whose float64 is slow gets its Gram matrices by int8 products.
TEST_F(CudaBatches, StrictKeepsItsPromiseWhereFloat64IsSlow) {
  emulated::set_compute_capability(8, 9);
  const auto device = make_emulated_cuda_backend();
  emulated::set_compute_capability(9, 0);
  double worst = 0.0;
  for (const auto& [rows, cols] : {std::pair{160, 64}, {48, 150}, {64, 64}}) {
    for (const decode::Encoding& encoding : {decode::fp8_block_encoding(128, 128),
                                             decode::plain_encoding(decode::ElementType::kF32)}) {
      const FloatMatrix graded =
          matrix_with_spectrum(rows, cols, dlatm1_values(3, 300.0, std::min(rows, cols), 9), 9);
      const Stored stored(graded, encoding);
      const auto reference = reference_singular_values(stored.decoded());
      const auto report = measure(*device, {&stored}, with_mode(SpectrumMode::kStrict))[0];
      ASSERT_EQ(report.status, MatrixStatus::kMeasured) << report.reason;
      for (std::size_t i = 0; i < reference.size(); ++i) {
        const double error = std::abs(report.sigma[i] - reference[i]) / reference[0];
        worst = std::max(worst, error / (50.0 * static_cast<double>(reference.size()) * 0x1p-52));
      }
    }
  }
  const auto tests = device->info().self_tests;
  EXPECT_TRUE(std::any_of(tests.begin(), tests.end(), [](const auto& test) {
    return test.name == "gram in float64 by int8 products" && test.passed;
  }));
  EXPECT_LE(worst, 1.0);
}

TEST_F(CudaBatches, LateStreamsChangeNothing) {
  const auto matrices = some_matrices(5, 40, 90);
  std::vector<const Stored*> all;
  for (const auto& one : matrices) {
    all.push_back(one.get());
  }
  MeasureOptions options;
  for (const SpectrumMode mode :
       {SpectrumMode::kDefault, SpectrumMode::kStrict, SpectrumMode::kFast}) {
    options.mode = mode;
    emulated::set_ordering(emulated::Ordering::kAtOnce);
    const auto at_once = measure(backend(), all, options);
    emulated::set_ordering(emulated::Ordering::kLate);
    const auto late = measure(backend(), all, options);
    for (std::size_t i = 0; i < all.size(); ++i) {
      EXPECT_EQ(at_once[i].sigma, late[i].sigma);
      EXPECT_EQ(at_once[i].check_trace, late[i].check_trace);
    }
  }
}

TEST_F(CudaBatches, HostBytesAreReleasedOnceAndFewAreHeld) {
  const auto matrices = some_matrices(18, 50, 20);
  for (const bool in_memory : {true, false}) {
    for (const emulated::Ordering ordering :
         {emulated::Ordering::kAtOnce, emulated::Ordering::kLate}) {
      emulated::set_ordering(ordering);
      for (const SpectrumMode mode : {SpectrumMode::kDefault, SpectrumMode::kStrict}) {
        int held = 0;
        int most = 0;
        std::vector<std::unique_ptr<WatchedInput>> inputs;
        std::vector<MatrixInput*> batch;
        for (const auto& one : matrices) {
          inputs.push_back(std::make_unique<WatchedInput>(one->view, held, most, in_memory));
          batch.push_back(inputs.back().get());
        }
        std::vector<MatrixReport> out(batch.size());
        backend().measure(batch, with_mode(mode), 0, out);
        EXPECT_EQ(held, 0);
        EXPECT_LE(most, backend().limits().held_inputs);
        std::vector<MatrixReport> alone = measure(backend(), {matrices[2].get()}, with_mode(mode));
        EXPECT_EQ(out[2].sigma, alone[0].sigma) << "measured from bytes that were given back";
      }
    }
  }
}

TEST_F(CudaBatches, AWorkspaceLimitMakesSlabsSmallerAndChangesNoBit) {
  const Stored stored(gaussian_matrix(6000, 400, 4),
                      decode::plain_encoding(decode::ElementType::kF32));
  const auto bytes = [&](InputBytes input) {
    return backend().workspace_bytes(stored.encoding, 6000, 400, {}, input);
  };
  EXPECT_LT(bytes(InputBytes::kHeld), bytes(InputBytes::kStreamedLeast));
  EXPECT_LT(bytes(InputBytes::kStreamedLeast), bytes(InputBytes::kStreamed));
  MeasureOptions options = with_mode(SpectrumMode::kStrict);
  options.svd_route = "library";  // the emulation of our kernels is slow
  const auto whole = measure(backend(), {&stored}, options)[0];
  for (const std::uint64_t limit :
       {std::uint64_t{0}, bytes(InputBytes::kStreamed), bytes(InputBytes::kStreamedLeast)}) {
    int held = 0;
    int most = 0;
    WatchedInput input(stored.view, held, most, false);
    MatrixInput* const batch[] = {&input};
    std::vector<MatrixReport> out(1);
    backend().measure(batch, options, limit, out);
    EXPECT_EQ(out[0].sigma, whole.sigma);
    if (limit == bytes(InputBytes::kStreamedLeast)) {
      EXPECT_LE(input.largest_slab(), (limit - bytes(InputBytes::kHeld)) / 2);
    }
    WatchedInput scarce(stored.view, held, most, false);
    MatrixInput* const again[] = {&scarce};
    EXPECT_THROW(backend().measure(again, options, bytes(InputBytes::kStreamedLeast) - 1, out),
                 OutOfMemory);
  }
}

TEST_F(CudaBatches, DeviceMemoryIsBoundedAsPlanned) {
  const auto matrices = some_matrices(10, 300, 33);
  std::vector<const Stored*> all;
  for (const auto& one : matrices) {
    all.push_back(one.get());
  }
  for (const SpectrumMode mode : {SpectrumMode::kDefault, SpectrumMode::kStrict}) {
    const auto device = make_emulated_cuda_backend(SelfTests::kTakenAsPassed);
    const MeasureOptions options = with_mode(mode);
    device->prepare(options);
    const std::size_t before = emulated::device_bytes_in_use();
    (void)emulated::take_peak_device_bytes();
    const auto whole = measure(*device, all, options);
    const std::size_t taken = emulated::take_peak_device_bytes() - before;
    EXPECT_LE(taken, device->device_workspace_bytes(matrices[0]->encoding, 300, 33, options, 10));
    EXPECT_GE(taken, 10U * 300 * 33 * 2) << "the encoded weights alone";
  }
}

TEST_F(CudaBatches, LittleDeviceMemoryMeansSmallerBatchesWithTheSameBits) {
  const auto matrices = some_matrices(10, 300, 33);
  std::vector<const Stored*> all;
  for (const auto& one : matrices) {
    all.push_back(one.get());
  }
  const MeasureOptions options;
  const auto whole = measure(backend(), all, options);
  const auto device = make_emulated_cuda_backend(SelfTests::kTakenAsPassed);
  device->prepare(options);
  // Somebody else takes most of what was free when the back end was made.
  const std::size_t room =
      device->device_workspace_bytes(matrices[0]->encoding, 300, 33, options, 3);
  emulated::set_device_memory(emulated::device_bytes_in_use() + room);
  const auto pieces = measure(*device, all, options);
  for (std::size_t i = 0; i < all.size(); ++i) {
    EXPECT_EQ(pieces[i].sigma, whole[i].sigma);
  }
  const auto starved = make_emulated_cuda_backend(SelfTests::kTakenAsPassed);
  emulated::set_device_memory(emulated::device_bytes_in_use() + 1000);
  EXPECT_THROW(measure(*starved, all, with_mode(SpectrumMode::kStrict)), OutOfMemory);
}

TEST_F(CudaBatches, EveryRouteMeasuresAndSaysItsName) {
  const auto matrices = some_matrices(2, 100, 40);
  const auto reference = reference_singular_values(matrices[0]->decoded());
  MeasureOptions options;
  for (const auto& [route, method] : {std::pair{"library", "gram64+trd64+cuda"},
                                      {"qr", "qr+bidiag64+cuda"},
                                      {"two-stage", "gram32+band32+cuda"},
                                      {"two-stage+band-plain+gram-mma", "gram32+band32+cuda"},
                                      {"two-stage+band-tensor+gram-wgmma", "gram32+band32+cuda"}}) {
    options.svd_route = route;
    const auto report = measure(backend(), {matrices[0].get(), matrices[1].get()}, options)[0];
    EXPECT_EQ(report.method, method);
    for (std::size_t i = 0; i < reference.size(); ++i) {
      EXPECT_NEAR(report.sigma[i], reference[i], 1e-6 * reference[0]) << route;
    }
    EXPECT_LT(report.check_trace, 3e-6);
    EXPECT_LT(report.check_gram, 3e-6);
  }
}

TEST_F(CudaBatches, OneBadMatrixDoesNoHarmToItsBatch) {
  const auto matrices = some_matrices(3, 60, 40);
  FloatMatrix bad = gaussian_matrix(60, 40, 9);
  bad.at(5, 5) = std::numeric_limits<float>::infinity();
  const Stored broken(bad, decode::plain_encoding(decode::ElementType::kBF16));
  const Stored zero(FloatMatrix{60, 40, std::vector<float>(2400, 0.0F)},
                    decode::plain_encoding(decode::ElementType::kBF16));
  for (const char* route : {"two-stage", "library"}) {
    for (const SpectrumMode mode : {SpectrumMode::kDefault, SpectrumMode::kStrict}) {
      MeasureOptions options = with_mode(mode);
      options.svd_route = route;
      const auto out =
          measure(backend(), {matrices[0].get(), &broken, &zero, matrices[1].get()}, options);
      EXPECT_EQ(out[1].status, MatrixStatus::kNotFinite);
      EXPECT_EQ(out[2].reason, "zero matrix");
      const auto alone = measure(backend(), {matrices[1].get()}, options);
      EXPECT_EQ(out[3].sigma, alone[0].sigma);
      EXPECT_EQ(out[0].status, MatrixStatus::kMeasured);
    }
  }
}

}  // namespace
}  // namespace vindex::test::cuda_batches_test
