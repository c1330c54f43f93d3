// Owns the choice of a route on a CUDA device: what --svd-route may say, what a device can do and
// which of our kernels passed their self-test there, to what is run first and what doubtful
// matrices get. Pure; prints nothing, touches no device.
//
//   auto                 two-stage where its kernels passed their self-tests, else library
//   library              float64 Gram by cuBLAS, eigenvalues by cuSOLVER
//   qr                   QR by row blocks and bidiagonal values by cuSOLVER, for every matrix
//   two-stage[+CHOICE]   Gram on tensor cores (default) or by cuBLAS in float64 (strict, fast),
//   band
//                        reduction, bulge chasing, bisection. Choices, at most one of each kind:
//                        gram-mma gram-wgmma; band-plain band-tensor band-library
#pragma once

#include "band/band_reduction.hpp"
#include "gram/gram_plan.hpp"

#include <vindex/measure/backend.hpp>

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace vindex::kernels {

/// What of a device decides about routes.
struct DeviceTraits {
  int major = 0, minor = 0;      ///< compute capability
  std::size_t shared_bytes = 0;  ///< that a block may ask for
};

/// Our kernels as routes need them. Gram kernels are tested for each kind of operand.
enum class KernelUnderTest : std::uint8_t {
  kGramBlockScaled,
  kGramHalf,
  kGramBfloat16,
  kGramHalfPair,
  kBand32,
  kBand64,
  kChase,
  kValues,
};
inline constexpr int kKernelsUnderTest = 8;
std::string_view kernel_name(KernelUnderTest kernel);
KernelUnderTest gram_kernel(OperandKind kind);

/// Verdicts; a kernel that was not tested has not passed. Gram kernels and band reductions come in
/// two variants, a fast one (wgmma where the device has it; tensor cores) and a plain one
/// (mma.sync; multiply-add of the CUDA cores), which takes over where the fast one fails. Others
/// have one, `passed`.
struct TestVerdicts {
  bool passed[kKernelsUnderTest] = {};
  bool plain_passed[kKernelsUnderTest] = {};
  bool has(KernelUnderTest kernel) const { return passed[static_cast<std::size_t>(kernel)]; }
  bool has_plain(KernelUnderTest kernel) const {
    return plain_passed[static_cast<std::size_t>(kernel)];
  }
};

enum class GramChoice : std::uint8_t { kTensor32, kLibrary64 };
enum class SolverChoice : std::uint8_t { kTwoStage, kLibrary, kQr };

/// One way to all singular values of a matrix.
struct SpectrumRoute {
  GramChoice gram = GramChoice::kLibrary64;
  SolverChoice solver = SolverChoice::kLibrary;
  ProductKernel product = ProductKernel::kWarp;
  BandRoute band = BandRoute::kPlain;
  bool is_float32() const { return gram == GramChoice::kTensor32; }
  /// For the results file: "gram32+band32+cuda", ...
  std::string method() const;
  /// The same for an iteration on its Gram: "gram32+chebyshev+cuda", ...
  std::string top_method() const;
  friend bool operator==(const SpectrumRoute&, const SpectrumRoute&) = default;
};

/// What --svd-route asked for.
struct RouteWish {
  enum class Kind : std::uint8_t { kAuto, kLibrary, kTwoStage, kQr } kind = Kind::kAuto;
  bool names_product = false, names_band = false;
  ProductKernel product = ProductKernel::kWarp;
  BandRoute band = BandRoute::kPlain;
};

/// Errors: UsageError E-SVD-ROUTE naming the choices.
RouteWish parse_route(std::string_view text);

struct RoutePlan {
  SpectrumRoute first;        ///< tried on every matrix
  SpectrumRoute strict;       ///< for those whose first result is doubtful
  bool may_escalate = false;  ///< first and strict differ in accuracy
  /// Where the top of a spectrum is wanted (`fast`, vectors) and the matrix is large enough for an
  /// iteration: whose Gram it works on. The other parts of the route are not used.
  bool has_top = false;
  SpectrumRoute top;
};

/// The routes for matrices with a short side of `p` whose Gram operands are of `kind`.
/// Errors: UsageError E-SVD-ROUTE where the wish names what this device lacks, E-SELF-TEST where it
/// names a kernel that failed its self-test here. A short side beyond what the band reduction takes
/// goes to the library (method() says so), and so does what `auto` has no trusted kernel for.
RoutePlan choose_routes(const RouteWish& wish, measure::Mode mode, OperandKind kind, std::int64_t p,
                        const DeviceTraits& device, const TestVerdicts& verdicts);

/// Which kernels a run with this wish and mode may want tested; empty where none.
std::vector<KernelUnderTest> kernels_wanted(const RouteWish& wish, measure::Mode mode);

}  // namespace vindex::kernels
