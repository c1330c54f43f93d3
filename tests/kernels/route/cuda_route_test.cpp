// Routes on a CUDA device as a table: wish, mode, what passed its self-test, and what follows.
#include "kernels/route/cuda_route.hpp"

#include "kernels/band/band_panel.hpp"
#include <vindex/error.hpp>

#include <gtest/gtest.h>

#include <algorithm>
#include <initializer_list>
#include <string>
#include <vector>

namespace vindex::test::cuda_route_test {
namespace {

using namespace kernels;

constexpr DeviceTraits kHopper = {.major = 9, .minor = 0, .shared_bytes = 227U << 10U};
constexpr DeviceTraits kAda = {.major = 8, .minor = 9, .shared_bytes = 99U << 10U};

/// All passed but both variants of `broken`.
TestVerdicts all_but(std::initializer_list<KernelUnderTest> broken = {}) {
  TestVerdicts verdicts;
  for (int i = 0; i < kKernelsUnderTest; ++i) {
    const auto kernel = static_cast<KernelUnderTest>(i);
    const bool passed = std::find(broken.begin(), broken.end(), kernel) == broken.end();
    verdicts.set({kernel, Variant::kPlain}, passed);
    verdicts.set({kernel, Variant::kFast}, passed);
  }
  return verdicts;
}

/// Only the plain variant of `kernel` passed.
TestVerdicts plain_of(KernelUnderTest kernel) {
  TestVerdicts verdicts = all_but();
  verdicts.set({kernel, Variant::kFast}, false);
  return verdicts;
}

RoutePlan routes(const char* wish, SpectrumMode mode, const TestVerdicts& verdicts,
                 const DeviceTraits& device = kHopper, std::int64_t p = 2048,
                 OperandKind kind = OperandKind::kBlockScaled) {
  return choose_routes(parse_route(wish), mode, kind, p, device, verdicts);
}

TEST(CudaRoute, AutoIsTwoStageWhereItIsTrusted) {
  const RoutePlan plan = routes("auto", SpectrumMode::kDefault, all_but());
  EXPECT_EQ(plan.first.method(), "gram32+band32+cuda");
  EXPECT_EQ(plan.strict.method(), "gram64+band64+cuda");
  EXPECT_TRUE(plan.may_escalate);
  EXPECT_EQ(plan.first.product, ProductKernel::kWarpgroup);
  EXPECT_EQ(routes("auto", SpectrumMode::kStrict, all_but()).first.method(), "gram64+band64+cuda");
  EXPECT_FALSE(routes("auto", SpectrumMode::kStrict, all_but()).may_escalate);
}

TEST(CudaRoute, WhatFailedItsSelfTestIsNotUsed) {
  using K = KernelUnderTest;
  for (const K kernel : {K::kGramBlockScaled, K::kBand32}) {
    const RoutePlan plan = routes("auto", SpectrumMode::kDefault, all_but({kernel}));
    EXPECT_EQ(plan.first.method(), "gram64+band64+cuda") << kernel_name(kernel);
    EXPECT_FALSE(plan.may_escalate);
  }
  EXPECT_EQ(routes("auto", SpectrumMode::kDefault, all_but({K::kBand64})).strict.method(),
            "gram64+trd64+cuda");
  EXPECT_EQ(routes("auto", SpectrumMode::kDefault, all_but({K::kBand64})).first.method(),
            "gram32+band32+cuda");
  for (const K kernel : {K::kChase, K::kValues}) {
    const RoutePlan plan = routes("auto", SpectrumMode::kDefault, all_but({kernel}));
    EXPECT_EQ(plan.first.method(), "gram64+trd64+cuda") << kernel_name(kernel);
    EXPECT_EQ(plan.strict.method(), "gram64+trd64+cuda");
  }
  // Another kind of operand is not concerned.
  EXPECT_EQ(routes("auto", SpectrumMode::kDefault, all_but({K::kGramBlockScaled}), kHopper, 2048,
                   OperandKind::kHalf)
                .first.method(),
            "gram32+band32+cuda");
  EXPECT_EQ(routes("auto", SpectrumMode::kDefault, {}).first.method(), "gram64+trd64+cuda")
      << "nothing was tested";
}

TEST(CudaRoute, ThePlainVariantStandsInForTheFastOne) {
  const TestVerdicts no_wgmma = plain_of(KernelUnderTest::kGramBlockScaled);
  const RoutePlan plan = routes("auto", SpectrumMode::kDefault, no_wgmma);
  EXPECT_EQ(plan.first.method(), "gram32+band32+cuda");
  EXPECT_EQ(plan.first.product, ProductKernel::kWarp);
  EXPECT_EQ(routes("auto", SpectrumMode::kFast, no_wgmma).top.product, ProductKernel::kWarp);
  EXPECT_EQ(routes("two-stage+gram-mma", SpectrumMode::kDefault, no_wgmma).first.product,
            ProductKernel::kWarp);
  for (const SpectrumMode mode : {SpectrumMode::kDefault, SpectrumMode::kFast}) {
    EXPECT_THROW(routes("two-stage+gram-wgmma", mode, no_wgmma), UsageError);
  }
  const RoutePlan plain =
      routes("auto", SpectrumMode::kDefault, plain_of(KernelUnderTest::kBand32));
  EXPECT_EQ(plain.first.band, BandRoute::kPlain);
  EXPECT_EQ(plain.strict.band, BandRoute::kTensor);
  EXPECT_THROW(
      routes("two-stage+band-tensor", SpectrumMode::kDefault, plain_of(KernelUnderTest::kBand32)),
      UsageError);
}

TEST(CudaRoute, AnExplicitWishIsNeverReplaced) {
  EXPECT_THROW(routes("two-stage", SpectrumMode::kDefault, all_but({KernelUnderTest::kChase})),
               UsageError);
  EXPECT_THROW(routes("two-stage", SpectrumMode::kStrict, all_but({KernelUnderTest::kBand64})),
               UsageError);
  EXPECT_EQ(routes("library", SpectrumMode::kDefault, all_but()).first.method(),
            "gram64+trd64+cuda");
  EXPECT_EQ(routes("qr", SpectrumMode::kDefault, all_but()).first.method(), "qr+bidiag64+cuda");
}

TEST(CudaRoute, ChoicesWithinTwoStage) {
  const RoutePlan plan = routes("two-stage+band-plain+gram-mma", SpectrumMode::kDefault, all_but());
  EXPECT_EQ(plan.first.band, BandRoute::kPlain);
  EXPECT_EQ(plan.first.product, ProductKernel::kWarp);
  EXPECT_EQ(routes("two-stage+band-tensor", SpectrumMode::kDefault, all_but()).strict.band,
            BandRoute::kTensor);
  EXPECT_THROW(routes("two-stage+gram-wgmma", SpectrumMode::kDefault, all_but(), kAda), UsageError);
  EXPECT_THROW(routes("two-stage+gram-clusters", SpectrumMode::kDefault, all_but(), kAda),
               UsageError);
  EXPECT_EQ(routes("two-stage+gram-clusters", SpectrumMode::kDefault, all_but()).first.product,
            ProductKernel::kWarpgroupPairs);
  EXPECT_THROW(routes("two-stage+gram-clusters", SpectrumMode::kDefault,
                      all_but({KernelUnderTest::kGramClusters})),
               UsageError);
  EXPECT_EQ(routes("two-stage+gram-wgmma", SpectrumMode::kDefault, all_but()).first.product,
            ProductKernel::kWarpgroup);
  for (const char* text : {"", "fast", "two-stage+", "two-stage+band",
                           "two-stage+band-plain+band-tensor", "two-stage+band-library",
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
  const RoutePlan plan = routes("auto", SpectrumMode::kDefault, all_but(), kAda);
  EXPECT_EQ(plan.first.band, BandRoute::kTensor);
  EXPECT_EQ(plan.strict.band, BandRoute::kPlain);
  EXPECT_EQ(plan.first.product, ProductKernel::kWarp);
}

TEST(CudaRoute, AMatrixBeyondTheBandReductionGoesToTheLibrary) {
  for (const char* wish : {"auto", "two-stage"}) {
    EXPECT_EQ(routes(wish, SpectrumMode::kDefault, all_but(), kHopper, largest_band_order() + 1)
                  .first.method(),
              "gram64+trd64+cuda");
  }
}

TEST(CudaRoute, TheTopOfLargeMatricesIsIteratedOnATrustedGram) {
  EXPECT_FALSE(routes("auto", SpectrumMode::kFast, all_but(), kHopper, 512).has_top);
  const RoutePlan plan = routes("auto", SpectrumMode::kFast, all_but(), kHopper, 2048);
  EXPECT_TRUE(plan.has_top);
  EXPECT_EQ(plan.top.top_method(), "gram32+chebyshev+cuda");
  for (const char* wish : {"auto", "library"}) {
    const RoutePlan wary = routes(wish, SpectrumMode::kFast,
                                  all_but({KernelUnderTest::kGramBlockScaled}), kHopper, 2048);
    EXPECT_TRUE(wary.has_top);
    EXPECT_EQ(wary.top.top_method(), "gram64+chebyshev+cuda");
  }
  for (const char* wish : {"auto", "two-stage"}) {
    EXPECT_EQ(routes(wish, SpectrumMode::kFast, all_but(), kHopper, 2048).first.method(),
              "gram32+band32+cuda")
        << "fast is the float32 spectrum of default";
  }
  EXPECT_EQ(routes("proof", SpectrumMode::kFast, all_but(), kHopper, 2048).first.method(),
            "gram64+band64+cuda")
      << "for what its iteration leaves open";
  EXPECT_EQ(routes("proof", SpectrumMode::kDefault, all_but(), kHopper, 2048).first.method(),
            "gram32+band32+cuda");
  EXPECT_EQ(routes("auto", SpectrumMode::kStrict, all_but(), kHopper, 2048).top.top_method(),
            "gram64+chebyshev+cuda");
  EXPECT_FALSE(routes("qr", SpectrumMode::kFast, all_but(), kHopper, 2048).has_top);
}

TEST(CudaRoute, Float64GramsAreOfInt8ProductsWhereFloat64IsSlowAndTheyAreTrusted) {
  const auto by_int8 = [](const char* wish, const DeviceTraits& device,
                          const TestVerdicts& verdicts) {
    return routes(wish, SpectrumMode::kStrict, verdicts, device).sliced_gram;
  };
  EXPECT_TRUE(by_int8("auto", kAda, all_but()));
  EXPECT_TRUE(by_int8("two-stage+band-plain", kAda, all_but()));
  EXPECT_FALSE(by_int8("library", kAda, all_but()));
  EXPECT_FALSE(by_int8("qr", kAda, all_but()));
  EXPECT_FALSE(by_int8("auto", kHopper, all_but()));
  EXPECT_FALSE(by_int8("auto", kAda, all_but({KernelUnderTest::kSlicedGram})));
}

/// The names of the trials, joined: of newer kernels, or of all others.
std::string trials(const char* wish, SpectrumMode mode, const DeviceTraits& device = kHopper,
                   bool newer = false) {
  std::string names;
  for (const KernelTrial& trial : trials_wanted(parse_route(wish), mode, device)) {
    if (is_newer_kernel(trial.kernel) == newer) {
      names += (names.empty() ? "" : ", ") + trial_name(trial);
    }
  }
  return names;
}
std::string newer_trials(const char* wish, SpectrumMode mode,
                         const DeviceTraits& device = kHopper) {
  return trials(wish, mode, device, true);
}

constexpr const char* kFirst = "bisection, bulge chasing";
constexpr const char* kLibrary =
    "eigenvalues by cuSOLVER one by one, eigenvalues by cuSOLVER in batches";

std::string grams(const std::string& by) {
  return "gram of block-scaled fp8" + by + ", gram of binary16" + by + ", gram of bfloat16" + by +
         ", gram of binary16 pairs" + by;
}

TEST(CudaRoute, OnlyWhatAWishCanUseIsTriedAndTheRiskiestLast) {
  const std::string first = kFirst;
  const std::string library = kLibrary;
  const std::string plain64 = "band reduction in float64 without tensor cores";
  const std::string plain32 = "band reduction in float32 without tensor cores";
  const std::string tensor64 = "band reduction in float64 on tensor cores";
  const std::string tensor32 = "band reduction in float32 on tensor cores";
  const std::string sliced = "gram in float64 by int8 products";
  const std::string tail = "the smallest values again";
  const std::string comma = ", ";
  const std::string plain = plain64 + comma + plain32;
  EXPECT_EQ(trials("qr", SpectrumMode::kStrict), "");
  EXPECT_EQ(trials("library", SpectrumMode::kDefault), library);
  EXPECT_EQ(trials("auto", SpectrumMode::kStrict),
            first + comma + plain64 + comma + tail + comma + library + comma + tensor64);
  const auto automatic = [&](const std::string& between) {
    return first + comma + plain + comma + between + library + comma + grams(" by mma.sync") +
           comma + tensor64 + comma + tensor32 + comma + grams(" by wgmma");
  };
  EXPECT_EQ(trials("auto", SpectrumMode::kDefault), automatic(tail + comma));
  EXPECT_EQ(trials("auto", SpectrumMode::kFast), automatic("")) << "it has no tail";
  EXPECT_EQ(trials("two-stage+gram-mma+band-plain", SpectrumMode::kDefault),
            first + comma + plain + comma + tail + comma + library + comma + grams(" by mma.sync"));
  EXPECT_EQ(trials("two-stage+gram-wgmma+band-plain", SpectrumMode::kDefault),
            first + comma + plain + comma + tail + comma + library + comma + grams(" by wgmma"));
  EXPECT_EQ(
      trials("two-stage+gram-clusters+band-plain", SpectrumMode::kDefault),
      first + comma + plain + comma + tail + comma + library + comma + "gram by wgmma in clusters");
  EXPECT_EQ(trials("two-stage+band-tensor", SpectrumMode::kStrict),
            first + comma + library + comma + tensor64 + comma + tail + ", behind tensor cores");
  // No float64 tensor cores and no wgmma: neither is a route of `auto` there.
  EXPECT_EQ(trials("auto", SpectrumMode::kDefault, kAda),
            first + comma + plain + comma + tail + comma + library + comma + grams(" by mma.sync") +
                comma + sliced + comma + tensor32);
  EXPECT_EQ(trials("two-stage+gram-wgmma", SpectrumMode::kFast, kAda),
            first + comma + plain + comma + library + comma + sliced + comma + tensor32);
  EXPECT_EQ(trials("two-stage+gram-wgmma+kernels-former", SpectrumMode::kFast, kAda),
            first + comma + plain + comma + library + comma + sliced + comma + tensor32);
  EXPECT_EQ(
      trials("proof", SpectrumMode::kFast, kAda),
      first + comma + plain64 + comma + library + comma + grams(" by mma.sync") + comma + sliced);
}

constexpr const char* kChase32 = "bulge chasing in float32";
constexpr const char* kValues32 = "bisection in float32";
constexpr const char* kDeferred = "band reduction with deferred updates";
constexpr const char* kOperands = "operands of fp8 by the device's conversions";
constexpr const char* kCodes = "gram in float64 of fp8 codes by int8 products";
constexpr const char* kShared = "bulge chasing by several blocks";
constexpr const char* kWide = "back-transformation of 32 columns";

TEST(CudaRoute, NewerKernelsAreTriedByTheRoutesThatUseThem) {
  const auto joined = [](std::initializer_list<std::string> names) {
    std::string text;
    for (const std::string& name : names) {
      text += (text.empty() || name.empty() ? "" : ", ") + name;
    }
    return text;
  };
  const std::string by_wgmma = std::string(kCodes) + ", wgmma";
  for (const DeviceTraits& device : {kHopper, kAda}) {
    const std::string last = device.major == 9 ? by_wgmma : "";
    for (const char* wish : {"auto", "two-stage+band-plain"}) {
      const std::string deferred = std::string(wish) == "auto" ? kDeferred : "";
      EXPECT_EQ(newer_trials(wish, SpectrumMode::kDefault, device),
                joined({kChase32, kValues32, deferred, kOperands, kCodes, kWide, kShared, last}));
      EXPECT_EQ(newer_trials(wish, SpectrumMode::kFast, device),
                joined({kChase32, kValues32, deferred, kOperands, kShared}));
      EXPECT_EQ(newer_trials(wish, SpectrumMode::kStrict, device), joined({kCodes, kShared, last}));
    }
    for (const SpectrumMode mode :
         {SpectrumMode::kDefault, SpectrumMode::kFast, SpectrumMode::kStrict}) {
      for (const char* wish : {"qr", "library", "two-stage+kernels-former"}) {
        EXPECT_EQ(newer_trials(wish, mode, device), "") << wish;
      }
    }
  }
}

TEST(CudaRoute, NewerKernelsAreTriedAfterOthersAndWgmmaLast) {
  const std::vector<KernelTrial> wanted =
      trials_wanted(parse_route("auto"), SpectrumMode::kDefault, kHopper);
  const auto is_newer = [](const KernelTrial& trial) { return is_newer_kernel(trial.kernel); };
  const auto by_wgmma = [](const KernelTrial& trial) {
    return trial_name(trial).ends_with("wgmma");
  };
  const auto newer = std::find_if(wanted.begin(), wanted.end(), is_newer);
  const auto wgmma = std::find_if(wanted.begin(), wanted.end(), by_wgmma);
  ASSERT_LT(newer, wgmma);
  EXPECT_TRUE(std::all_of(newer, wgmma, is_newer));
  EXPECT_TRUE(std::all_of(wgmma, wanted.end(), by_wgmma));
}

TEST(CudaRoute, FactorsAreKeptWhereTailsAreTrusted) {
  using K = KernelUnderTest;
  EXPECT_TRUE(routes("auto", SpectrumMode::kDefault, all_but()).keeps_factor);
  EXPECT_TRUE(routes("auto", SpectrumMode::kStrict, plain_of(K::kTail)).keeps_factor);
  EXPECT_FALSE(routes("auto", SpectrumMode::kDefault, all_but({K::kTail})).keeps_factor);
  EXPECT_EQ(routes("auto", SpectrumMode::kDefault, all_but({K::kTail})).first.method(),
            "gram32+band32+cuda")
      << "the route does without it";
  EXPECT_FALSE(routes("auto", SpectrumMode::kFast, all_but()).keeps_factor) << "it has no tail";
  EXPECT_FALSE(routes("library", SpectrumMode::kDefault, all_but()).keeps_factor);
}

TEST(CudaRoute, WhatToSayInsteadDoesWithoutTheKernel) {
  const auto instead = [](const char* wish, KernelUnderTest kernel, Variant variant) {
    return route_without(parse_route(wish), {kernel, variant});
  };
  using K = KernelUnderTest;
  EXPECT_EQ(instead("auto", K::kGramHalf, Variant::kFast), "two-stage+gram-mma");
  EXPECT_EQ(instead("two-stage+band-plain", K::kGramHalf, Variant::kFast),
            "two-stage+gram-mma+band-plain");
  EXPECT_EQ(instead("two-stage+gram-mma", K::kBand32, Variant::kFast),
            "two-stage+gram-mma+band-plain");
  EXPECT_EQ(instead("auto", K::kGramHalf, Variant::kPlain), "library");
  EXPECT_EQ(instead("auto", K::kChase, Variant::kPlain), "library");
  EXPECT_EQ(instead("library", K::kLibraryEigen, Variant::kFast), "two-stage");
  EXPECT_EQ(instead("auto", K::kTail, Variant::kPlain), "library");
  EXPECT_EQ(instead("two-stage+band-tensor", K::kTail, Variant::kFast), "library");
  EXPECT_EQ(instead("two-stage+gram-clusters", K::kGramClusters, Variant::kPlain),
            "two-stage+gram-wgmma");
  EXPECT_EQ(instead("two-stage+gram-clusters", K::kBand32, Variant::kFast),
            "two-stage+gram-clusters+band-plain");
  EXPECT_EQ(instead("auto", K::kChase32, Variant::kPlain), "two-stage+kernels-former");
  EXPECT_EQ(instead("two-stage+kernels-former", K::kGramHalf, Variant::kFast),
            "two-stage+gram-mma+kernels-former");
}

TEST(CudaRoute, NewerKernelsAreUsedWhereTheyPassedAndAreWanted) {
  using K = KernelUnderTest;
  const NewerKernels all = routes("auto", SpectrumMode::kDefault, all_but()).newer;
  EXPECT_TRUE(all.chase32 && all.shared_chase && all.values32 && all.deferred_band &&
              all.native_operands && all.code_slices && all.wide_back_transform);
  const NewerKernels one_less =
      routes("auto", SpectrumMode::kDefault, all_but({K::kChase32})).newer;
  EXPECT_FALSE(one_less.chase32);
  EXPECT_TRUE(one_less.shared_chase);
  EXPECT_EQ(routes("two-stage+kernels-former", SpectrumMode::kDefault, all_but()).newer,
            NewerKernels{});
  EXPECT_EQ(routes("library", SpectrumMode::kDefault, all_but()).newer, NewerKernels{});
  // Where float64 is slow the former chase of float32 spectra is in float32 too, unless it failed.
  constexpr NewerKernels kSlowFormer = {.chase32 = true};
  EXPECT_EQ(routes("two-stage+kernels-former", SpectrumMode::kDefault, all_but(), kAda).newer,
            kSlowFormer);
  EXPECT_TRUE(routes("auto", SpectrumMode::kDefault, all_but(), kAda).newer.chase32);
  for (const char* wish : {"auto", "two-stage+kernels-former"}) {
    EXPECT_FALSE(routes(wish, SpectrumMode::kDefault, all_but({K::kChase32}), kAda).newer.chase32);
  }
  EXPECT_EQ(routes("auto", SpectrumMode::kStrict, all_but()).code_product,
            ProductKernel::kWarpgroup);
  EXPECT_EQ(routes("auto", SpectrumMode::kStrict, plain_of(K::kCodeSlices)).code_product,
            ProductKernel::kWarp);
  EXPECT_EQ(routes("two-stage+gram-mma", SpectrumMode::kStrict, all_but()).code_product,
            ProductKernel::kWarp);
  EXPECT_EQ(routes("auto", SpectrumMode::kStrict, all_but(), kAda).code_product,
            ProductKernel::kWarp);
  EXPECT_EQ(routes("auto", SpectrumMode::kDefault, {}).newer, NewerKernels{})
      << "nothing was tested";
  EXPECT_THROW(parse_route("two-stage+kernels-former+kernels-former"), UsageError);
}

TEST(CudaRoute, ALibraryThatIsWrongBothWaysIsNotUsed) {
  const TestVerdicts verdicts = all_but({KernelUnderTest::kLibraryEigen});
  EXPECT_THROW(routes("library", SpectrumMode::kDefault, verdicts), UsageError);
  EXPECT_THROW(routes("proof", SpectrumMode::kFast, verdicts), UsageError)
      << "its small eigenproblems";
  EXPECT_EQ(routes("auto", SpectrumMode::kFast, verdicts).first.method(), "gram32+band32+cuda");
  EXPECT_EQ(routes("auto", SpectrumMode::kDefault, verdicts).first.method(), "gram32+band32+cuda");
  EXPECT_FALSE(is_one_by_one(verdicts));
  EXPECT_TRUE(is_one_by_one(plain_of(KernelUnderTest::kLibraryEigen)));
  EXPECT_FALSE(is_one_by_one({})) << "nothing was tested";
}

}  // namespace
}  // namespace vindex::test::cuda_route_test
