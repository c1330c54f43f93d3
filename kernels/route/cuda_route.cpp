// Owns the choice itself: the kernels that a preference names, those that are trusted, the trials
// that are still to be run, and the route that follows.
#include "cuda_route.hpp"

#include "kernels/band/back_transform/wide_back_transform.hpp"
#include "kernels/band/deferred/deferred_band.hpp"
#include "kernels/gram/gram_plan.hpp"
#include "statistics/judgement/spectrum_bounds.hpp"
#include <vindex/error.hpp>

#include <algorithm>
#include <iterator>
#include <optional>

namespace vindex::kernels {

namespace {

[[noreturn]] void refuse(std::string_view text) {
  throw UsageError(
      "E-SVD-ROUTE",
      "the cuda back end has the routes auto, library, qr, proof and two-stage, the last with "
      "+gram-mma, +gram-wgmma or +gram-clusters, with +band-plain or +band-tensor, and with "
      "+kernels-former; not " +
          std::string(text));
}

/// Where float64 is slow, 28 products of bytes beat one of float64 by far.
bool wants_sliced_gram(const RoutePreference& preference, const DeviceTraits& device) {
  return (preference.kind == RoutePreference::Kind::kAuto ||
          preference.kind == RoutePreference::Kind::kTwoStage) &&
         !has_fast_float64(device);
}

BandRoute best_band(const DeviceTraits& device, bool is_float32) {
  return is_float32 || has_fast_float64(device) ? BandRoute::kTensor : BandRoute::kPlain;
}

Variant variant_of(ProductKernel product) {
  return product == ProductKernel::kWarp ? Variant::kPlain : Variant::kFast;
}

Variant variant_of(BandRoute band) {
  return band == BandRoute::kTensor ? Variant::kFast : Variant::kPlain;
}

/// The product kernel to use for operands of `kind`, or none where no trusted one may be.
std::optional<ProductKernel> trusted_product(const RoutePreference& preference, OperandKind kind,
                                             const DeviceTraits& device,
                                             const TestVerdicts& verdicts) {
  const auto is_trusted = [&](ProductKernel product) {
    return product == ProductKernel::kWarpgroupPairs
               ? verdicts.has(KernelUnderTest::kGramClusters)
               : verdicts.has(gram_kernel(kind), variant_of(product));
  };
  if (preference.names_product) {
    return is_trusted(preference.product) ? std::optional(preference.product) : std::nullopt;
  }
  for (const ProductKernel product :
       {choose_product_kernel(device.major, device.minor), ProductKernel::kWarp}) {
    if (is_trusted(product)) {
      return product;
    }
  }
  return std::nullopt;
}

/// The same for the reduction to a band.
std::optional<BandRoute> trusted_band(const RoutePreference& preference, bool is_float32,
                                      const DeviceTraits& device, const TestVerdicts& verdicts) {
  const KernelUnderTest kernel = is_float32 ? KernelUnderTest::kBand32 : KernelUnderTest::kBand64;
  const auto is_trusted = [&](BandRoute band) { return verdicts.has(kernel, variant_of(band)); };
  if (preference.names_band) {
    return is_trusted(preference.band) ? std::optional(preference.band) : std::nullopt;
  }
  for (const BandRoute band : {best_band(device, is_float32), BandRoute::kPlain}) {
    if (is_trusted(band)) {
      return band;
    }
  }
  return std::nullopt;
}

/// `fast` is the float32 spectrum of `default`, unless it is to prove its bounds.
bool begins_in_float32(const RoutePreference& preference, SpectrumMode mode) {
  return mode == SpectrumMode::kDefault || (mode == SpectrumMode::kFast && !preference.proof);
}

/// Refuses a plan that needs the library's eigenvalues where they were found wrong.
RoutePlan with_sound_library(const RoutePlan& plan, SpectrumMode mode,
                             const TestVerdicts& verdicts) {
  const bool is_needed = plan.first.solver == SolverChoice::kLibrary ||
                         plan.strict.solver == SolverChoice::kLibrary ||
                         (plan.has_top && mode == SpectrumMode::kFast && !plan.first.is_float32());
  if (is_needed && verdicts.failed(KernelUnderTest::kLibraryEigen, Variant::kPlain) &&
      verdicts.failed(KernelUnderTest::kLibraryEigen, Variant::kFast)) {
    throw UsageError("E-SELF-TEST",
                     "cuSOLVER's eigenvalues failed their self-test on this device, in batches and "
                     "one by one, and this route needs them; use --backend cpu");
  }
  return plan;
}

constexpr KernelUnderTest kGramKernels[] = {
    KernelUnderTest::kGramBlockScaled, KernelUnderTest::kGramHalf, KernelUnderTest::kGramBfloat16,
    KernelUnderTest::kGramHalfPair};

/// A kernel of NewerKernels and the flag that says that it is used.
struct NewerKernel {
  KernelUnderTest kernel;
  bool NewerKernels::*flag;
};
constexpr NewerKernel kNewerKernels[] = {
    {KernelUnderTest::kChase32, &NewerKernels::chase32},
    {KernelUnderTest::kSharedChase, &NewerKernels::shared_chase},
    {KernelUnderTest::kValues32, &NewerKernels::values32},
    {KernelUnderTest::kDeferredBand, &NewerKernels::deferred_band},
    {KernelUnderTest::kNativeOperands, &NewerKernels::native_operands},
    {KernelUnderTest::kCodeSlices, &NewerKernels::code_slices},
    {KernelUnderTest::kWideBackTransform, &NewerKernels::wide_back_transform},
};

/// Those of NewerKernels that a run with this preference and mode can use on this device.
std::vector<KernelTrial> newer_trials(const RoutePreference& preference, SpectrumMode mode,
                                      const DeviceTraits& device) {
  std::vector<KernelTrial> wanted;
  const bool is_two_stage = preference.kind == RoutePreference::Kind::kAuto ||
                            preference.kind == RoutePreference::Kind::kTwoStage;
  if (preference.former || !is_two_stage) {
    return wanted;
  }
  if (begins_in_float32(preference, mode)) {
    wanted.push_back({KernelUnderTest::kChase32, Variant::kPlain});
    wanted.push_back({KernelUnderTest::kValues32, Variant::kPlain});
  }
  const BandRoute band = preference.names_band ? preference.band : best_band(device, true);
  if (begins_in_float32(preference, mode) && band == BandRoute::kTensor &&
      defers_updates(device.shared_bytes)) {
    wanted.push_back({KernelUnderTest::kDeferredBand, Variant::kPlain});
  }
  if (mode != SpectrumMode::kStrict) {
    wanted.push_back({KernelUnderTest::kNativeOperands, Variant::kPlain});
  }
  // Behind `default` float64 stands for what float32 left open.
  if (mode != SpectrumMode::kFast) {
    wanted.push_back({KernelUnderTest::kCodeSlices, Variant::kPlain});
  }
  // Tails of float32 spectra.
  if (mode == SpectrumMode::kDefault && wide_transform_warps(device.shared_bytes) > 0) {
    wanted.push_back({KernelUnderTest::kWideBackTransform, Variant::kPlain});
  }
  // The last, since its blocks wait for one another.
  wanted.push_back({KernelUnderTest::kSharedChase, Variant::kPlain});
  return wanted;
}

/// Whether wgmma may multiply codes.
bool wants_code_warpgroups(const RoutePreference& preference, const DeviceTraits& device) {
  const bool is_refused = preference.names_product && preference.product == ProductKernel::kWarp;
  return !preference.former && !is_refused &&
         choose_product_kernel(device.major, device.minor) == ProductKernel::kWarpgroup;
}

/// What the self-tests leave of them.
NewerKernels trusted_newer(const RoutePreference& preference, const DeviceTraits& device,
                           const TestVerdicts& verdicts) {
  NewerKernels newer;
  if (preference.kind == RoutePreference::Kind::kLibrary) {
    return newer;
  }
  for (const NewerKernel& one : kNewerKernels) {
    newer.*one.flag = !preference.former && verdicts.has(one.kernel);
  }
  if (!has_fast_float64(device)) {
    newer.chase32 = !verdicts.failed(KernelUnderTest::kChase32);
  }
  return newer;
}

bool is_gram(KernelUnderTest kernel) { return kernel <= KernelUnderTest::kGramHalfPair; }
bool is_band(KernelUnderTest kernel) {
  return kernel == KernelUnderTest::kBand32 || kernel == KernelUnderTest::kBand64;
}

}  // namespace

bool has_fast_float64(const DeviceTraits& device) {
  return (device.major == 8 && device.minor == 0) || device.major == 9 ||
         (device.major == 10 && device.minor == 0);
}

std::string_view kernel_name(KernelUnderTest kernel) {
  switch (kernel) {
    case KernelUnderTest::kGramBlockScaled:
      return "gram of block-scaled fp8";
    case KernelUnderTest::kGramHalf:
      return "gram of binary16";
    case KernelUnderTest::kGramBfloat16:
      return "gram of bfloat16";
    case KernelUnderTest::kGramHalfPair:
      return "gram of binary16 pairs";
    case KernelUnderTest::kBand32:
      return "band reduction in float32";
    case KernelUnderTest::kBand64:
      return "band reduction in float64";
    case KernelUnderTest::kChase:
      return "bulge chasing";
    case KernelUnderTest::kValues:
      return "bisection";
    case KernelUnderTest::kLibraryEigen:
      return "eigenvalues by cuSOLVER";
    case KernelUnderTest::kSlicedGram:
      return "gram in float64 by int8 products";
    case KernelUnderTest::kTail:
      return "the smallest values again";
    case KernelUnderTest::kGramClusters:
      return "gram by wgmma in clusters";
    case KernelUnderTest::kChase32:
      return "bulge chasing in float32";
    case KernelUnderTest::kSharedChase:
      return "bulge chasing by several blocks";
    case KernelUnderTest::kValues32:
      return "bisection in float32";
    case KernelUnderTest::kDeferredBand:
      return "band reduction with deferred updates";
    case KernelUnderTest::kNativeOperands:
      return "operands of fp8 by the device's conversions";
    case KernelUnderTest::kCodeSlices:
      return "gram in float64 of fp8 codes by int8 products";
    case KernelUnderTest::kWideBackTransform:
      return "back-transformation of 32 columns";
  }
  return "unknown kernel";
}

bool is_newer_kernel(KernelUnderTest kernel) {
  return std::any_of(std::begin(kNewerKernels), std::end(kNewerKernels),
                     [&](const NewerKernel& one) { return one.kernel == kernel; });
}

std::string trial_name(const KernelTrial& trial) {
  const bool is_fast = trial.variant == Variant::kFast;
  std::string name(kernel_name(trial.kernel));
  if (is_gram(trial.kernel)) {
    name += is_fast ? " by wgmma" : " by mma.sync";
  } else if (trial.kernel == KernelUnderTest::kCodeSlices) {
    name += is_fast ? ", wgmma" : "";
  } else if (trial.kernel == KernelUnderTest::kTail) {
    name += is_fast ? ", behind tensor cores" : "";
  } else if (is_band(trial.kernel)) {
    name += is_fast ? " on tensor cores" : " without tensor cores";
  } else if (trial.kernel == KernelUnderTest::kLibraryEigen) {
    name += is_fast ? " in batches" : " one by one";
  }
  return name;
}

KernelUnderTest gram_kernel(OperandKind kind) {
  switch (kind) {
    case OperandKind::kBlockScaled:
      return KernelUnderTest::kGramBlockScaled;
    case OperandKind::kHalf:
    case OperandKind::kRoundedHalf:
      return KernelUnderTest::kGramHalf;
    case OperandKind::kBfloat16:
      return KernelUnderTest::kGramBfloat16;
    case OperandKind::kHalfPair:
      break;
  }
  return KernelUnderTest::kGramHalfPair;
}

std::string SpectrumRoute::method() const {
  if (solver == SolverChoice::kQr) {
    return "qr+bidiag64+cuda";
  }
  const std::string bits = is_float32() ? "32" : "64";
  return "gram" + bits + (solver == SolverChoice::kTwoStage ? "+band" : "+trd") + bits + "+cuda";
}

std::string SpectrumRoute::top_method() const {
  return std::string(is_float32() ? "gram32" : "gram64") + "+chebyshev+cuda";
}

RoutePreference parse_route(std::string_view text) {
  RoutePreference preference;
  const std::size_t end = std::min(text.find('+'), text.size());
  const std::string_view name = text.substr(0, end);
  if (name == "library") {
    preference.kind = RoutePreference::Kind::kLibrary;
  } else if (name == "two-stage") {
    preference.kind = RoutePreference::Kind::kTwoStage;
  } else if (name == "qr") {
    preference.kind = RoutePreference::Kind::kQr;
  } else if (name == kProofRoute) {
    preference.proof = true;
  } else if (name != "auto") {
    refuse(text);
  }
  std::string_view rest = text.substr(end);
  if (!rest.empty() && preference.kind != RoutePreference::Kind::kTwoStage) {
    refuse(text);
  }
  while (!rest.empty()) {
    rest.remove_prefix(1);
    const std::size_t next = std::min(rest.find('+'), rest.size());
    const std::string_view choice = rest.substr(0, next);
    rest = rest.substr(next);
    if (choice == "kernels-former" && !preference.former) {
      preference.former = true;
      continue;
    }
    const bool is_band = choice.starts_with("band-");
    if (is_band ? preference.names_band : preference.names_product) {
      refuse(text);
    }
    if (choice == "gram-mma") {
      preference.product = ProductKernel::kWarp;
    } else if (choice == "gram-wgmma") {
      preference.product = ProductKernel::kWarpgroup;
    } else if (choice == "gram-clusters") {
      preference.product = ProductKernel::kWarpgroupPairs;
    } else if (choice == "band-plain") {
      preference.band = BandRoute::kPlain;
    } else if (choice == "band-tensor") {
      preference.band = BandRoute::kTensor;
    } else {
      refuse(text);
    }
    (is_band ? preference.names_band : preference.names_product) = true;
  }
  return preference;
}

RoutePlan choose_routes(const RoutePreference& preference, SpectrumMode mode, OperandKind kind,
                        std::int64_t p, const DeviceTraits& device, const TestVerdicts& verdicts) {
  constexpr SpectrumRoute kLibrary = {.gram = GramChoice::kLibrary64,
                                      .solver = SolverChoice::kLibrary};
  RoutePlan plan;
  if (preference.kind == RoutePreference::Kind::kQr) {
    plan.first = {.gram = GramChoice::kLibrary64, .solver = SolverChoice::kQr};
    plan.strict = plan.first;
    return plan;
  }
  plan.first = kLibrary;
  plan.strict = kLibrary;
  plan.newer = trusted_newer(preference, device, verdicts);
  if (wants_code_warpgroups(preference, device) &&
      verdicts.has(KernelUnderTest::kCodeSlices, Variant::kFast)) {
    plan.code_product = ProductKernel::kWarpgroup;
  }
  plan.sliced_gram =
      wants_sliced_gram(preference, device) && verdicts.has(KernelUnderTest::kSlicedGram);
  plan.has_top = p > statistics::kFullSpectrumSize;
  plan.top = kLibrary;
  const bool fits = band_order(p) <= largest_band_order();
  if (preference.kind == RoutePreference::Kind::kLibrary || !fits) {
    return with_sound_library(plan, mode, verdicts);
  }
  if (preference.names_product && preference.product != ProductKernel::kWarp &&
      choose_product_kernel(device.major, device.minor) != ProductKernel::kWarpgroup) {
    throw UsageError("E-SVD-ROUTE",
                     "gram-wgmma and gram-clusters need a device of compute capability 9.0");
  }
  if (mode != SpectrumMode::kStrict) {
    if (const auto product = trusted_product(preference, kind, device, verdicts)) {
      plan.top.gram = GramChoice::kTensor32;
      plan.top.product = *product;
    } else if (preference.names_product) {
      throw UsageError("E-SELF-TEST",
                       "the Gram kernel that the route names failed its self-test on "
                       "this device for " +
                           std::string(kernel_name(gram_kernel(kind))));
    }
  }
  const bool is_explicit = preference.kind == RoutePreference::Kind::kTwoStage;
  const auto two_stage = [&](GramChoice gram) {
    SpectrumRoute route = {.gram = gram, .solver = SolverChoice::kTwoStage};
    std::string lacking;
    const auto lacks = [&](KernelUnderTest kernel) {
      lacking += (lacking.empty() ? "" : ", ") + std::string(kernel_name(kernel));
    };
    if (route.is_float32()) {
      const auto product = trusted_product(preference, kind, device, verdicts);
      if (product) {
        route.product = *product;
      } else {
        lacks(gram_kernel(kind));
      }
    }
    const auto band = trusted_band(preference, route.is_float32(), device, verdicts);
    if (band) {
      route.band = *band;
    } else {
      lacks(route.is_float32() ? KernelUnderTest::kBand32 : KernelUnderTest::kBand64);
    }
    for (const KernelUnderTest kernel : {KernelUnderTest::kChase, KernelUnderTest::kValues}) {
      if (!verdicts.has(kernel)) {
        lacks(kernel);
      }
    }
    if (lacking.empty()) {
      return route;
    }
    if (is_explicit) {
      throw UsageError("E-SELF-TEST",
                       "the route two-stage cannot be trusted on this device, where "
                       "these kernels failed their self-test: " +
                           lacking + "; use --svd-route library");
    }
    return kLibrary;
  };
  plan.strict = two_stage(GramChoice::kLibrary64);
  plan.first = begins_in_float32(preference, mode) ? two_stage(GramChoice::kTensor32) : plan.strict;
  if (!plan.first.is_float32()) {
    plan.first = plan.strict;  // float64 by our own kernels beats the library's
  }
  plan.may_escalate = plan.first.is_float32();
  plan.keeps_factor =
      mode != SpectrumMode::kFast && (verdicts.has(KernelUnderTest::kTail, Variant::kPlain) ||
                                      verdicts.has(KernelUnderTest::kTail, Variant::kFast));
  return with_sound_library(plan, mode, verdicts);
}

std::vector<KernelTrial> trials_wanted(const RoutePreference& preference, SpectrumMode mode,
                                       const DeviceTraits& device) {
  const std::vector<KernelTrial> library = {{KernelUnderTest::kLibraryEigen, Variant::kPlain},
                                            {KernelUnderTest::kLibraryEigen, Variant::kFast}};
  if (preference.kind == RoutePreference::Kind::kQr) {
    return {};
  }
  if (preference.kind == RoutePreference::Kind::kLibrary) {
    return library;
  }
  std::vector<KernelTrial> bands[2];
  std::vector<KernelTrial> grams[2];
  for (const bool is_float32 : {false, true}) {
    if (is_float32 && !begins_in_float32(preference, mode)) {
      continue;
    }
    const BandRoute best = preference.names_band ? preference.band : best_band(device, is_float32);
    for (const Variant variant : {Variant::kPlain, Variant::kFast}) {
      if (variant == variant_of(best) || (variant == Variant::kPlain && !preference.names_band)) {
        bands[static_cast<std::size_t>(variant)].push_back(
            {is_float32 ? KernelUnderTest::kBand32 : KernelUnderTest::kBand64, variant});
      }
    }
  }
  const ProductKernel able = choose_product_kernel(device.major, device.minor);
  const ProductKernel best = preference.names_product ? preference.product : able;
  for (const KernelUnderTest kernel : kGramKernels) {
    if (mode == SpectrumMode::kStrict) {
      break;
    }
    if (best == ProductKernel::kWarp || !preference.names_product) {
      grams[0].push_back({kernel, Variant::kPlain});
    }
    if (best == ProductKernel::kWarpgroup && able == best) {
      grams[1].push_back({kernel, Variant::kFast});
    }
  }
  if (mode != SpectrumMode::kStrict && best == ProductKernel::kWarpgroupPairs &&
      able == ProductKernel::kWarpgroup) {
    grams[1].push_back({KernelUnderTest::kGramClusters, Variant::kPlain});
  }
  if (mode != SpectrumMode::kFast && wants_code_warpgroups(preference, device)) {
    grams[1].push_back({KernelUnderTest::kCodeSlices, Variant::kFast});
  }
  if (mode != SpectrumMode::kFast) {
    // Behind the first reduction that is tried: what it keeps is the same for all.
    std::vector<KernelTrial>& tried = bands[bands[0].empty() ? 1 : 0];
    tried.push_back({KernelUnderTest::kTail, tried.front().variant});
  }
  std::vector<KernelTrial> wanted = {{KernelUnderTest::kValues, Variant::kPlain},
                                     {KernelUnderTest::kChase, Variant::kPlain}};
  if (wants_sliced_gram(preference, device)) {
    grams[0].push_back({KernelUnderTest::kSlicedGram, Variant::kPlain});
  }
  const std::vector<KernelTrial> newer = newer_trials(preference, mode, device);
  const std::vector<KernelTrial>* const groups[] = {&bands[0], &library, &grams[0],
                                                    &bands[1], &newer,   &grams[1]};
  for (const auto* group : groups) {
    wanted.insert(wanted.end(), group->begin(), group->end());
  }
  return wanted;
}

bool is_one_by_one(const TestVerdicts& verdicts) {
  return verdicts.failed(KernelUnderTest::kLibraryEigen, Variant::kFast) &&
         verdicts.has(KernelUnderTest::kLibraryEigen, Variant::kPlain);
}

std::string route_without(const RoutePreference& preference, const KernelTrial& trial) {
  const bool is_clusters = trial.kernel == KernelUnderTest::kGramClusters;
  const bool has_other =
      is_clusters || (trial.variant == Variant::kFast && trial.kernel != KernelUnderTest::kTail);
  if (trial.kernel == KernelUnderTest::kLibraryEigen) {
    return "two-stage";
  }
  const bool is_newer = is_newer_kernel(trial.kernel);
  if (!has_other && !is_newer) {
    return "library";
  }
  std::string route = "two-stage";
  if (is_gram(trial.kernel)) {
    route += "+gram-mma";
  } else if (is_clusters) {
    route += "+gram-wgmma";
  } else if (preference.names_product) {
    route += preference.product == ProductKernel::kWarp        ? "+gram-mma"
             : preference.product == ProductKernel::kWarpgroup ? "+gram-wgmma"
                                                               : "+gram-clusters";
  }
  if (is_band(trial.kernel)) {
    route += "+band-plain";
  } else if (preference.names_band) {
    route += preference.band == BandRoute::kPlain ? "+band-plain" : "+band-tensor";
  }
  if (is_newer || preference.former) {
    route += "+kernels-former";
  }
  return route;
}

}  // namespace vindex::kernels
