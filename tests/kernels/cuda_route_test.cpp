// Routes on a CUDA device as a table: wish, mode, what passed its self-test, and what follows.
#include "route/cuda_route.hpp"

#include <vindex/core/error.hpp>

#include <gtest/gtest.h>

#include <algorithm>
#include <iterator>

namespace vindex::test {
namespace {

using namespace kernels;
using measure::Mode;

constexpr DeviceTraits kHopper = {.major = 9, .minor = 0, .shared_bytes = 227U << 10U};
constexpr DeviceTraits kAda = {.major = 8, .minor = 9, .shared_bytes = 99U << 10U};

TestVerdicts all_but(std::initializer_list<KernelUnderTest> failed = {}) {
  TestVerdicts verdicts;
  std::fill(std::begin(verdicts.passed), std::end(verdicts.passed), true);
  std::fill(std::begin(verdicts.plain_passed), std::end(verdicts.plain_passed), true);
  for (const KernelUnderTest kernel : failed) {
    verdicts.passed[static_cast<std::size_t>(kernel)] = false;
    verdicts.plain_passed[static_cast<std::size_t>(kernel)] = false;
  }
  return verdicts;
}

/// Only the plain variant of `kernel` passed.
TestVerdicts plain_of(KernelUnderTest kernel) {
  TestVerdicts verdicts = all_but();
  verdicts.passed[static_cast<std::size_t>(kernel)] = false;
  return verdicts;
}

RoutePlan routes(const char* wish, Mode mode, const TestVerdicts& verdicts,
                 const DeviceTraits& device = kHopper, std::int64_t p = 2048,
                 OperandKind kind = OperandKind::kBlockScaled) {
  return choose_routes(parse_route(wish), mode, kind, p, device, verdicts);
}

TEST(CudaRoute, AutoIsTwoStageWhereItIsTrusted) {
  const RoutePlan plan = routes("auto", Mode::kDefault, all_but());
  EXPECT_EQ(plan.first.method(), "gram32+band32+cuda");
  EXPECT_EQ(plan.strict.method(), "gram64+band64+cuda");
  EXPECT_TRUE(plan.may_escalate);
  EXPECT_EQ(plan.first.product, ProductKernel::kWarpgroup);
  EXPECT_EQ(routes("auto", Mode::kStrict, all_but()).first.method(), "gram64+band64+cuda");
  EXPECT_FALSE(routes("auto", Mode::kStrict, all_but()).may_escalate);
}

TEST(CudaRoute, WhatFailedItsSelfTestIsNotUsed) {
  using K = KernelUnderTest;
  for (const K kernel : {K::kGramBlockScaled, K::kBand32}) {
    const RoutePlan plan = routes("auto", Mode::kDefault, all_but({kernel}));
    EXPECT_EQ(plan.first.method(), "gram64+band64+cuda") << kernel_name(kernel);
    EXPECT_FALSE(plan.may_escalate);
  }
  EXPECT_EQ(routes("auto", Mode::kDefault, all_but({K::kBand64})).strict.method(),
            "gram64+trd64+cuda");
  EXPECT_EQ(routes("auto", Mode::kDefault, all_but({K::kBand64})).first.method(),
            "gram32+band32+cuda");
  for (const K kernel : {K::kChase, K::kValues}) {
    const RoutePlan plan = routes("auto", Mode::kDefault, all_but({kernel}));
    EXPECT_EQ(plan.first.method(), "gram64+trd64+cuda") << kernel_name(kernel);
    EXPECT_EQ(plan.strict.method(), "gram64+trd64+cuda");
  }
  // Another kind of operand is not concerned.
  EXPECT_EQ(routes("auto", Mode::kDefault, all_but({K::kGramBlockScaled}), kHopper, 2048,
                   OperandKind::kHalf)
                .first.method(),
            "gram32+band32+cuda");
  EXPECT_EQ(routes("auto", Mode::kDefault, {}).first.method(), "gram64+trd64+cuda")
      << "nothing was tested";
}

TEST(CudaRoute, ThePlainVariantStandsInForTheFastOne) {
  const TestVerdicts no_wgmma = plain_of(KernelUnderTest::kGramBlockScaled);
  const RoutePlan plan = routes("auto", Mode::kDefault, no_wgmma);
  EXPECT_EQ(plan.first.method(), "gram32+band32+cuda");
  EXPECT_EQ(plan.first.product, ProductKernel::kWarp);
  EXPECT_EQ(routes("auto", Mode::kFast, no_wgmma).top.product, ProductKernel::kWarp);
  EXPECT_EQ(routes("two-stage+gram-mma", Mode::kDefault, no_wgmma).first.product,
            ProductKernel::kWarp);
  for (const Mode mode : {Mode::kDefault, Mode::kFast}) {
    EXPECT_THROW(routes("two-stage+gram-wgmma", mode, no_wgmma), UsageError);
  }
  const RoutePlan plain = routes("auto", Mode::kDefault, plain_of(KernelUnderTest::kBand32));
  EXPECT_EQ(plain.first.band, BandRoute::kPlain);
  EXPECT_EQ(plain.strict.band, BandRoute::kTensor);
  EXPECT_THROW(routes("two-stage+band-tensor", Mode::kDefault, plain_of(KernelUnderTest::kBand32)),
               UsageError);
}

TEST(CudaRoute, AnExplicitWishIsNeverReplaced) {
  EXPECT_THROW(routes("two-stage", Mode::kDefault, all_but({KernelUnderTest::kChase})), UsageError);
  EXPECT_THROW(routes("two-stage", Mode::kStrict, all_but({KernelUnderTest::kBand64})), UsageError);
  EXPECT_EQ(routes("library", Mode::kDefault, all_but()).first.method(), "gram64+trd64+cuda");
  EXPECT_EQ(routes("qr", Mode::kDefault, all_but()).first.method(), "qr+bidiag64+cuda");
}

TEST(CudaRoute, ChoicesWithinTwoStage) {
  const RoutePlan plan = routes("two-stage+band-plain+gram-mma", Mode::kDefault, all_but());
  EXPECT_EQ(plan.first.band, BandRoute::kPlain);
  EXPECT_EQ(plan.first.product, ProductKernel::kWarp);
  EXPECT_EQ(routes("two-stage+band-library", Mode::kDefault, all_but()).strict.band,
            BandRoute::kLibrary);
  EXPECT_THROW(routes("two-stage+gram-wgmma", Mode::kDefault, all_but(), kAda), UsageError);
  EXPECT_EQ(routes("two-stage+gram-wgmma", Mode::kDefault, all_but()).first.product,
            ProductKernel::kWarpgroup);
  for (const char* text :
       {"", "fast", "two-stage+", "two-stage+band", "two-stage+band-plain+band-tensor",
        "library+band-plain", "auto+gram-mma", "two-stage,band-plain", "qr64"}) {
    try {
      (void)parse_route(text);
      FAIL() << text;
    } catch (const UsageError& error) {
      EXPECT_NE(std::string(error.what()).find("two-stage"), std::string::npos);
    }
  }
}

TEST(CudaRoute, DevicesWithoutFloat64TensorCoresUsePlainFloat64) {
  const RoutePlan plan = routes("auto", Mode::kDefault, all_but(), kAda);
  EXPECT_EQ(plan.first.band, BandRoute::kTensor);
  EXPECT_EQ(plan.strict.band, BandRoute::kPlain);
  EXPECT_EQ(plan.first.product, ProductKernel::kWarp);
}

TEST(CudaRoute, AMatrixBeyondTheBandReductionGoesToTheLibrary) {
  for (const char* wish : {"auto", "two-stage"}) {
    EXPECT_EQ(
        routes(wish, Mode::kDefault, all_but(), kHopper, largest_band_order() + 1).first.method(),
        "gram64+trd64+cuda");
  }
}

TEST(CudaRoute, TheTopOfLargeMatricesIsIteratedOnATrustedGram) {
  EXPECT_FALSE(routes("auto", Mode::kFast, all_but(), kHopper, 512).has_top);
  const RoutePlan plan = routes("auto", Mode::kFast, all_but(), kHopper, 2048);
  EXPECT_TRUE(plan.has_top);
  EXPECT_EQ(plan.top.top_method(), "gram32+chebyshev+cuda");
  for (const char* wish : {"auto", "library"}) {
    const RoutePlan wary =
        routes(wish, Mode::kFast, all_but({KernelUnderTest::kGramBlockScaled}), kHopper, 2048);
    EXPECT_TRUE(wary.has_top);
    EXPECT_EQ(wary.top.top_method(), "gram64+chebyshev+cuda");
  }
  EXPECT_EQ(routes("auto", Mode::kStrict, all_but(), kHopper, 2048).top.top_method(),
            "gram64+chebyshev+cuda");
  EXPECT_FALSE(routes("qr", Mode::kFast, all_but(), kHopper, 2048).has_top);
}

TEST(CudaRoute, OnlyWantedKernelsAreTested) {
  EXPECT_TRUE(kernels_wanted(parse_route("library"), Mode::kDefault).empty());
  EXPECT_TRUE(kernels_wanted(parse_route("qr"), Mode::kStrict).empty());
  EXPECT_EQ(kernels_wanted(parse_route("auto"), Mode::kStrict).size(), 3U);
  EXPECT_EQ(kernels_wanted(parse_route("auto"), Mode::kDefault).size(),
            static_cast<std::size_t>(kKernelsUnderTest));
}

}  // namespace
}  // namespace vindex::test
