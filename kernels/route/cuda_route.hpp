// Owns the choice of a route on a CUDA device: what --svd-route may say, what a device can do and
// which of our kernels passed their self-test there, to what is run first and what doubtful
// matrices get. Pure; prints nothing, touches no device.
//
//   auto                 two-stage where its kernels passed their self-tests, else library
//   proof                the same; `fast` iterates on a Gram and proves its bounds
//   library              float64 Gram by cuBLAS, eigenvalues by cuSOLVER
//   qr                   QR by row blocks and bidiagonal values by cuSOLVER, for every matrix
//   two-stage[+CHOICE]   Gram on tensor cores or, in strict, by cuBLAS in float64; band reduction,
//                        bulge chasing, bisection. Choices, at most one of each kind:
//                        gram-mma gram-wgmma gram-clusters; band-plain band-tensor;
//                        kernels-former
#pragma once

#include "backend/backend.hpp"
#include "kernels/band/band_batch.hpp"
#include "kernels/gram/gram_shape.hpp"

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace vindex::kernels {

/// What of a device decides about routes.
struct DeviceTraits {
  int major = 0, minor = 0;      ///< compute capability
  std::size_t shared_bytes = 0;  ///< that a block may ask for
  int multiprocessors = 0;       ///< 0: not known
};

/// True where the device has float64 units for more than compatibility: at 1/2 of float32 and not
/// 1/64. Those are where its tensor cores multiply float64 too; TF32 they all do from 8.0 on.
bool has_fast_float64(const DeviceTraits& device);

/// What routes need to trust: our kernels, of which Gram kernels are tested for each kind of
/// operand, and the library's eigenvalues.
enum class KernelUnderTest : std::uint8_t {
  kGramBlockScaled,
  kGramHalf,
  kGramBfloat16,
  kGramHalfPair,
  kBand32,
  kBand64,
  kChase,
  kValues,
  kLibraryEigen,
  kSlicedGram,
  kTail,
  kGramClusters,  ///< of all operands that it multiplies; only where the preference names it
  // Of NewerKernels, in its order.
  kChase32,
  kSharedChase,
  kValues32,
  kDeferredBand,
  kNativeOperands,
  kCodeSlices,
  kWideBackTransform,
};
inline constexpr int kKernelsUnderTest = 19;
std::string_view kernel_name(KernelUnderTest kernel);
/// Whether it is one of NewerKernels, beside which a former kernel stands.
bool is_newer_kernel(KernelUnderTest kernel);
KernelUnderTest gram_kernel(OperandKind kind);

/// Gram kernels, band reductions (and tails behind them) and the library's eigenvalues come in two
/// variants: a fast one (wgmma; tensor cores; XsyevBatched) and a plain one (mma.sync; multiply-add
/// of the CUDA cores; Xsyevd one by one) that takes over where the fast one fails. Others are plain
/// only.
enum class Variant : std::uint8_t { kPlain, kFast };

struct KernelTrial {
  KernelUnderTest kernel = KernelUnderTest::kValues;
  Variant variant = Variant::kPlain;
  friend bool operator==(const KernelTrial&, const KernelTrial&) = default;
};
/// "gram of binary16 by wgmma", "bisection", ...
std::string trial_name(const KernelTrial& trial);

/// What the self-tests said; what was not tried has not passed.
class TestVerdicts {
 public:
  void set(const KernelTrial& trial, bool passed) {
    at(trial) = passed ? State::kPassed : State::kFailed;
  }
  bool has(KernelUnderTest kernel, Variant variant = Variant::kPlain) const {
    return at({kernel, variant}) == State::kPassed;
  }
  bool failed(KernelUnderTest kernel, Variant variant = Variant::kPlain) const {
    return at({kernel, variant}) == State::kFailed;
  }

 private:
  enum class State : std::uint8_t { kUntried, kPassed, kFailed };
  State& at(const KernelTrial& trial) {
    return states_[static_cast<std::size_t>(trial.kernel)][static_cast<std::size_t>(trial.variant)];
  }
  State at(const KernelTrial& trial) const {
    return states_[static_cast<std::size_t>(trial.kernel)][static_cast<std::size_t>(trial.variant)];
  }
  State states_[kKernelsUnderTest][2] = {};
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

/// Kernels that do in less time what a former one does, which stays until a device has judged them:
/// each is used where it passed its self-test, or else the former one is.
struct NewerKernels {
  /// Bulge chasing in float32, of float32 spectra; without fast float64 it is the former way too,
  /// and what is left out is what failed.
  bool chase32 = false;
  bool shared_chase = false;   ///< bulge chasing by flags; several blocks a matrix in small batches
  bool values32 = false;       ///< bisection in float32, of float32 spectra
  bool deferred_band = false;  ///< updates of several panels at once in the float32 reduction
  bool native_operands = false;      ///< E4M3 operands by conversions of the device
  bool code_slices = false;          ///< float64 Gram matrices of E4M3 codes by int8 products
  bool wide_back_transform = false;  ///< reflectors read once for 32 columns
  friend bool operator==(const NewerKernels&, const NewerKernels&) = default;
};

/// What --svd-route asked for.
struct RoutePreference {
  enum class Kind : std::uint8_t { kAuto, kLibrary, kTwoStage, kQr } kind = Kind::kAuto;
  bool names_product = false, names_band = false;
  ProductKernel product = ProductKernel::kWarp;
  BandRoute band = BandRoute::kPlain;
  bool proof = false;   ///< `fast` is to prove its bounds for each matrix
  bool former = false;  ///< without NewerKernels
};

/// Errors: UsageError E-SVD-ROUTE naming the choices.
RoutePreference parse_route(std::string_view text);

struct RoutePlan {
  SpectrumRoute first;        ///< tried on every matrix
  SpectrumRoute strict;       ///< for those whose first result is doubtful
  bool may_escalate = false;  ///< first and strict differ in accuracy
  bool keeps_factor = false;  ///< reductions keep what a tail needs, since its kernels passed
  bool sliced_gram = false;   ///< float64 Gram matrices by int8 products (sliced_gram.hpp)
  NewerKernels newer = {};
  ProductKernel code_product = ProductKernel::kWarp;  ///< of newer.code_slices
  /// Where the top of a spectrum is wanted (vectors; `fast` without a float32 `first`, which is all
  /// of `fast` otherwise) and the matrix is large enough for an iteration: whose Gram it works on.
  /// The other parts of the route are not used.
  bool has_top = false;
  SpectrumRoute top;
};

/// The routes for matrices with a short side of `p` whose Gram operands are of `kind`.
/// Errors: UsageError E-SVD-ROUTE where the preference names what this device lacks, E-SELF-TEST
/// where it names a kernel that failed its self-test here, or where the library is needed and
/// failed by either call. A short side beyond what the band reduction takes goes to the library
/// (method() says so), and so does what `auto` has no trusted kernel for.
RoutePlan choose_routes(const RoutePreference& preference, SpectrumMode mode, OperandKind kind,
                        std::int64_t p, const DeviceTraits& device, const TestVerdicts& verdicts);

/// What a run with this preference and mode may use, in the order in which it should be tried: what
/// is least likely to harm the device first, since a fault ends all trials of a process. Plain
/// variants come before fast ones, and wgmma, whose kernel can wait for what never comes, last.
std::vector<KernelTrial> trials_wanted(const RoutePreference& preference, SpectrumMode mode,
                                       const DeviceTraits& device);

/// Whether eigenvalues of the library are asked for one by one, because only that passed.
bool is_one_by_one(const TestVerdicts& verdicts);

/// What --svd-route may say instead of `preference` to do without the kernel of `trial`.
std::string route_without(const RoutePreference& preference, const KernelTrial& trial);

}  // namespace vindex::kernels
