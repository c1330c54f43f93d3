// Owns the units of a comparing run: facts and memory of pairs, what runs on which lane, finished
// rows.
#include "pair_job.hpp"

#include "pair_cells.hpp"

#include "core/process/parallel.hpp"
#include "decode/encoding/encoding.hpp"
#include "engine/units/read_ahead_window.hpp"
#include "engine/units/unit_stream.hpp"
#include "model/selection/selection.hpp"
#include "statistics/judgement/batch_inputs.hpp"
#include <vindex/error.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <optional>
#include <utility>

namespace vindex::commands {

namespace {

/// Pairs handed to a device together: each holds both its matrices in host memory meanwhile.
constexpr std::int64_t kMaxBatch = 32;

/// The row of a pair whose side `side` ("A", "B", or "" where it is neither's fault) failed.
results::ResultRow failed_pair(const std::exception_ptr& error, const char* side) {
  results::ResultRow row = engine::failed_row(error);
  if (*side != '\0') {
    row.reason = fmt::format("{}: {}", side, row.reason);
  }
  return row;
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

/// Of a side in parts: what they are decoded into.
statistics::StoredShape pair_shape(const model::MatrixRecord& matrix, bool in_parts) {
  if (in_parts) {
    return {&decode::float32_encoding(), matrix.rows, matrix.cols, false};
  }
  return {&matrix.encoding, matrix.stored_rows(), matrix.stored_cols(), matrix.transposed};
}

statistics::StoredShape shape_a(const JobPair& pair) {
  return pair_shape(pair.a, !pair.matrices.parts_a.empty());
}
statistics::StoredShape shape_b(const JobPair& pair) {
  return pair_shape(pair.b, !pair.matrices.parts_b.empty());
}

bool is_plain(const JobPair& pair) {
  return pair.matrices.parts_a.empty() && pair.matrices.parts_b.empty() && pair.order.height == 0;
}

/// True where both sides' rows can pass by side by side, once: of two matrices as they are stored,
/// each a run of rows in a local file.
bool can_pass(const JobPair& pair, const engine::OpenModel& a, const engine::OpenModel& b) {
  return is_plain(pair) && pair.a.transposed == pair.b.transposed &&
         engine::can_pass_by(a.files, pair.a) && engine::can_pass_by(b.files, pair.b);
}

/// True where a back end may take both at once: of one shape, orientation and encoding on each
/// side.
bool pairs_of_one_kind(const JobPair& a, const JobPair& b) {
  const auto alike = [](const model::MatrixRecord& x, const model::MatrixRecord& y) {
    return statistics::is_same_kind({x.rows, x.cols, x.transposed, &x.encoding},
                                    {y.rows, y.cols, y.transposed, &y.encoding});
  };
  return is_plain(a) && is_plain(b) && alike(a.a, b.a) && alike(a.b, b.b);
}

}  // namespace

PairJob::PairJob(engine::OpenModel a, engine::OpenModel b, std::vector<JobPair> pairs,
                 SpectraOfBoth spectra, PairComputing computing)
    : a_(std::move(a)),
      b_(std::move(b)),
      views_({{&a_.files, &a_.index}, {&b_.files, &b_.index}}),
      pairs_(std::move(pairs)),
      spectra_(std::move(spectra)),
      computing_(std::move(computing)) {
  expects(computing_.request.needs_back_end() == !computing_.backends.empty(),
          "back ends where a spectrum is asked for");
}

engine::RowFacts PairJob::facts(std::int64_t row) const {
  engine::RowFacts facts;
  facts.name = model::matrix_name(pair(row).a);
  for (const auto& [side, model, first] :
       {std::tuple("A", &a_, true), std::tuple("B", &b_, false)}) {
    for (const std::int64_t i : pair(row).matrices.of(first)) {
      const model::MatrixRecord& matrix = model->index.matrices[static_cast<std::size_t>(i)];
      facts.bytes += engine::stored_bytes(matrix);
      if (const std::string error = model::undecodable_text(matrix);
          !error.empty() && facts.unsupported.find(side) == std::string::npos) {
        facts.unsupported +=
            fmt::format("{}{}: {}", facts.unsupported.empty() ? "" : "; ", side, error);
      }
    }
  }
  facts.cost = work_of(row).cost;
  return facts;
}

/// Memory of one pair that process() takes beside what back ends and comparing do: slabs of
/// arranged inputs, reports.
std::uint64_t PairJob::own_memory(const JobPair& pair) const {
  const PairRequest& request = computing_.request;
  const std::int64_t layers = (request.delta ? 1 : 0) + (pair.matrices.parts_a.empty() ? 0 : 1) +
                              (pair.matrices.parts_b.empty() ? 0 : 1) +
                              (pair.order.height > 0 ? 1 : 0);
  const auto rows = static_cast<std::uint64_t>(pair.a.rows);
  const auto cols = static_cast<std::uint64_t>(pair.a.cols);
  std::uint64_t bytes =
      static_cast<std::uint64_t>(layers) * arranged_slab_bytes(pair.a.rows, pair.a.cols);
  // Both spectra, and that of the difference.
  bytes += (spectra_.a != nullptr ? 2U : 0U) * sizeof(double) * std::min(rows, cols) +
           (request.needs_back_end() ? 3U : 0U) * sizeof(double) * std::min(rows, cols);
  if (const auto k = static_cast<std::uint64_t>(request.subspace); k > 0) {
    // Vectors of both sides, and in float64 those that are compared.
    bytes += 2 * sizeof(float) * k * (rows + cols) +
             sizeof(double) * (2 * k * std::max(rows, cols) + 2 * k * k);
  }
  return bytes;
}

engine::RowWork PairJob::work_of(std::int64_t row) const {
  constexpr std::uint64_t kRowBytes = 500;
  const JobPair& pair = this->pair(row);
  const PairRequest& request = computing_.request;
  const statistics::StoredShape a = shape_a(pair), b = shape_b(pair);
  const auto elements = static_cast<double>(pair.a.rows) * static_cast<double>(pair.a.cols);
  engine::RowWork work;
  work.row = row;
  work.name = pair.a.tensor;
  work.cost = elements;
  std::uint64_t codes = 0;
  for (const bool first : {true, false}) {
    const engine::OpenModel& model = first ? a_ : b_;
    for (const std::int64_t i : pair.matrices.of(first)) {
      const model::MatrixRecord& matrix = model.index.matrices[static_cast<std::size_t>(i)];
      work.matrices.push_back({first ? 0 : 1, i});
      work.read_bytes += engine::stored_bytes(matrix);
      codes += matrix.codes.bytes;
      work.slot = std::max(work.slot, engine::staged_bytes(matrix).slot);
    }
  }
  const statistics::PairWorkspace comparing = statistics::pair_workspace(a, b);
  const std::uint64_t companions = work.read_bytes - codes;
  const std::uint64_t own = own_memory(pair);
  if (!request.needs_back_end()) {
    work.output_bytes = kRowBytes;
    work.workspace = work.min_workspace = work.streamed_workspace = comparing.decoded + own;
    // Slabs below an arranged input are encoded in at most twice the bytes of float32.
    work.streamed = comparing.decoded + comparing.encoded + companions + 3 * own;
    if (can_pass(pair, a_, b_)) {
      work.reading = engine::Reading::kPassing;
      work.pieces = engine::ReadAheadWindow::window_memory(pair.a.codes.bytes) +
                    engine::ReadAheadWindow::window_memory(pair.b.codes.bytes) + comparing.encoded +
                    companions;
    }
    return work;
  }
  work.cost += engine::measuring_cost(pair.a.rows, pair.a.cols, request.options) *
               ((request.delta ? 1.0 : 0.0) + (request.subspace > 0 ? 2.0 : 0.0));
  work.result_bytes =
      sizeof(double) * results::cell_count(kPairCells, static_cast<std::size_t>(request.subspace));
  work.output_bytes = kRowBytes + work.result_bytes;
  const Backend& backend = *computing_.backends.front();
  MeasureOptions options = request.options;
  const auto batch = static_cast<std::uint64_t>(worker_layout().batch);
  const auto need = [&](InputBytes held, InputBytes arranged) {
    std::uint64_t most = 0;
    if (request.delta) {
      options.vectors = 0;
      most = backend.workspace_bytes(decode::float32_encoding(), pair.a.stored_rows(),
                                     pair.a.stored_cols(), options, arranged);
    }
    if (request.subspace > 0) {
      options.vectors = static_cast<std::int32_t>(request.subspace);
      for (const statistics::StoredShape& side : {a, b}) {
        for (const InputBytes bytes : {held, arranged}) {
          most = std::max(
              most, backend.workspace_bytes(*side.encoding, side.rows, side.cols, options, bytes));
        }
      }
    }
    return std::max(most, comparing.decoded * (batch > 1 ? thread_count(1) : 1));
  };
  work.workspace = need(InputBytes::kHeld, InputBytes::kStreamed) + batch * own;
  work.min_workspace = need(InputBytes::kHeld, InputBytes::kStreamedLeast) + own;
  work.streamed_workspace = need(InputBytes::kStreamedLeast, InputBytes::kStreamedLeast) + own;
  work.streamed = 2 * work.streamed_workspace + comparing.encoded + companions + 3 * own;
  return work;
}

std::vector<engine::RowWork> PairJob::works(const std::vector<std::int64_t>& rows) const {
  std::vector<engine::RowWork> works;
  works.reserve(rows.size());
  for (const std::int64_t row : rows) {
    works.push_back(work_of(row));
    if (worker_layout().batch == 1) {
      continue;
    }
    engine::RowWork& work = works.back();
    if (is_plain(pair(row))) {
      const bool joins = works.size() > 1 && works[works.size() - 2].kind != 0 &&
                         works[works.size() - 2].slot == work.slot &&
                         pairs_of_one_kind(pair(works[works.size() - 2].row), pair(row));
      work.kind = joins ? works[works.size() - 2].kind : works.size();
    }
  }
  return works;
}

engine::WorkerLayout PairJob::worker_layout() const {
  // Both sides are read more than once: every matrix of a unit has a slot of its own.
  constexpr std::int64_t kAll = std::int64_t{1} << 30;
  engine::WorkerLayout layout{.calls = {computing_.threads}, .batch = 1, .held = kAll};
  if (!computing_.backends.empty()) {
    layout.calls.clear();
    for (const auto& backend : computing_.backends) {
      layout.calls.push_back(backend->limits().concurrent_calls);
    }
    layout.batch = std::min(kMaxBatch, computing_.backends.front()->limits().batch);
  }
  return layout;
}

std::unique_ptr<StagingBuffer> PairJob::make_staging(std::size_t bytes) {
  return computing_.backends.empty() ? engine::Job::make_staging(bytes)
                                     : computing_.backends.front()->make_staging(bytes);
}

/// What was measured of both sides, where it was.
void PairJob::add_spectra(std::int64_t number, results::ResultRow& row) const {
  const auto find = [&](const MeasuredSpectra& spectra, bool is_b) {
    const model::MatrixRecord& record = is_b ? pair(number).b : pair(number).a;
    return spectra.find(record.tensor, record.slice);
  };
  const MeasuredSpectrum* const a = find(*spectra_.a, false);
  const MeasuredSpectrum* const b = find(*spectra_.b, true);
  if (a == nullptr || b == nullptr) {
    engine::add_reason(row, fmt::format("no spectrum of {}",
                                        a != nullptr ? "B" : (b != nullptr ? "A" : "A and B")));
    return;
  }
  for (std::size_t metric = 0; metric < kPairMetrics.size(); ++metric) {
    double* const cells = &row.cells[kPairMetrics[metric].first];
    cells[0] = a->values[metric];
    cells[1] = b->values[metric];
    cells[2] = b->values[metric] - a->values[metric];
    if (kPairMetrics[metric].has_null) {
      cells[3] = a->nulls[metric];  // of the shape alone
    }
  }
  if (a->whole && b->whole) {
    row.cells[pair_cell("spectrum_difference")] =
        relative_difference(spectra_.a->sigma(*a), spectra_.b->sigma(*b));
  }
}

/// The row, with what stands beside the pair's own numbers.
results::ResultRow PairJob::finished_row(std::int64_t number, PairInWork& work) const {
  results::ResultRow row = std::move(work.row);
  if (work.error != nullptr) {
    row = failed_pair(work.error, work.a.has_failed() ? "A" : (work.b.has_failed() ? "B" : ""));
  }
  if (row.status == MatrixStatus::kMeasured && spectra_.a != nullptr) {
    try {
      add_spectra(number, row);
    } catch (const std::exception& error) {
      engine::add_reason(row, fmt::format("spectra: {}", error.what()));
    }
  }
  return row;
}

void PairJob::process(engine::UnitStream& unit, std::size_t device, engine::RowSink& sink) {
  PairRequest request = computing_.request;
  request.options.stop = unit.stop_token();
  const std::vector<std::int64_t>& rows = unit.unit->rows;
  std::vector<std::size_t> first = {0};  // of each pair's matrices in the unit, and the end
  for (const std::int64_t row : rows) {
    first.push_back(first.back() + pair(row).matrices.of(true).size() +
                    pair(row).matrices.of(false).size());
  }
  /// The row of a side that could not be read, or whose file changed while it was.
  const auto unread_row = [&](std::size_t i) -> std::optional<results::ResultRow> {
    const std::size_t middle = first[i] + pair(rows[i]).matrices.of(true).size();
    for (std::size_t m = first[i]; m < first[i + 1]; ++m) {
      if (const std::exception_ptr unread = unit.error(m); unread != nullptr) {
        return failed_pair(unread, m < middle ? "A" : "B");
      }
    }
    return std::nullopt;
  };
  const auto push = [&](std::size_t i, results::ResultRow row) {
    row.index = rows[i];
    sink.push(std::move(row));
  };
  std::vector<PairInWork> works;
  std::vector<std::size_t> members;  // of the unit's pairs
  for (std::size_t i = 0; i < rows.size(); ++i) {
    std::vector<MatrixInput*> inputs;
    for (std::size_t m = first[i]; m < first[i + 1]; ++m) {
      unit.wait(m);
      inputs.push_back(unit.input(m));
    }
    if (auto unread = unread_row(i)) {
      push(i, std::move(*unread));
      continue;
    }
    const std::size_t of_a = pair(rows[i]).matrices.of(true).size();
    works.push_back({.a = PairSide(std::span(inputs).first(of_a)),
                     .b = PairSide(std::span(inputs).subspan(of_a)),
                     .order = pair(rows[i]).order,
                     .rows = pair(rows[i]).a.rows,
                     .cols = pair(rows[i]).a.cols});
    members.push_back(i);
  }
  for_each_index(works.size(), works.size() == 1 ? 1 : thread_count(1),
                 [&](std::size_t, std::size_t i) { compare_pair(works[i], request.subspace); });
  if (request.needs_back_end() && !works.empty()) {
    std::uint64_t limit = unit.unit->workspace_limit;
    limit -= limit == 0 ? 0 : own_memory(pair(rows.front()));
    Backend& backend = *computing_.backends[device];
    if (request.delta) {
      add_deltas(works, backend, request, limit, nulls_);
    }
    if (request.subspace > 0) {
      add_subspaces(works, backend, request, limit);
    }
  }
  for (std::size_t i = 0; i < works.size(); ++i) {
    // What was read slab by slab is believed only now.
    auto unread = unread_row(members[i]);
    push(members[i], unread ? std::move(*unread) : finished_row(rows[members[i]], works[i]));
  }
}

}  // namespace vindex::commands
