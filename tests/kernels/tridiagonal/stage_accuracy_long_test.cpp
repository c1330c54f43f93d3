// The same as stage_accuracy_test.cpp of more laws and larger orders, which take the emulation
// minutes. Bands are made on the host: a reduction of order 2048 would take it hours.
#include "stage_accuracy.hpp"

namespace vindex::test::stage_accuracy_long_test {
namespace {

TEST_P(StageAccuracy, OfEveryLawIsAQuarterOfThePromises) {
  for (const char* const law : {"noise 3", "noise 30", "power 10", "power 30", "geometric 3",
                                "geometric 30", "arithmetic 3", "spike"}) {
    expect_within_promises(law, 512, true);
  }
  for (const char* const law : {"power 200", "geometric 100", "geometric 200", "noise 200"}) {
    expect_within_promises(law, 512, false);
  }
  expect_within_promises("clusters", 512, false);
  expect_within_promises("lines", 512, false);
}

TEST_P(StageAccuracy, OfOrder1024IsAQuarterOfThePromises) {
  for (const char* const law : {"noise 3.3", "power 100", "trained"}) {
    expect_within_promises(law, 1024, true);
  }
  expect_within_promises("arithmetic 100", 1024, false);
  expect_within_promises("lines", 1024, false);
}

TEST_P(StageAccuracy, OfOrder2048IsAQuarterOfThePromises) {
  expect_within_promises("noise 3.3", 2048, true);
  expect_within_promises("trained", 2048, true);
}

INSTANTIATE_TEST_SUITE_P(Order, StageAccuracy, ::testing::Values(0ULL));

}  // namespace
}  // namespace vindex::test::stage_accuracy_long_test
