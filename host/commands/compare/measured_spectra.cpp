// Owns opening that file, finding rows by key and reading their values.
#include "measured_spectra.hpp"

#include "core/digest.hpp"
#include "results/reading/results_reader.hpp"
#include "results/schema/table_columns.hpp"
#include "statistics/spectrum/metrics.hpp"
#include "statistics/spectrum/var_at_k.hpp"
#include <vindex/error.hpp>

#include <fmt/format.h>

#include <array>
#include <limits>
#include <mutex>
#include <span>
#include <string_view>
#include <unordered_map>

namespace vindex::commands {

namespace {

/// Where a statistic stands in a row of the file.
struct Place {
  const results::Column* column = nullptr;  ///< null: the file has none
  std::size_t element = 0;

  double of(const results::StoredRow& row) const {
    return column == nullptr ? std::numeric_limits<double>::quiet_NaN()
                             : column->number(row, element);
  }
};

/// "var_at_64" is an element of var_at_k.
Place place_of(const std::vector<results::Column>& columns, std::string_view name,
               std::string_view suffix) {
  Place place;
  if (name == "var_at_64") {
    place.element = statistics::kPlaceOf64;
    name = "var_at_k";
  }
  const std::string wanted = fmt::format("{}{}", name, suffix);
  for (const results::Column& column : columns) {
    if (column.name == wanted) {
      place.column = &column;
    }
  }
  return place;
}

}  // namespace

struct MeasuredSpectra::State {
  explicit State(const std::string& path) : reader(path) {}
  mutable std::mutex mutex;
  results::ResultsReader reader;
  results::Fingerprint fingerprint;
  std::string digest;
  std::unordered_map<std::string, MeasuredSpectrum> spectra;  ///< by row_key()
  std::vector<std::int64_t> lengths;                          ///< of the stored spectra, by row
};

MeasuredSpectra::MeasuredSpectra(const std::string& path) : state_(std::make_unique<State>(path)) {
  if (state_->reader.header().part) {
    throw FormatError("E-RESULTS-PART", printable(path), "a part of a run; merge it first");
  }
  state_->fingerprint = state_->reader.fingerprint();
  const std::vector<results::Column> columns = results::table_columns(
      state_->reader.schema(), state_->reader.file(), model::ResultTable::kMatrix);
  std::array<Place, kPairMetrics.size()> values, nulls;
  for (std::size_t i = 0; i < kPairMetrics.size(); ++i) {
    values[i] = place_of(columns, kPairMetrics[i].name, "");
    nulls[i] = place_of(columns, kPairMetrics[i].name, "_null");
    expects(
        values[i].column != nullptr && (nulls[i].column != nullptr || !kPairMetrics[i].has_null),
        "metrics of the results file");
  }
  Sha256 sha;
  const std::vector<results::StoredRow> rows = state_->reader.rows(0);
  for (const results::StoredRow& row : rows) {
    state_->lengths.push_back(row.sigma_count);
    if (row.status != MatrixStatus::kMeasured) {
      continue;
    }
    MeasuredSpectrum spectrum;
    spectrum.row = static_cast<std::int64_t>(state_->lengths.size()) - 1;
    spectrum.whole = row.sigma_count == row.shorter();
    for (std::size_t i = 0; i < kPairMetrics.size(); ++i) {
      spectrum.values[i] = values[i].of(row);
      spectrum.nulls[i] = nulls[i].of(row);
    }
    sha.update(results::row_key(row));
    sha.update(std::as_bytes(std::span(spectrum.values)));
    state_->spectra.emplace(results::row_key(row), spectrum);
  }
  state_->digest = hex(sha.finish());
}

MeasuredSpectra::~MeasuredSpectra() = default;

const std::vector<std::pair<std::string, std::string>>& MeasuredSpectra::fingerprint() const {
  return state_->fingerprint;
}
const std::string& MeasuredSpectra::digest() const { return state_->digest; }

const MeasuredSpectrum* MeasuredSpectra::find(const std::string& tensor, std::int32_t slice) const {
  const auto found = state_->spectra.find(results::row_key(escaped(tensor), slice));
  return found == state_->spectra.end() ? nullptr : &found->second;
}

std::vector<double> MeasuredSpectra::sigma(const MeasuredSpectrum& spectrum) const {
  const std::lock_guard lock(state_->mutex);
  std::vector<double> values(
      static_cast<std::size_t>(state_->lengths.at(static_cast<std::size_t>(spectrum.row))));
  state_->reader.spectra().read_sigma(spectrum.row, values);
  return values;
}

}  // namespace vindex::commands
