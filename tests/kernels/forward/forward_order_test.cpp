// Forward passes on an emulated device that does what it is told as late as it may, has little
// memory, or breaks: what no test on a sound device shows.
#include "kernels/device/launch.hpp"
#include "kernels/forward/cuda_forward.hpp"
#include "tests/support/forward_cases.hpp"
#include <vindex/error.hpp>

#include <emulated/device.hpp>
#include <emulated/execution.hpp>

/// What the loader looks up in the module.
extern "C" vindex::ForwardBackend* vindex_make_cuda_forward(std::int32_t device, std::string* why);

namespace vindex::test::forward_order_test {
namespace {

using kernels::make_cuda_forward;

__global__ void faulty_kernel() { emulated::fault("a fault"); }

class ForwardOrder : public ::testing::Test {
 protected:
  void TearDown() override {
    emulated::set_ordering(emulated::Ordering::kAtOnce);
    emulated::set_sticky_errors(false);
    emulated::set_device_memory(std::size_t{8} << 30U);
  }
};

constexpr std::int64_t kRows = 700;
constexpr std::int64_t kCols = 300;
constexpr std::int64_t kTokens = 90;
constexpr std::uint64_t kMemory = 400U << 10U;

struct Product {
  std::mt19937 random{21};
  std::vector<float> values = testing::random_floats(kRows * kCols, random);
  std::vector<float> x = testing::random_floats(kTokens * kCols, random);
  std::vector<float> bias = testing::random_floats(kRows, random);
  LinearCall call{
      .x = x.data(), .tokens = kTokens, .x_stride = kCols, .count = kRows / 2, .bias = bias.data()};
};

TEST_F(ForwardOrder, WorkDoneAsLateAsItMayGivesTheSameBits) {
  Product product;
  const auto backend = make_cuda_forward(0, {}, kMemory);
  for (const bool transposed : {false, true}) {
    for (const std::int64_t step : {1, 2}) {
      const auto view = decode::float32_view(product.values.data(), transposed ? kCols : kRows,
                                             transposed ? kRows : kCols);
      const auto held = make_memory_input(view, transposed);
      testing::StreamedWeight streamed(view, transposed);
      for (MatrixInput* const weight : {held.get(), static_cast<MatrixInput*>(&streamed)}) {
        LinearCall call = product.call;
        call.weight = weight;
        call.step = step;
        emulated::set_ordering(emulated::Ordering::kAtOnce);
        const std::vector<float> wanted = testing::product_of(*backend, call);
        emulated::set_ordering(emulated::Ordering::kLate);
        EXPECT_EQ(testing::product_of(*backend, call), wanted);
      }
    }
  }
  const AttentionCall attention{.q = product.x.data(),
                                .k = product.x.data(),
                                .v = product.x.data(),
                                .tokens = kTokens,
                                .heads = 6,
                                .kv_heads = 3,
                                .head_dim = 20,
                                .value_dim = 20,
                                .scale = 0.3,
                                .sinks = product.bias.data()};
  const auto small = make_cuda_forward(0, {}, 40U << 10U);
  emulated::set_ordering(emulated::Ordering::kAtOnce);
  const std::vector<float> wanted = testing::attention_of(*small, attention);
  emulated::set_ordering(emulated::Ordering::kLate);
  EXPECT_EQ(testing::attention_of(*small, attention), wanted);
}

TEST_F(ForwardOrder, MemoryThatSomebodyElseTookIsDoneWithout) {
  Product product;
  const auto weight = make_memory_input(decode::float32_view(product.values.data(), kRows, kCols));
  product.call.weight = weight.get();
  const auto backend = make_cuda_forward(0);
  (void)emulated::take_peak_device_bytes();
  emulated::set_device_memory(emulated::device_bytes_in_use() + kMemory);
  testing::expect_near(testing::product_of(*backend, product.call),
                       testing::exact_linear(product.call), testing::kProductRounding);
  EXPECT_LE(emulated::take_peak_device_bytes(), emulated::device_bytes_in_use() + kMemory);
}

TEST_F(ForwardOrder, TooLittleMemoryIsOutOfMemory) {
  Product product;
  const auto weight = make_memory_input(decode::float32_view(product.values.data(), kRows, kCols));
  product.call.weight = weight.get();
  const auto backend = make_cuda_forward(0, {}, 4U << 10U);
  EXPECT_THROW((void)testing::product_of(*backend, product.call), OutOfMemory);
  EXPECT_THROW((void)testing::attention_of(*backend, {.q = product.x.data(),
                                                      .k = product.x.data(),
                                                      .v = product.x.data(),
                                                      .tokens = kTokens,
                                                      .heads = 1,
                                                      .kv_heads = 1,
                                                      .head_dim = 64,
                                                      .value_dim = 64}),
               OutOfMemory);
}

TEST_F(ForwardOrder, TheModuleGivesADeviceThatIsThereAndAReasonForOneThatIsNot) {
  std::string why;
  const std::unique_ptr<ForwardBackend> found(vindex_make_cuda_forward(0, &why));
  ASSERT_NE(found, nullptr) << why;
  EXPECT_EQ(found->info().name, "cuda");
  EXPECT_EQ(vindex_make_cuda_forward(4711, &why), nullptr);
  EXPECT_NE(why.find("4711"), std::string::npos) << why;
}

TEST_F(ForwardOrder, AKernelThatFaultsIsADeviceErrorThatNamesIt) {
  emulated::set_sticky_errors(true);
  kernels::ForwardKernels faulty;
  faulty.bias = [](const float* /*bias*/, std::int64_t /*rows*/, std::int64_t /*count*/,
                   float* /*y*/, cudaStream_t stream) {
    kernels::launch(faulty_kernel, dim3(1), dim3(1), 0, stream);
  };
  try {
    (void)make_cuda_forward(0, faulty);
    ADD_FAILURE() << "it was taken";
  } catch (const DeviceError& error) {
    EXPECT_NE(std::string(error.what()).find("rows beside products"), std::string::npos)
        << error.what();
  }
}

}  // namespace
}  // namespace vindex::test::forward_order_test
