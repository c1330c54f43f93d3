// The host's products and attention, for any number of threads, held to what every back end of
// forward passes must do (forward_cases.hpp).
#include "cpu/forward/cpu_forward.hpp"
#include "cpu/forward/simd_few_tokens.hpp"
#include "tests/support/forward_cases.hpp"

#include <gtest/gtest.h>

#include <array>
#include <cmath>
#include <random>
#include <vector>

namespace vindex::cpu::forward_test {
namespace {

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

// A weight may be held or read again slab by slab, as the memory budget says.
TEST(CpuForward, AStreamedWeightGivesTheBitsOfOneInMemory) {
  std::mt19937 random(10);
  constexpr std::int64_t kRows = 1500, kCols = 9000;
  const std::vector<float> values = testing::random_floats(kRows * kCols, random);
  const auto view = decode::float32_view(values.data(), kRows, kCols);
  const auto backend = make_cpu_forward(2);
  for (const bool transposed : {false, true}) {
    const auto weight = make_memory_input(view, transposed);
    const std::int64_t cols = transposed ? kRows : kCols;
    for (const std::int64_t tokens : {2, 60}) {
      const std::vector<float> x = testing::random_floats(tokens * cols, random);
      LinearCall call{.x = x.data(),
                      .tokens = tokens,
                      .x_stride = cols,
                      .weight = weight.get(),
                      .count = transposed ? kCols : kRows};
      const std::vector<float> held = testing::product_of(*backend, call);
      testing::StreamedWeight streamed(view, transposed);
      call.weight = &streamed;
      EXPECT_EQ(testing::product_of(*backend, call), held) << transposed << " " << tokens;
      EXPECT_LT(streamed.largest(), values.size() * sizeof(float));
    }
  }
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

TEST(CpuForward, FewTokensAtEveryLevel) {
  std::mt19937 random(17);
  for (const auto& [outputs, cols, tokens] : {std::array<std::int64_t, 3>{1, 1, 1},
                                              {37, 67, 7},
                                              {64, 64, 12},
                                              {130, 5, 2},
                                              {7, 300, 4}}) {
    const std::vector<float> values = testing::random_floats(outputs * cols, random);
    const std::vector<float> x = testing::random_floats(tokens * cols, random);
    const std::vector<float> start = testing::random_floats(tokens * outputs, random);
    for (const bool transposed : {false, true}) {
      const auto weight =
          make_memory_input(transposed ? decode::float32_view(values.data(), cols, outputs)
                                       : decode::float32_view(values.data(), outputs, cols),
                            transposed);
      std::vector<ExactValue> wanted = testing::exact_linear({.x = x.data(),
                                                              .tokens = tokens,
                                                              .x_stride = cols,
                                                              .weight = weight.get(),
                                                              .count = outputs});
      for (std::size_t i = 0; i < wanted.size(); ++i) {
        wanted[i].value += static_cast<double>(start[i]);
        wanted[i].size += std::abs(static_cast<double>(start[i]));
      }
      for (const SimdLevel level :
           {SimdLevel::kPortable, SimdLevel::kAvx2, SimdLevel::kAvx512, SimdLevel::kAvx512Bf16}) {
        if (level > best_simd_level()) {
          break;
        }
        SCOPED_TRACE(::testing::Message() << outputs << " x " << cols << ", " << tokens
                                          << " tokens, level " << static_cast<int>(level));
        std::vector<float> y = start;
        multiply_few({.chunk = {values.data(), transposed ? outputs : cols, transposed},
                      .outputs = outputs,
                      .cols = cols,
                      .tokens = tokens,
                      .x = x.data(),
                      .x_stride = cols,
                      .y = y.data(),
                      .y_stride = outputs},
                     level);
        testing::expect_near(y, wanted, testing::kProductRounding);
      }
    }
  }
}

TEST(CpuForward, SaysWhatItIs) {
  const BackendInfo info = make_cpu_forward(1)->info();
  EXPECT_EQ(info.name, "cpu");
  EXPECT_FALSE(info.device.empty());
  ASSERT_EQ(info.libraries.size(), 1U);
  EXPECT_NE(info.libraries[0].find("OpenBLAS"), std::string::npos);
}

}  // namespace
}  // namespace vindex::cpu::forward_test
