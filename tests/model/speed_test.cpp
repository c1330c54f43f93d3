// Sizes of the largest models there are: indexing must not be felt.
#include "model_fixture.hpp"

#include <ctime>

namespace vindex::model::speed_test {
namespace {

double thread_seconds() {
  timespec now{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
  return static_cast<double>(now.tv_sec) + static_cast<double>(now.tv_nsec) * 1e-9;
}

// 60 layers x 384 experts x 3 projections, three stored tensors each. 0.2 s on a busy 2-core
// machine; a quadratic step would take minutes.
TEST(SpeedTest, TwoHundredThousandTensorsAreIndexedInLinearTime) {
  ModelFixture fixture;
  fixture.config("model_type", "kimi_k2");
  for (int layer = 1; layer <= 60; ++layer) {
    for (int expert = 0; expert < 384; ++expert) {
      for (const char* role : {"gate_proj", "up_proj", "down_proj"}) {
        const std::string base = "model.layers." + std::to_string(layer) + ".mlp.experts." +
                                 std::to_string(expert) + "." + role + ".weight";
        fixture.add(base + "_packed", decode::ElementType::kI32, {2048, 896});
        fixture.bf16(base + "_scale", {2048, 224});
        fixture.add(base + "_shape", decode::ElementType::kI64, {2});
      }
    }
  }
  const double start = thread_seconds();
  const ModelIndex index = fixture.index();
  const double seconds = thread_seconds() - start;
  EXPECT_EQ(index.matrices.size(), 69'120U);
  EXPECT_LT(seconds, 5.0);
  RecordProperty("seconds", std::to_string(seconds));
}

}  // namespace
}  // namespace vindex::model::speed_test
