// The device's products and attention, held to what every back end of forward passes must do
// (forward_cases.hpp): in the emulation, and on a device.
#include "core/process/stop.hpp"
#include "kernels/forward/cuda_forward.hpp"
#include "tests/kernels/kernel_fixture.hpp"
#include "tests/support/forward_cases.hpp"
#include <vindex/error.hpp>

namespace vindex::test::forward_test {
namespace {

using kernels::make_cuda_forward;
using testing::ExactValue;

/// One for all cases: its self-test takes a moment in the emulation.
ForwardBackend& backend() {
  static const auto kBackend = make_cuda_forward(0);
  return *kBackend;
}

/// What the order of threads may reach.
class ForwardKernels : public KernelTest {};
/// What it may not: in one order.
class ForwardCalls : public KernelTest {};

TEST_P(ForwardKernels, EveryEncodingBothWaysRound) {
  testing::expect_products_of_every_encoding(backend());
}

TEST_P(ForwardCalls, ProductsOfAnyShape) {
  testing::visit_products([](const LinearCall& call, const std::vector<ExactValue>& wanted) {
    const std::vector<float> y = testing::product_of(backend(), call);
    testing::expect_near(y, wanted, testing::kProductRounding);
    EXPECT_EQ(testing::product_of(backend(), call), y) << "the same bits in every run";
  });
}

TEST_P(ForwardCalls, ProductsTouchNothingBetweenTheirRows) {
  testing::expect_nothing_between_rows(backend());
}

TEST_P(ForwardCalls, StreamedWeightsComeInBoundedSlabs) {
  testing::expect_bounded_slabs(backend());
}

TEST_P(ForwardCalls, AWeightThatIsNotFiniteSpoilsItsOutputsAlone) {
  testing::expect_spoiled_outputs_alone(backend());
}

TEST_P(ForwardKernels, AttentionOfAnyShape) {
  testing::visit_attentions(
      [](const AttentionCall& call, const std::vector<ExactValue>& wanted, double allowed) {
        if (is_emulated() && GetParam() != 0 && call.tokens > 320) {
          return;  // as many tiles as matter, in a second of one order
        }
        const std::vector<float> out = testing::attention_of(backend(), call);
        testing::expect_near(out, wanted, allowed);
        EXPECT_EQ(testing::attention_of(backend(), call), out) << "the same bits in every run";
      });
}

TEST_P(ForwardCalls, LittleMemoryTakesMoreTilesAndGivesTheSame) {
  constexpr std::uint64_t kMemory = 1U << 20U;
  const auto small = make_cuda_forward(0, {}, kMemory);
  std::mt19937 random(17);
  constexpr std::int64_t kRows = 700;
  constexpr std::int64_t kCols = 300;
  constexpr std::int64_t kTokens = 400;
  const std::vector<float> values = testing::random_floats(kRows * kCols, random);
  const std::vector<float> x = testing::random_floats(kTokens * kCols, random);
  for (const bool transposed : {false, true}) {
    const auto view =
        decode::float32_view(values.data(), transposed ? kCols : kRows, transposed ? kRows : kCols);
    testing::StreamedWeight streamed(view, transposed);
    const auto weight = make_memory_input(view, transposed);
    LinearCall call{.x = x.data(),
                    .tokens = kTokens,
                    .x_stride = kCols,
                    .weight = weight.get(),
                    .count = kRows};
    const std::vector<ExactValue> wanted = testing::exact_linear(call);
    testing::expect_near(testing::product_of(*small, call), wanted, testing::kProductRounding);
    call.weight = &streamed;
    testing::expect_near(testing::product_of(*small, call), wanted, testing::kProductRounding);
    EXPECT_LT(streamed.read(), (values.size() + kRows + kCols) * sizeof(float))
        << "each weight once, though tokens take turns";
  }
  const std::vector<float> q = testing::random_floats(200 * 6 * 40, random);
  const std::vector<float> k = testing::random_floats(200 * 3 * 40, random);
  const AttentionCall call{.q = q.data(),
                           .k = k.data(),
                           .v = k.data(),
                           .tokens = 200,
                           .heads = 6,
                           .kv_heads = 3,
                           .head_dim = 40,
                           .value_dim = 40,
                           .scale = 0.2};
  EXPECT_EQ(testing::attention_of(*make_cuda_forward(0, {}, 300U << 10U), call),
            testing::attention_of(backend(), call))
      << "heads and queries do not know of each other";
}

TEST_P(ForwardCalls, AStopEndsACallBeforeItBegins) {
  const std::vector<float> values(64, 1.0F);
  const auto weight = make_memory_input(decode::float32_view(values.data(), 8, 8));
  std::vector<float> y(64, 7.0F);
  std::stop_source source;
  source.request_stop();
  EXPECT_THROW(backend().linear({.x = values.data(),
                                 .tokens = 8,
                                 .x_stride = 8,
                                 .weight = weight.get(),
                                 .count = 8,
                                 .y = y.data(),
                                 .y_stride = 8},
                                source.get_token()),
               Stopped);
  EXPECT_THROW(backend().attention({.q = values.data(),
                                    .k = values.data(),
                                    .v = values.data(),
                                    .out = y.data(),
                                    .tokens = 8,
                                    .heads = 1,
                                    .kv_heads = 1,
                                    .head_dim = 8,
                                    .value_dim = 8},
                                   source.get_token()),
               Stopped);
  EXPECT_EQ(y, std::vector<float>(64, 7.0F));
}

TEST_P(ForwardCalls, CallsThatNameWhatIsNotThereAreRefused) {
  const std::vector<float> values(64, 1.0F);
  const auto weight = make_memory_input(decode::float32_view(values.data(), 8, 8));
  std::vector<float> y(64);
  LinearCall call{.x = values.data(),
                  .tokens = 1,
                  .x_stride = 8,
                  .weight = weight.get(),
                  .first = 1,
                  .step = 7,
                  .count = 2,
                  .y = y.data(),
                  .y_stride = 8};
  EXPECT_THROW(backend().linear(call, {}), Error);
  call.step = std::numeric_limits<std::int64_t>::max();
  EXPECT_THROW(backend().linear(call, {}), Error);
  call.first = 8;
  call.count = 1;
  EXPECT_THROW(backend().linear(call, {}), Error);
  call.first = 7;
  backend().linear(call, {});
  EXPECT_EQ(y[0], 8.0F);
  EXPECT_THROW(backend().attention({.out = y.data(), .tokens = 1, .heads = 3, .kv_heads = 2}, {}),
               Error);
}

TEST_P(ForwardCalls, SaysWhatItIsAndWhatWasTried) {
  const BackendInfo info = backend().info();
  EXPECT_EQ(info.name, "cuda");
  EXPECT_FALSE(info.device.empty());
  EXPECT_EQ(info.libraries.size(), 3U);
  EXPECT_EQ(info.self_tests.size(), 3U);
  for (const SelfTestInfo& test : info.self_tests) {
    EXPECT_TRUE(test.passed) << test.name << ": " << test.detail;
  }
  EXPECT_EQ(backend().make_staging(1000)->bytes().size(), 1000U);
}

INSTANTIATE_THREAD_ORDERS(ForwardKernels);
INSTANTIATE_TEST_SUITE_P(Orders, ForwardCalls, ::testing::Values(0ULL));

/// A back end with one kernel that is wrong: what it says when it is made.
std::string refusal_of(const kernels::ForwardKernels& wrong) {
  try {
    (void)make_cuda_forward(0, wrong);
  } catch (const DeviceError& error) {
    return error.what();
  }
  return "taken";
}

TEST(ForwardSelfTest, AWrongKernelIsFoundAndNamed) {
  if (!is_emulated()) {
    GTEST_SKIP() << "what the trial finds does not depend on the device";
  }
  kernels::ForwardKernels wrong;
  wrong.attention = [](const kernels::AttentionRun& run, cudaStream_t stream) {
    kernels::AttentionRun other = run;
    other.window = run.window + 1;
    kernels::attend(other, stream);
  };
  EXPECT_NE(refusal_of(wrong).find("attention: error"), std::string::npos) << refusal_of(wrong);
  EXPECT_NE(refusal_of(wrong).find("--backend cpu"), std::string::npos);
  wrong = {};
  wrong.bias = [](const float* /*bias*/, std::int64_t /*rows*/, std::int64_t /*count*/,
                  float* /*y*/, cudaStream_t /*stream*/) {};
  EXPECT_NE(refusal_of(wrong).find("rows beside products: error"), std::string::npos);
  wrong = {};
  wrong.gather = [](const float* from, std::int64_t rows, std::int64_t stride, std::int64_t step,
                    std::int64_t count, float* out, cudaStream_t stream) {
    kernels::gather_columns(from + 1, rows, stride, step, count, out, stream);
  };
  EXPECT_NE(refusal_of(wrong).find("rows beside products: error"), std::string::npos);
  EXPECT_EQ(refusal_of({}), "taken");
}

}  // namespace
}  // namespace vindex::test::forward_test
