// The host's products and attention, for any number of threads, held to what every back end of
// forward passes must do (forward_cases.hpp).
#include "cpu/forward/cpu_forward.hpp"
#include "tests/support/forward_cases.hpp"

#include <gtest/gtest.h>

namespace vindex::cpu::forward_test {
namespace {

using measure::AttentionCall;
using measure::LinearCall;
using testing::ExactValue;

TEST(CpuForward, EveryEncodingBothWaysRound) {
  testing::expect_products_of_every_encoding(*make_cpu_forward(2));
}

TEST(CpuForward, ProductsOfAnyShape) {
  testing::visit_products([](const LinearCall& call, const std::vector<ExactValue>& wanted) {
    const std::vector<float> y = testing::product_of(*make_cpu_forward(1), call);
    testing::expect_near(y, wanted, testing::kProductRounding);
    EXPECT_EQ(testing::product_of(*make_cpu_forward(2), call), y);
    EXPECT_EQ(testing::product_of(*make_cpu_forward(3), call), y);
  });
}

TEST(CpuForward, ProductsTouchNothingBetweenTheirRows) {
  testing::expect_nothing_between_rows(*make_cpu_forward(2));
}

TEST(CpuForward, StreamedWeightsComeInBoundedSlabs) {
  testing::expect_bounded_slabs(*make_cpu_forward(2));
}

TEST(CpuForward, AWeightThatIsNotFiniteSpoilsItsOutputsAlone) {
  testing::expect_spoiled_outputs_alone(*make_cpu_forward(1));
}

TEST(CpuForward, AttentionOfAnyShape) {
  testing::visit_attentions(
      [](const AttentionCall& call, const std::vector<ExactValue>& wanted, double allowed) {
        const std::vector<float> out = testing::attention_of(*make_cpu_forward(1), call);
        testing::expect_near(out, wanted, allowed);
        EXPECT_EQ(testing::attention_of(*make_cpu_forward(2), call), out);
        EXPECT_EQ(testing::attention_of(*make_cpu_forward(3), call), out);
      });
}

TEST(CpuForward, AttentionNeedsNoMoreMemoryForLongerPrompts) {
  const auto backend = make_cpu_forward(2);
  AttentionCall call{.tokens = 2000, .heads = 8, .kv_heads = 2, .head_dim = 64, .value_dim = 64};
  const std::uint64_t bytes = backend->attention_bytes(call);
  call.tokens = 1 << 20;
  EXPECT_EQ(backend->attention_bytes(call), bytes);
}

TEST(CpuForward, SaysWhatItIs) {
  const measure::BackendInfo info = make_cpu_forward(1)->info();
  EXPECT_EQ(info.name, "cpu");
  EXPECT_FALSE(info.device.empty());
  ASSERT_EQ(info.libraries.size(), 1U);
  EXPECT_NE(info.libraries[0].find("OpenBLAS"), std::string::npos);
}

}  // namespace
}  // namespace vindex::cpu::forward_test
