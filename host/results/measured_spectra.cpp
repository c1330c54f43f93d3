// Owns opening that file, finding rows by key and reading their values.
#include "measured_spectra.hpp"

#include "results_reader.hpp"
#include "spectra_cells.hpp"

#include "core/digest.hpp"
#include <vindex/error.hpp>

#include <algorithm>
#include <mutex>
#include <span>
#include <string_view>
#include <unordered_map>

namespace vindex::results {

namespace {

double value_of(const measure::MetricValues& values, std::string_view name) {
  if (name == "var_at_64") {
    const auto* const at = std::find(measure::kVarAtK.begin(), measure::kVarAtK.end(), 64);
    return values.var_at_k[static_cast<std::size_t>(at - measure::kVarAtK.begin())];
  }
  const auto rows = measure::metric_rows();
  const auto row = std::find_if(rows.begin(), rows.end(), [&](const measure::MetricRow& metric) {
    return metric.name == name;
  });
  expects(row != rows.end(), "a metric of the results file");
  return values[row->metric];
}

}  // namespace

struct MeasuredSpectra::State {
  explicit State(const std::string& path) : reader(path) {}
  mutable std::mutex mutex;
  ResultsReader reader;
  Fingerprint fingerprint;
  std::string digest;
  std::unordered_map<std::string, MeasuredSpectrum> spectra;  ///< by row_key()
  std::vector<std::int64_t> lengths;                          ///< of the stored spectra, by row
};

MeasuredSpectra::MeasuredSpectra(const std::string& path) : state_(std::make_unique<State>(path)) {
  if (state_->reader.header().part) {
    throw FormatError("E-RESULTS-PART", printable(path), "a part of a run; merge it first");
  }
  state_->fingerprint = state_->reader.fingerprint();
  Sha256 sha;
  const std::vector<StoredRow> rows = state_->reader.rows(0);
  for (const StoredRow& row : rows) {
    state_->lengths.push_back(row.sigma_count);
    if (row.status != measure::Status::kMeasured) {
      continue;
    }
    const SpectrumNumbers numbers = spectrum_numbers(row.cells);
    MeasuredSpectrum spectrum;
    spectrum.row = static_cast<std::int64_t>(state_->lengths.size()) - 1;
    spectrum.whole = row.sigma_count == row.shorter();
    for (std::size_t i = 0; i < kPairMetrics.size(); ++i) {
      spectrum.values[i] = value_of(numbers.values, kPairMetrics[i].name);
      spectrum.nulls[i] = value_of(numbers.nulls, kPairMetrics[i].name);
    }
    sha.update(row_key(row));
    sha.update(std::as_bytes(std::span(spectrum.values)));
    state_->spectra.emplace(row_key(row), spectrum);
  }
  state_->digest = hex(sha.finish());
}

MeasuredSpectra::~MeasuredSpectra() = default;

const std::vector<std::pair<std::string, std::string>>& MeasuredSpectra::fingerprint() const {
  return state_->fingerprint;
}
const std::string& MeasuredSpectra::digest() const { return state_->digest; }

const MeasuredSpectrum* MeasuredSpectra::find(const std::string& tensor, std::int32_t slice) const {
  const auto found = state_->spectra.find(row_key(printable(tensor), slice));
  return found == state_->spectra.end() ? nullptr : &found->second;
}

std::vector<double> MeasuredSpectra::sigma(const MeasuredSpectrum& spectrum) const {
  const std::lock_guard lock(state_->mutex);
  std::vector<double> values(
      static_cast<std::size_t>(state_->lengths.at(static_cast<std::size_t>(spectrum.row))));
  state_->reader.read_sigma(spectrum.row, values);
  return values;
}

}  // namespace vindex::results
