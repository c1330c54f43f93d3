// Owns what "purified" means: how each method changes a matrix of weights, and nothing of files.
//   svd-shrink      optimal shrinkage of singular values for the Frobenius norm
//   svd-gd          hard threshold of Gavish and Donoho (arXiv 1305.5870)
//   laser           the leading floor(rho min(m, n)) triplets (arXiv 2312.13558)
//   fft             bins of the flat transform that hold a share rho of the energy
//   fft-universal   bins above sigma sqrt(ln N), sigma = median|X| / sqrt(ln 2)
//   haar            details that have no coherent parent are attenuated
//   haar-bayes      BayesShrink per band (Chang, Yu, Vetterli 2000)
//   haar-visu       VisuShrink (Donoho, Johnstone 1994)
// The SVD methods commute with permutations of rows and columns. The flat ones do not: they look
// for smoothness in storage order, which a network does not have. Of pure noise `haar` keeps 79 %
// of the energy, `fft` its share rho, the others next to nothing: noise_kept().
//
// Also owns the decision whether a matrix may be purified: a pure function of what is known of it,
// with its reason in words. Denoisers do harm where there is no noise to take away: on a power-law
// spectrum every one of them leaves many times the error that it finds. So the bulk of the spectrum
// must look like noise, something must stand out of it, and not much may be lost.
#pragma once

#include "backend/backend.hpp"
#include "decode/encoding/encoded_matrix.hpp"

#include <cstdint>
#include <optional>
#include <span>
#include <stop_token>
#include <string>
#include <string_view>
#include <vector>

namespace vindex::purify {

enum class PurifyMethod : std::uint8_t {
  kSvdShrink,
  kSvdGd,
  kLaser,
  kFft,
  kFftUniversal,
  kHaar,
  kHaarBayes,
  kHaarVisu,
  kCount
};

/// "svd-shrink", ...: as above.
std::string_view method_name(PurifyMethod method);
std::optional<PurifyMethod> method_of(std::string_view name);
/// True for the three that change singular values and nothing else.
bool is_spectral(PurifyMethod method);

/// A method with its parameters. Only its own are looked at.
struct PurifyRule {
  PurifyMethod method = PurifyMethod::kSvdShrink;
  double energy_share = 0.95;  ///< fft: rho, in (0, 1]
  double rank_share = 0.1;     ///< laser: rho, in [0, 1]
  std::int32_t levels = 6;     ///< haar*: scales
  double tau = 0.5;            ///< haar: coherence from which a detail stays whole
};

/// Purifies `values`, flat in storage order, in place by a method that is not spectral. Any length.
/// Errors: expects() on a spectral method. Weights must be finite.
/// Memory: flat_method_bytes(). Pure; any thread.
void purify_flat(const PurifyRule& rule, std::span<float> values);

/// Upper bound of the bytes that purify_flat() takes beside the values.
std::uint64_t flat_method_bytes(PurifyMethod method, std::uint64_t count);

/// What is noise in a spectrum of p values, n the longer side: scale and ranks as
/// statistics/spectrum/spectral_theta.hpp has them, beside the distance of the whole to
/// Marchenko-Pastur's law.
struct NoiseFit {
  double aspect = 1.0;  ///< p / n
  double sigma = 0.0;   ///< standard deviation of a weight of noise; 0: there is none to speak of
  double unit = 0.0;    ///< sigma sqrt(n): noise ends at (1 + sqrt(p/n)) of it
  double ks = 1.0;      ///< Kolmogorov-Smirnov distance of all p values to the law
  std::int64_t rank_edge = 0;  ///< singular values beyond the end of the noise
  std::int64_t rank_gd = 0;    ///< beyond the threshold of Gavish and Donoho
};

/// The fit of all min(rows, cols) singular values, descending, at least one. A spectrum whose
/// median is lost in float32 beside the largest value (exact low rank, a constant) has sigma 0.
NoiseFit fit_noise(std::int64_t rows, std::int64_t cols, std::span<const double> singular_values);

/// eta(z) of the shrinker that is optimal in the Frobenius norm, z = y / (sigma sqrt(n)): 0 up to
/// 1 + sqrt(beta), then sqrt((z^2 - beta - 1)^2 - 4 beta) / z. Source: Gavish and Donoho, Optimal
/// shrinkage of singular values, IEEE Trans. Inf. Theory 2017.
double optimal_shrinkage(double z, double aspect);

/// The new leading singular values under a spectral rule; all others become zero. Empty: the
/// result would be the zero matrix. Errors: expects() on a rule that is not spectral.
std::vector<double> kept_values(const PurifyRule& rule, const NoiseFit& fit,
                                std::span<const double> singular_values);

/// Share of the energy of independent Gaussian numbers, rows x cols (both at least 2), that a rule
/// keeps: its null. What is kept of a matrix says something where it is more. Spectral methods: of
/// the mean spectrum of noise; flat ones: of one draw, the same on every machine.
/// Memory: 4 rows cols bytes and flat_method_bytes(), or the spectrum. Pure; any thread.
double noise_kept(const PurifyRule& rule, std::int64_t rows, std::int64_t cols);

/// How a matrix W' differs from W.
struct ChangeStatistics {
  double energy_removed = 0.0;   ///< 1 - |W'|^2 / |W|^2
  double cosine = 1.0;           ///< <W, W'> / (|W| |W'|); 0 where W' is zero
  double relative_change = 0.0;  ///< |W - W'| / |W|
};

/// Of new singular values on the old vectors: exact without either matrix.
ChangeStatistics change_of_values(std::span<const double> singular_values,
                                  std::span<const double> kept);
/// Of weights.
ChangeStatistics change_of_weights(std::span<const float> before, std::span<const float> after);

struct GateRules {
  double largest_ks = 0.10;          ///< distance to Marchenko-Pastur must be below this
  double energy_cap = 0.05;          ///< most energy that may be removed
  std::int64_t min_short_side = 32;  ///< fewer singular values do not determine a bulk
  bool force = false;                ///< the three above and an empty rank are no obstacle
};

enum class GateVerdict : std::uint8_t {
  kOpen,    ///< every condition holds
  kForced,  ///< some do not hold, and --force said go on
  kShut,
};
std::string_view verdict_name(GateVerdict verdict);  ///< "open", "forced", "shut"

struct GateDecision {
  GateVerdict verdict = GateVerdict::kShut;
  std::string_view word;  ///< the first of them for a table: "no bulk", "no rank", "over cap", ...
  std::string reason;     ///< which conditions do not hold; empty where open
  bool passes() const { return verdict != GateVerdict::kShut; }
};

/// Decides for a matrix of rows x cols with this fit. `energy_removed`: nothing where it is not
/// known yet; a matrix that passes is asked for again with it. A result that would be the zero
/// matrix (energy removed 1) never passes.
GateDecision decide_gate(const GateRules& rules, std::int64_t rows, std::int64_t cols,
                         const NoiseFit& fit, std::optional<double> energy_removed);

/// W' = b a; row-major float32. Each factor has the root of the new singular values.
struct LowRank {
  std::int64_t rows = 0, cols = 0, rank = 0;
  std::vector<float> a;  ///< rank x cols
  std::vector<float> b;  ///< rows x rank
  /// Largest |W^T u - s v| of the triplets over the largest singular value of W.
  double residual = 0.0;
  /// Empty, or why there are no factors: the back end's reason.
  std::string failure;
};

/// The factors of `matrix` with its leading singular values replaced by `kept` (descending order of
/// the old ones, at least one, at most min(rows, cols)). Errors: those of Backend::measure().
LowRank low_rank_of(Backend& backend, const decode::EncodedMatrix& matrix,
                    std::span<const double> kept, std::stop_token stop = {});

/// b a into `out`, rows x cols.
void multiply_out(const LowRank& factors, std::span<float> out);

}  // namespace vindex::purify
