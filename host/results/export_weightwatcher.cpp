// Owns the export `weightwatcher`: the columns that WeightWatcher 0.7 gives per layer, under its
// names and with its meanings (lambda = s^2; its spectral_norm is s_1^2, its norm the squared
// Frobenius norm). Source: CalculatedContent/WeightWatcher at d6fd015, weightwatcher.py and
// RMT_Util.py.
#include "export_formats.hpp"
#include "text_sink.hpp"

#include <fmt/format.h>

#include <cmath>
#include <limits>

namespace vindex::results {

namespace {

using measure::Metric;

constexpr double kNaN = std::numeric_limits<double>::quiet_NaN();

constexpr const char* kHeader =
    "layer_id,name,longname,layer_type,N,M,rf,Q,has_esd,num_evals,sv_max,sv_min,lambda_max,"
    "spectral_norm,log_spectral_norm,norm,log_norm,matrix_rank,rank_loss,weak_rank_loss,"
    "stable_rank,entropy,alpha,xmin,xmax,D,sigma,num_pl_spikes,alpha_weighted,log_alpha_norm,"
    "status,warning\n";

/// What only the spectrum tells: NaN where it is not stored whole.
struct FromSpectrum {
  double weak_rank_loss = kNaN;
  double log_alpha_norm = kNaN;
};

FromSpectrum from_spectrum(ExportInput& input, const StoredRow& row) {
  FromSpectrum out;
  if (row.sigma_count == 0 || row.sigma_count != row.shorter()) {
    return out;
  }
  std::vector<double> sigma(static_cast<std::size_t>(row.sigma_count));
  input.reader.read_sigma(row.bulk.row, sigma);
  constexpr double kTolerance = 1e-6;  // WeightWatcher's, absolute
  const double alpha = row.values[Metric::kPlAlpha];
  const double top = std::log10(sigma.front() * sigma.front());
  double weak = 0.0;
  double sum = 0.0;
  for (const double s : sigma) {
    const double lambda = s * s;
    weak += lambda < kTolerance ? 1.0 : 0.0;
    // Relative to the largest: lambda^alpha alone overflows for the alphas of noise.
    sum += lambda > 0.0 ? std::pow(10.0, alpha * (std::log10(lambda) - top)) : 0.0;
  }
  out.weak_rank_loss = weak;
  out.log_alpha_norm = alpha * top + std::log10(sum);
  return out;
}

const char* warning_of(double alpha) {
  return alpha < 2.0 ? "over-trained" : (alpha > 6.0 ? "under-trained" : "");
}

}  // namespace

void export_weightwatcher(ExportInput& input, const std::string& target) {
  TextSink sink(target);
  sink.write(kHeader);
  for (std::size_t i = 0; i < input.rows.size(); ++i) {
    const StoredRow& row = input.rows[i];
    const bool measured = row.status == measure::Status::kMeasured;
    const measure::MetricValues& v = row.values;
    const FromSpectrum extra = measured ? from_spectrum(input, row) : FromSpectrum{};
    const double lambda_max = v[Metric::kSpectralNorm] * v[Metric::kSpectralNorm];
    const double norm = v[Metric::kFrobeniusNorm] * v[Metric::kFrobeniusNorm];
    const double rank = v[Metric::kNumericalRank];
    const double m = static_cast<double>(row.shorter());
    const double n = static_cast<double>(row.longer());
    const double alpha = v[Metric::kPlAlpha];
    const double tail = v[Metric::kPlTail];
    // Ours is over ln p, theirs over ln rank.
    const double entropy =
        rank > 1.0 ? v[Metric::kSpectralEntropy] * std::log(m) / std::log(rank) : kNaN;
    const std::string longname =
        row.slice < 0 ? row.tensor : fmt::format("{}#{}", row.tensor, row.slice);
    std::string line =
        fmt::format("{},{},{},dense,{},{},1,{},{},{}", i, csv_field(row.role), csv_field(longname),
                    row.longer(), row.shorter(), csv_number(m > 0.0 ? n / m : kNaN),
                    row.sigma_count > 0 ? "True" : "False", row.shorter());
    for (const double value : {v[Metric::kSpectralNorm],
                               v[Metric::kSigmaMin],
                               lambda_max,
                               lambda_max,
                               lambda_max > 0.0 ? std::log10(lambda_max) : kNaN,
                               norm,
                               norm > 0.0 ? std::log10(norm) : kNaN,
                               rank,
                               m - rank,
                               extra.weak_rank_loss,
                               v[Metric::kStableRank],
                               entropy,
                               alpha,
                               v[Metric::kPlXmin],
                               lambda_max,
                               v[Metric::kPlKs],
                               (alpha - 1.0) / std::sqrt(tail),
                               tail,
                               lambda_max > 0.0 ? alpha * std::log10(lambda_max) : kNaN,
                               extra.log_alpha_norm}) {
      line += fmt::format(",{}", csv_number(value));
    }
    sink.write(fmt::format("{},{},{}\n", line, measured ? "success" : "failed",
                           measured ? warning_of(alpha) : ""));
  }
  sink.finish();
}

}  // namespace vindex::results
