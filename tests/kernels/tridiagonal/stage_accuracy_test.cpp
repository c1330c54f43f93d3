// Chase and bisection in float32 behind bands of order 512 (stage_accuracy.hpp).
#include "stage_accuracy.hpp"

namespace vindex::test::stage_accuracy_test {
namespace {

TEST_P(StageAccuracy, OfOrder512IsAQuarterOfThePromises) {
  expect_within_promises("noise 3.3", 512, true);
  expect_within_promises("power 100", 512, true);
  expect_within_promises("trained", 512, true);
  expect_within_promises("arithmetic 100", 512, false);
}

INSTANTIATE_TEST_SUITE_P(Order, StageAccuracy, ::testing::Values(0ULL));

}  // namespace
}  // namespace vindex::test::stage_accuracy_test
