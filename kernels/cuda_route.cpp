#include "cuda_route.hpp"

#include <vindex/core/error.hpp>
#include <vindex/measure/spectrum_bounds.hpp>

#include <algorithm>

namespace vindex::kernels {

namespace {

using measure::Mode;

[[noreturn]] void refuse(std::string_view text) {
  throw UsageError(
      "E-SVD-ROUTE",
      "the cuda back end has the routes auto, library, qr and two-stage, the last with "
      "+gram-mma or +gram-wgmma and with +band-plain, +band-tensor or +band-library; "
      "not " +
          std::string(text));
}

/// Tensor cores multiply float64 where NVIDIA built them for it; TF32 everywhere from 8.0 on.
bool has_float64_tensor_cores(const DeviceTraits& device) {
  return (device.major == 8 && device.minor == 0) || device.major == 9 ||
         (device.major == 10 && device.minor == 0);
}

BandRoute best_band(const DeviceTraits& device, bool is_float32) {
  return is_float32 || has_float64_tensor_cores(device) ? BandRoute::kTensor : BandRoute::kPlain;
}

/// Names of kernels that the two-stage route needs and does not have.
std::string missing(const TestVerdicts& verdicts, const std::vector<KernelUnderTest>& needed) {
  std::string names;
  for (const KernelUnderTest kernel : needed) {
    if (!verdicts.has(kernel)) {
      names += (names.empty() ? "" : ", ") + std::string(kernel_name(kernel));
    }
  }
  return names;
}

std::vector<KernelUnderTest> needs(const SpectrumRoute& route, OperandKind kind) {
  if (route.solver != SolverChoice::kTwoStage) {
    return {};
  }
  std::vector<KernelUnderTest> needed = {
      route.is_float32() ? KernelUnderTest::kBand32 : KernelUnderTest::kBand64,
      KernelUnderTest::kChase, KernelUnderTest::kValues};
  if (route.is_float32()) {
    needed.insert(needed.begin(), gram_kernel(kind));
  }
  return needed;
}

}  // namespace

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
  }
  return "unknown kernel";
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

RouteWish parse_route(std::string_view text) {
  RouteWish wish;
  const std::size_t end = std::min(text.find('+'), text.size());
  const std::string_view name = text.substr(0, end);
  if (name == "library") {
    wish.kind = RouteWish::Kind::kLibrary;
  } else if (name == "two-stage") {
    wish.kind = RouteWish::Kind::kTwoStage;
  } else if (name == "qr") {
    wish.kind = RouteWish::Kind::kQr;
  } else if (name != "auto") {
    refuse(text);
  }
  std::string_view rest = text.substr(end);
  if (!rest.empty() && wish.kind != RouteWish::Kind::kTwoStage) {
    refuse(text);
  }
  while (!rest.empty()) {
    rest.remove_prefix(1);
    const std::size_t next = std::min(rest.find('+'), rest.size());
    const std::string_view choice = rest.substr(0, next);
    rest = rest.substr(next);
    const bool is_band = choice.starts_with("band-");
    if (is_band ? wish.names_band : wish.names_product) {
      refuse(text);
    }
    if (choice == "gram-mma") {
      wish.product = ProductKernel::kWarp;
    } else if (choice == "gram-wgmma") {
      wish.product = ProductKernel::kWarpgroup;
    } else if (choice == "band-plain") {
      wish.band = BandRoute::kPlain;
    } else if (choice == "band-tensor") {
      wish.band = BandRoute::kTensor;
    } else if (choice == "band-library") {
      wish.band = BandRoute::kLibrary;
    } else {
      refuse(text);
    }
    (is_band ? wish.names_band : wish.names_product) = true;
  }
  return wish;
}

RoutePlan choose_routes(const RouteWish& wish, Mode mode, OperandKind kind, std::int64_t p,
                        const DeviceTraits& device, const TestVerdicts& verdicts) {
  constexpr SpectrumRoute kLibrary = {.gram = GramChoice::kLibrary64,
                                      .solver = SolverChoice::kLibrary};
  RoutePlan plan;
  if (wish.kind == RouteWish::Kind::kQr) {
    plan.first = {.gram = GramChoice::kLibrary64, .solver = SolverChoice::kQr};
    plan.strict = plan.first;
    return plan;
  }
  plan.first = kLibrary;
  plan.strict = kLibrary;
  plan.has_top = p > measure::kFullSpectrumSize;
  plan.top = kLibrary;
  const bool fits = band_order(p) <= largest_band_order();
  if (wish.kind == RouteWish::Kind::kLibrary || !fits) {
    return plan;
  }
  if (wish.names_product && wish.product == ProductKernel::kWarpgroup &&
      choose_product_kernel(device.major, device.minor) != ProductKernel::kWarpgroup) {
    throw UsageError("E-SVD-ROUTE", "gram-wgmma needs a device of compute capability 9.0");
  }
  if (mode != Mode::kStrict && verdicts.has(gram_kernel(kind))) {
    plan.top.gram = GramChoice::kTensor32;
    plan.top.product =
        wish.names_product ? wish.product : choose_product_kernel(device.major, device.minor);
  }
  const bool is_explicit = wish.kind == RouteWish::Kind::kTwoStage;
  const auto two_stage = [&](GramChoice gram) {
    SpectrumRoute route = {.gram = gram, .solver = SolverChoice::kTwoStage};
    route.product =
        wish.names_product ? wish.product : choose_product_kernel(device.major, device.minor);
    route.band = wish.names_band ? wish.band : best_band(device, gram == GramChoice::kTensor32);
    const std::string lacking = missing(verdicts, needs(route, kind));
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
  plan.first = mode == Mode::kDefault ? two_stage(GramChoice::kTensor32) : plan.strict;
  if (mode == Mode::kDefault && !plan.first.is_float32()) {
    plan.first = plan.strict;  // float64 by our own kernels beats the library's
  }
  plan.may_escalate = plan.first.is_float32();
  return plan;
}

std::vector<KernelUnderTest> kernels_wanted(const RouteWish& wish, Mode mode) {
  if (wish.kind == RouteWish::Kind::kLibrary || wish.kind == RouteWish::Kind::kQr) {
    return {};
  }
  std::vector<KernelUnderTest> wanted = {KernelUnderTest::kBand64, KernelUnderTest::kChase,
                                         KernelUnderTest::kValues};
  if (mode == Mode::kDefault) {
    wanted.push_back(KernelUnderTest::kBand32);
  }
  if (mode != Mode::kStrict) {
    wanted.insert(wanted.end(), {KernelUnderTest::kGramBlockScaled, KernelUnderTest::kGramHalf,
                                 KernelUnderTest::kGramBfloat16, KernelUnderTest::kGramHalfPair});
  }
  return wanted;
}

}  // namespace vindex::kernels
