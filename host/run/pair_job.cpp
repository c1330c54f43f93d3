#include "pair_job.hpp"

#include <vindex/core/error.hpp>
#include <vindex/measure/host_staging.hpp>
#include <vindex/measure/pair_comparison.hpp>
#include <vindex/run/unit_stream.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <optional>
#include <utility>

namespace vindex::run {

namespace {

using results::cell_number;
using results::PairCell;
using results::PairMetricCell;

/// An input that remembers that reading it failed, so that the trouble of a pair names its side.
class WatchedInput final : public measure::MatrixInput {
 public:
  explicit WatchedInput(measure::MatrixInput& inner) : inner_(inner) {}
  const decode::Encoding& encoding() const override { return inner_.encoding(); }
  std::int64_t rows() const override { return inner_.rows(); }
  std::int64_t cols() const override { return inner_.cols(); }
  bool transposed() const override { return inner_.transposed(); }
  std::uint64_t sign_flip_key() const override { return inner_.sign_flip_key(); }
  bool in_memory() const override { return inner_.in_memory(); }
  decode::EncodedMatrix row_slab(std::int64_t first, std::int64_t count) override {
    return watched([&] { return inner_.row_slab(first, count); });
  }
  decode::EncodedMatrix column_slab(std::int64_t first, std::int64_t count) override {
    return watched([&] { return inner_.column_slab(first, count); });
  }
  bool has_failed() const { return has_failed_; }

 private:
  template <typename Read>
  decode::EncodedMatrix watched(Read read) {
    has_failed_ = true;
    decode::EncodedMatrix slab = read();
    has_failed_ = false;
    return slab;
  }

  measure::MatrixInput& inner_;
  bool has_failed_ = false;
};

/// The row of a pair whose side `side` ("A", "B", or "" where it is neither's fault) failed.
results::ResultRow failed_pair(const std::exception_ptr& error, const char* side) {
  results::ResultRow row = failed_row(error);
  if (*side != '\0') {
    row.reason = fmt::format("{}: {}", side, row.reason);
  }
  return row;
}

results::ResultRow row_of_report(const measure::PairReport& report) {
  results::ResultRow row;
  row.status = report.status;
  row.reason = report.reason;
  row.method = "float64";
  row.cells = results::empty_pair_cells();
  const auto set = [&](PairCell cell, double value) { row.cells[cell_number(cell)] = value; };
  set(PairCell::kSameBits, report.same_bits ? 1.0 : 0.0);
  set(PairCell::kCosine, report.cosine);
  set(PairCell::kNormA, report.norm_a);
  set(PairCell::kNormB, report.norm_b);
  set(PairCell::kRelativeError, report.relative_error);
  set(PairCell::kMaxAbsDifference, report.max_abs_difference);
  return row;
}

/// The row of a side that could not be read, or whose file changed while it was.
std::optional<results::ResultRow> unread_row(UnitStream& unit) {
  for (const std::size_t side : {0, 1}) {
    if (const std::exception_ptr unread = unit.error(side); unread != nullptr) {
      return failed_pair(unread, side == 0 ? "A" : "B");
    }
  }
  return std::nullopt;
}

results::ResultRow compare_unit(UnitStream& unit) {
  for (const std::size_t side : {0, 1}) {
    unit.wait(side);
  }
  if (auto unread = unread_row(unit)) {
    return std::move(*unread);
  }
  WatchedInput a(*unit.input(0));
  WatchedInput b(*unit.input(1));
  try {
    results::ResultRow row = row_of_report(measure::compare_matrices(a, b));
    auto unread = unread_row(unit);  // what was read slab by slab is believed only now
    return unread ? std::move(*unread) : row;
  } catch (const std::exception&) {
    return failed_pair(std::current_exception(),
                       a.has_failed() ? "A" : (b.has_failed() ? "B" : ""));
  }
}

std::string unsupported_text(const model::MatrixRecord& matrix) {
  if (!matrix.unsupported.empty() || decode::is_decodable(matrix.encoding)) {
    return matrix.unsupported;
  }
  return fmt::format("encoding {} cannot be decoded", matrix.encoding.label);
}

/// norm(b - a) / norm(a); NaN for a of zeros.
double relative_difference(const std::vector<double>& a, const std::vector<double>& b) {
  double difference = 0.0;
  double norm = 0.0;
  for (std::size_t i = 0; i < a.size(); ++i) {
    difference += (b[i] - a[i]) * (b[i] - a[i]);
    norm += a[i] * a[i];
  }
  return std::sqrt(difference) / std::sqrt(norm);
}

measure::StoredShape shape_of(const model::MatrixRecord& matrix) {
  return {&matrix.encoding, matrix.stored_rows(), matrix.stored_cols(), matrix.transposed};
}

}  // namespace

PairJob::PairJob(std::unique_ptr<OpenModel> a, std::unique_ptr<OpenModel> b,
                 std::vector<model::MatrixPair> pairs, SpectraOfBoth spectra, std::int32_t threads)
    : a_(std::move(a)),
      b_(std::move(b)),
      views_({{&a_->files, &a_->index}, {&b_->files, &b_->index}}),
      pairs_(std::move(pairs)),
      spectra_(std::move(spectra)),
      threads_(threads) {}

const model::MatrixRecord& PairJob::matrix(std::int64_t row, bool is_b) const {
  const model::MatrixPair& pair = pairs_[static_cast<std::size_t>(row)];
  return record_of(views_, {is_b ? 1 : 0, is_b ? pair.b : pair.a});
}

RowFacts PairJob::facts(std::int64_t row) const {
  const model::MatrixRecord& a = matrix(row, false);
  const model::MatrixRecord& b = matrix(row, true);
  RowFacts facts;
  facts.name = model::matrix_name(a);
  const std::string trouble_a = unsupported_text(a);
  const std::string trouble_b = unsupported_text(b);
  if (!trouble_a.empty()) {
    facts.unsupported = "A: " + trouble_a;
  }
  if (!trouble_b.empty()) {
    facts.unsupported += (trouble_a.empty() ? "B: " : "; B: ") + trouble_b;
  }
  facts.bytes = stored_bytes(a) + stored_bytes(b);
  facts.cost = static_cast<double>(a.rows) * static_cast<double>(a.cols);
  return facts;
}

std::vector<RowWork> PairJob::works(const std::vector<std::int64_t>& rows) const {
  constexpr std::uint64_t kRowBytes = 500;
  std::vector<RowWork> works;
  works.reserve(rows.size());
  for (const std::int64_t row : rows) {
    const model::MatrixPair& pair = pairs_[static_cast<std::size_t>(row)];
    const model::MatrixRecord& a = matrix(row, false);
    const model::MatrixRecord& b = matrix(row, true);
    const measure::PairWorkspace workspace = measure::pair_workspace(shape_of(a), shape_of(b));
    RowWork work;
    work.row = row;
    work.matrices = {{0, pair.a}, {1, pair.b}};
    work.name = a.tensor;
    work.read_bytes = stored_bytes(a) + stored_bytes(b);
    work.cost = static_cast<double>(a.rows) * static_cast<double>(a.cols);
    work.output_bytes = kRowBytes;
    work.slot = std::max(staged_bytes(a).slot, staged_bytes(b).slot);
    // Both spectra, where they are compared.
    const std::uint64_t spectra =
        spectra_.a == nullptr
            ? 0
            : 2 * sizeof(double) * static_cast<std::uint64_t>(std::min(a.rows, a.cols));
    work.workspace = work.least_workspace = workspace.decoded + spectra;
    const std::uint64_t companions = work.read_bytes - a.codes.bytes - b.codes.bytes;
    work.streamed = work.workspace + workspace.encoded + companions;
    works.push_back(std::move(work));
  }
  return works;
}

Lanes PairJob::lanes() const { return {.calls = {threads_}, .batch = 1, .held = 2}; }

std::unique_ptr<measure::StagingBuffer> PairJob::make_staging(std::size_t bytes) {
  return measure::make_host_staging(bytes);
}

void PairJob::begin(RowSink& rows, std::uint64_t /*queue_bytes*/) { rows_ = &rows; }

/// What was measured of both sides, where it was.
void PairJob::add_spectra(std::int64_t number, results::ResultRow& row) const {
  const auto find = [&](const results::MeasuredSpectra& spectra, bool is_b) {
    const model::MatrixRecord& record = matrix(number, is_b);
    return spectra.find(record.tensor, record.slice);
  };
  const results::MeasuredSpectrum* const a = find(*spectra_.a, false);
  const results::MeasuredSpectrum* const b = find(*spectra_.b, true);
  if (a == nullptr || b == nullptr) {
    row.reason += fmt::format("{}no spectrum of {}", row.reason.empty() ? "" : "; ",
                              a != nullptr ? "B" : (b != nullptr ? "A" : "A and B"));
    return;
  }
  for (std::size_t metric = 0; metric < results::kPairMetrics.size(); ++metric) {
    const auto set = [&](PairMetricCell cell, double value) {
      row.cells[cell_number(metric, cell)] = value;
    };
    set(PairMetricCell::kA, a->values[metric]);
    set(PairMetricCell::kB, b->values[metric]);
    set(PairMetricCell::kDifference, b->values[metric] - a->values[metric]);
    set(PairMetricCell::kNull, a->nulls[metric]);  // of the shape alone
  }
  if (a->whole && b->whole) {
    row.cells[cell_number(PairCell::kSpectrumDifference)] =
        relative_difference(spectra_.a->sigma(*a), spectra_.b->sigma(*b));
  }
}

void PairJob::process(UnitStream& unit, std::size_t /*device*/) {
  const std::int64_t number = unit.unit->rows.front();
  results::ResultRow row = compare_unit(unit);
  for (const std::size_t side : {0, 1}) {
    if (unit.input(side) != nullptr) {
      unit.input(side)->release();
    }
  }
  row.index = number;
  if (row.status == measure::Status::kMeasured) {
    if (spectra_.a != nullptr) {
      try {
        add_spectra(number, row);
      } catch (const std::exception& error) {
        row.reason += fmt::format("{}spectra: {}", row.reason.empty() ? "" : "; ", error.what());
      }
    }
  }
  if (!row.cells.empty()) {
    const model::MatrixRecord& a = matrix(number, false);
    row.cells[cell_number(PairCell::kCosineNullSd)] =
        measure::cosine_null_deviation(a.rows, a.cols);
  }
  rows_->push(std::move(row));
}

}  // namespace vindex::run
