// Owns the export `weightwatcher`: the columns that WeightWatcher 0.7 gives per layer, in its
// order, under its names and with its meanings (lambda = s^2; its spectral_norm is s_1^2, its norm
// the squared Frobenius norm); docs/files/results-file.md says where they differ. Source:
// WeightWatcher 0.7.7 (PyPI): weightwatcher.py, RMT_Util.py, WW_powerlaw.py.
#include "export_weightwatcher.hpp"

#include "weightwatcher_fits.hpp"

#include "report/text/text_sink.hpp"
#include "statistics/null/sign_flip_null.hpp"
#include <vindex/error.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <string_view>

namespace vindex::report {

namespace {

using statistics::Metric;

/// One line, in WeightWatcher's order of columns: that of their names, upper case first.
using Cells = std::map<std::string_view, std::string>;

/// The squared singular values of `row`, ascending; empty where the file does not hold all of them.
std::vector<double> eigenvalues_of(ExportInput& input, const results::StoredRow& row) {
  std::vector<double> values;
  if (row.status == MatrixStatus::kMeasured && row.sigma_count > 0 &&
      row.sigma_count == row.shorter()) {
    values.resize(static_cast<std::size_t>(row.sigma_count));
    input.reader.spectra().read_sigma(row.bulk.row, values);
    std::reverse(values.begin(), values.end());
    for (double& value : values) {
      value *= value;
    }
  }
  return values;
}

struct PowerLaw {
  double alpha, xmin, ks, tail;
};

/// Theirs: another estimator than pl_* below 20 eigenvalues, for which the spectrum is needed.
PowerLaw power_law_of(const results::StoredRow& row, std::span<const double> eigenvalues) {
  const auto positive = std::upper_bound(eigenvalues.begin(), eigenvalues.end(), 0.0);
  const auto count = static_cast<std::size_t>(eigenvalues.end() - positive);
  const bool small =
      eigenvalues.empty() ? row.shorter() < std::int64_t{kSmallSample} : count < kSmallSample;
  if (small) {
    const SmallPowerLaw fit = fit_small_power_law(eigenvalues.last(count));
    return {fit.alpha, fit.xmin, fit.ks, fit.tail};
  }
  const auto v = [&](Metric metric) { return commands::metric_of(row, metric); };
  return {v(Metric::kPlAlpha), v(Metric::kPlXmin), v(Metric::kPlKs), v(Metric::kPlTail)};
}

/// log10 of the sum of lambda^alpha, relative to the largest: lambda^alpha alone overflows for the
/// alphas of noise.
double log_power_sum(std::span<const double> eigenvalues, double alpha) {
  if (eigenvalues.empty() || !(eigenvalues.back() > 0.0)) {
    return kAbsent;
  }
  const double top = std::log10(eigenvalues.back());
  double sum = 0.0;
  for (const double lambda : eigenvalues) {
    sum += lambda > 0.0 ? std::pow(10.0, alpha * (std::log10(lambda) - top)) : 0.0;
  }
  return alpha * top + std::log10(sum);
}

const char* warning_of(double alpha) {
  return alpha < 2.0 ? "over-trained" : (alpha > 6.0 ? "under-trained" : "");
}

/// Theirs have no `.weight` at their end; a slice of a stack is `name#slice`.
std::string longname_of(const results::StoredRow& row) {
  constexpr std::string_view kSuffix = ".weight";
  std::string name = row.tensor;
  if (name.ends_with(kSuffix)) {
    name.resize(name.size() - kSuffix.size());
  }
  return row.slice < 0 ? name : fmt::format("{}#{}", name, row.slice);
}

void add_norms(Cells& cells, const results::StoredRow& row, std::span<const double> eigenvalues) {
  constexpr double kTolerance = 1e-6;  // WeightWatcher's, absolute
  const auto v = [&](Metric metric) { return commands::metric_of(row, metric); };
  const double lambda_max = v(Metric::kSpectralNorm) * v(Metric::kSpectralNorm);
  const double norm = v(Metric::kFrobeniusNorm) * v(Metric::kFrobeniusNorm);
  const double rank = v(Metric::kNumericalRank);
  const auto m = static_cast<double>(row.shorter());
  const auto weak = std::lower_bound(eigenvalues.begin(), eigenvalues.end(), kTolerance);
  const auto log_of = [](double value) { return value > 0.0 ? std::log10(value) : kAbsent; };
  cells["sv_max"] = csv_number(v(Metric::kSpectralNorm));
  cells["sv_min"] = csv_number(v(Metric::kSigmaMin));
  cells["lambda_max"] = cells["spectral_norm"] = cells["xmax"] = csv_number(lambda_max);
  cells["log_spectral_norm"] = csv_number(log_of(lambda_max));
  cells["norm"] = csv_number(norm);
  cells["log_norm"] = csv_number(log_of(norm));
  cells["matrix_rank"] = csv_number(rank);
  cells["rank_loss"] = csv_number(m - rank);
  cells["weak_rank_loss"] =
      csv_number(eigenvalues.empty() ? kAbsent : static_cast<double>(weak - eigenvalues.begin()));
  cells["stable_rank"] = csv_number(v(Metric::kStableRank));
  // Ours is over ln p, theirs over ln rank.
  cells["entropy"] =
      csv_number(rank > 1.0 ? v(Metric::kSpectralEntropy) * std::log(m) / std::log(rank) : kAbsent);
}

void add_power_law(Cells& cells, const results::StoredRow& row,
                   std::span<const double> eigenvalues) {
  const PowerLaw fit = power_law_of(row, eigenvalues);
  const double top = commands::metric_of(row, Metric::kSpectralNorm);
  const DeterminantFit determinant = fit_determinant(eigenvalues);
  cells["alpha"] = csv_number(fit.alpha);
  cells["xmin"] = csv_number(fit.xmin);
  cells["D"] = csv_number(fit.ks);
  cells["sigma"] = csv_number((fit.alpha - 1.0) / std::sqrt(fit.tail));
  cells["num_pl_spikes"] = csv_number(fit.tail);
  cells["alpha_weighted"] = csv_number(top > 0.0 ? fit.alpha * 2.0 * std::log10(top) : kAbsent);
  cells["log_alpha_norm"] = csv_number(log_power_sum(eigenvalues, fit.alpha));
  cells["detX_num"] = cells["num_ERG_spikes"] = csv_number(determinant.count);
  cells["detX_val"] = csv_number(determinant.value);
  cells["detX_val_unrescaled"] = csv_number(determinant.rescaled);
  cells["ERG_gap"] = csv_number(determinant.count - fit.tail);
  cells["warning"] = warning_of(fit.alpha);
}

void add_bulk(Cells& cells, const results::StoredRow& row, std::span<const double> eigenvalues) {
  const BulkFit fit = fit_bulk(eigenvalues, row.longer());
  cells["num_spikes"] = csv_number(fit.spikes);
  cells["sigma_mp"] = csv_number(fit.sigma);
  cells["mp_softrank"] = csv_number(fit.softrank);
  cells["W_scale"] = csv_number(fit.scale);
  cells["bulk_min"] = csv_number(fit.bulk_min);
  cells["bulk_max"] = csv_number(fit.bulk_max);
}

/// What theirs takes from a permutation of the weights, from the sign flip.
void add_randomised(Cells& cells, const results::StoredRow& row) {
  const double top = std::pow(commands::metric_of(row, Metric::kSpectralNorm), 2.0);
  const statistics::SignFlipSummary flip = commands::spectrum_numbers(row.cells).sign_flip;
  const double random =
      flip.var_at_k.front() * std::pow(commands::metric_of(row, Metric::kFrobeniusNorm), 2.0);
  cells["rand_distance"] = csv_number(flip.rand_distance);
  cells["max_rand_eval"] = csv_number(random);
  cells["ww_softrank"] = csv_number(random / top);
  cells["ww_maxdist"] = csv_number(top - random);
}

Cells cells_of(ExportInput& input, const results::StoredRow& row) {
  const std::vector<double> eigenvalues = eigenvalues_of(input, row);
  const auto m = static_cast<double>(row.shorter());
  const auto n = static_cast<double>(row.longer());
  Cells cells;
  cells["longname"] = csv_field(longname_of(row));
  cells["layer_type"] = "dense";
  cells["N"] = fmt::format("{}", row.longer());
  cells["M"] = fmt::format("{}", row.shorter());
  cells["rf"] = "1";
  cells["Q"] = csv_number(m > 0.0 ? n / m : kAbsent);
  cells["has_esd"] = row.sigma_count > 0 ? "True" : "False";
  cells["num_evals"] = cells["M"];
  add_norms(cells, row, eigenvalues);
  add_power_law(cells, row, eigenvalues);
  add_bulk(cells, row, eigenvalues);
  add_randomised(cells, row);
  cells["status"] = row.status == MatrixStatus::kMeasured ? "success" : "failed";
  return cells;
}

}  // namespace

void export_weightwatcher(ExportInput& input, const std::string& target) {
  TextSink sink(target);
  std::string header = "layer_id,name";
  for (const auto& [name, unused] : cells_of(input, results::StoredRow{})) {
    header += fmt::format(",{}", name);
  }
  sink.write(header + "\n");
  for (std::size_t i = 0; i < input.rows.size(); ++i) {
    const results::StoredRow& row = input.rows[i];
    std::string line = fmt::format("{},{}", i, csv_field(row.role));
    for (const auto& [unused, text] : cells_of(input, row)) {
      line += fmt::format(",{}", text);
    }
    sink.write(line + "\n");
  }
  sink.finish();
}

}  // namespace vindex::report
