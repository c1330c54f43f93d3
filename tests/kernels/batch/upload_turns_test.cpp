// How calls of one device share its bus and its lanes: a piece of one call is copied before one of
// the next begins, and lanes are made when they are wanted. On the emulated device.
#include "kernels/decode/upload_turns.hpp"

#include "kernels/cuda_backend.hpp"
#include "kernels/route/self_test_inputs.hpp"
#include "tests/emulated_cuda/passed_trials.hpp"

#include <gtest/gtest.h>

#include <atomic>
#include <emulated/device.hpp>
#include <emulated/handles.hpp>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

namespace vindex::test::upload_turns_test {
namespace {

using namespace kernels;

TEST(UploadTurns, AreTakenInTheOrderOfAsking) {
  UploadTurns turns;
  std::vector<int> served;
  std::vector<std::jthread> threads;
  {
    const UploadTurns::Turn first(turns);
    for (int i = 0; i < 8; ++i) {
      threads.emplace_back([&, i] {
        const UploadTurns::Turn turn(turns);
        served.push_back(i);  // one at a time
      });
      while (turns.waiting() < static_cast<std::uint64_t>(i) + 1) {
        std::this_thread::yield();
      }
    }
    EXPECT_TRUE(served.empty());
  }
  threads.clear();
  EXPECT_EQ(served, (std::vector<int>{0, 1, 2, 3, 4, 5, 6, 7}));
}

TEST(UploadTurns, AnErrorGivesTheTurnBack) {
  UploadTurns turns;
  EXPECT_THROW(
      {
        const UploadTurns::Turn turn(turns);
        throw std::runtime_error("the bytes did not come");
      },
      std::runtime_error);
  const UploadTurns::Turn next(turns);
  EXPECT_EQ(turns.waiting(), 0U);
}

/// Which call asked for bytes, in the order of asking.
struct Log {
  std::mutex mutex;
  std::string calls;
};

/// Calls `asked` before it gives bytes.
class WatchedInput final : public MatrixInput {
 public:
  WatchedInput(std::unique_ptr<MatrixInput> inner, std::function<void()> asked)
      : inner_(std::move(inner)), asked_(std::move(asked)) {}
  const decode::Encoding& encoding() const override { return inner_->encoding(); }
  std::int64_t rows() const override { return inner_->rows(); }
  std::int64_t cols() const override { return inner_->cols(); }
  bool transposed() const override { return false; }
  std::uint64_t sign_flip_key() const override { return 5; }
  bool in_memory() const override { return true; }
  decode::EncodedMatrix row_slab(std::int64_t first, std::int64_t count) override {
    asked_();
    return inner_->row_slab(first, count);
  }
  decode::EncodedMatrix column_slab(std::int64_t first, std::int64_t count) override {
    return inner_->column_slab(first, count);
  }

 private:
  std::unique_ptr<MatrixInput> inner_;
  std::function<void()> asked_;
};

class CudaLanes : public ::testing::Test {
 protected:
  void TearDown() override {
    emulated::set_device_memory(8ULL << 30U);
    emulated::set_blas_handles_left(-1);
  }
};

TEST_F(CudaLanes, AreMadeWhenTheyAreWanted) {
  const KernelTable table;
  CudaBackend backend(0, table);
  EXPECT_EQ(backend.limits().concurrent_calls, 2);
  EXPECT_EQ(backend.made_lanes(), 0);
  backend.prepare({.svd_route = "library"});  // has the fewest self-tests
  EXPECT_EQ(backend.made_lanes(), 1) << "self-tests need one";
  emulated::set_device_memory(64ULL << 30U);
  EXPECT_EQ(CudaBackend(0, table, passed_trials()).limits().concurrent_calls, 3);
}

// Somebody else may have taken the device's memory since it was opened.
TEST_F(CudaLanes, ThatCannotBeMadeAreDoneWithout) {
  const std::vector<float> weights(64 * 32, 0.5F);
  const decode::EncodedMatrix matrix = decode::float32_view(weights.data(), 64, 32);
  const KernelTable table;
  CudaBackend backend(0, table);
  MeasureOptions options;
  options.svd_route = "library";
  backend.prepare(options);
  emulated::set_blas_handles_left(0);
  const std::int32_t refused = emulated::blas_handles_refused();
  std::vector<float> decoded(weights.size());
  std::vector<std::jthread> second;
  WatchedInput input(make_memory_input(matrix), [&] {
    if (second.empty()) {  // while the only lane is in use
      second.emplace_back([&] { EXPECT_NO_THROW(backend.decode(matrix, decoded)); });
    }
    while (emulated::blas_handles_refused() == refused) {
      std::this_thread::yield();
    }
  });
  MatrixInput* const batch[] = {&input};
  std::vector<MatrixReport> out(1);
  backend.measure(batch, options, 0, out);
  second.clear();
  EXPECT_EQ(out[0].status, MatrixStatus::kMeasured) << out[0].reason;
  EXPECT_EQ(decoded, weights);
  EXPECT_EQ(backend.made_lanes(), 1);
  CudaBackend without(0, table, passed_trials());
  EXPECT_THROW(without.decode(matrix, decoded), OutOfMemory);
}

TEST_F(CudaLanes, CopyTheirPiecesOneAfterTheOther) {
  constexpr std::int64_t kRows = 96;
  constexpr std::int64_t kCols = 64;
  constexpr std::size_t kBatch = 4;  // a piece of the emulated device
  emulated::set_device_memory(64ULL << 30U);
  const KernelTable table;
  CudaBackend backend(0, table, passed_trials());
  MeasureOptions options;
  options.svd_route = "two-stage";  // the short side would have a float64 route of its own
  backend.prepare(options);
  std::vector<float> weights(static_cast<std::size_t>(kRows * kCols));
  for (std::size_t i = 0; i < weights.size(); ++i) {
    weights[i] = static_cast<float>(random_unit(5, i));
  }
  Log log;
  std::vector<std::jthread> calls;
  for (char call = 'a'; call < 'd'; ++call) {
    calls.emplace_back([&, call] {
      std::vector<std::unique_ptr<MatrixInput>> inputs;
      std::vector<MatrixInput*> batch;
      for (std::size_t i = 0; i < kBatch; ++i) {
        inputs.push_back(std::make_unique<WatchedInput>(
            make_memory_input(decode::float32_view(weights.data(), kRows, kCols)), [&] {
              const std::lock_guard lock(log.mutex);
              log.calls += call;
            }));
        batch.push_back(inputs.back().get());
      }
      std::vector<MatrixReport> out(kBatch);
      backend.measure(batch, options, 0, out);
      for (const MatrixReport& report : out) {
        EXPECT_EQ(report.status, MatrixStatus::kMeasured) << report.reason;
      }
    });
  }
  calls.clear();
  // The first look of each call, for its shape, is no copy.
  std::string copies;
  std::string seen;
  for (const char call : log.calls) {
    (seen.find(call) == std::string::npos ? seen : copies) += call;
  }
  ASSERT_EQ(copies.size(), 3 * kBatch) << log.calls;
  for (std::size_t i = 0; i < copies.size(); i += kBatch) {
    EXPECT_EQ(copies.substr(i, kBatch), std::string(kBatch, copies[i])) << log.calls;
  }
}

}  // namespace
}  // namespace vindex::test::upload_turns_test
