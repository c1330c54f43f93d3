// Owns what is done with one layer of a dump: its statistics, its sums and its gate projections,
// and which of its rows are refused.
#include "activations_job.hpp"

#include "gate_cosines.hpp"

#include "commands/token_tables/activations_cells.hpp"
#include "commands/token_tables/activations_row.hpp"
#include "engine/units/row_slabs.hpp"
#include "engine/units/unit_stream.hpp"
#include "statistics/activations/activation_statistics.hpp"
#include <vindex/error.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <numbers>
#include <optional>

namespace vindex::commands {

namespace {

using engine::activations_cell;
using engine::kActivationsArrays;
using engine::kActivationsTable;

bool is_logits(const model::MatrixRecord& record) { return record.role == model::kLogitsRole; }

std::string passed_over_text(std::int64_t count) {
  return count > 0 ? fmt::format("{} gate projections cannot be decoded, left out", count)
                   : "the model has no gate projection of this layer";
}

std::int64_t step_of(const model::MatrixRecord& record) {
  return engine::activations_step(record.encoding, record.cols);
}

statistics::ActivationLaw law_of(const model::MatrixRecord& record) {
  return record.role == model::kHiddenRole ? statistics::ActivationLaw::kGaussian
                                           : statistics::ActivationLaw::kProduct;
}

}  // namespace

ActivationsJob::ActivationsJob(model::Dump dump, std::optional<engine::OpenModel> model,
                               std::vector<ActivationLayer> layers,
                               std::vector<std::unique_ptr<Backend>> backends, bool covariance)
    : dump_(std::move(dump)),
      model_(std::move(model)),
      views_({{&dump_.files, &dump_.index}}),
      layers_(std::move(layers)),
      backends_(std::move(backends)),
      covariance_(covariance) {
  if (model_) {
    views_.push_back({&model_->files, &model_->index});
  }
}

const model::MatrixRecord* ActivationsJob::dumped(std::int64_t row) const {
  const std::int64_t matrix = layers_[static_cast<std::size_t>(row)].matrix;
  return matrix < 0 ? nullptr : &dump_.index.matrices[static_cast<std::size_t>(matrix)];
}

std::vector<engine::MatrixRef> ActivationsJob::matrices(std::int64_t row) const {
  const ActivationLayer& layer = layers_[static_cast<std::size_t>(row)];
  std::vector<engine::MatrixRef> out;
  if (layer.matrix >= 0) {
    out.push_back({0, layer.matrix});
  }
  for (const model::FeatureMatrix& gate : layer.gates) {
    out.push_back({1, gate.matrix});
  }
  return out;
}

engine::RowFacts ActivationsJob::facts(std::int64_t row) const {
  engine::RowFacts facts;
  const model::MatrixRecord* record = dumped(row);
  if (record != nullptr) {
    facts.name = escaped(record->tensor);
    facts.cost = static_cast<double>(record->rows) * static_cast<double>(record->cols) *
                 (is_logits(*record) ? 8.0 : static_cast<double>(record->cols));
  }
  for (const engine::MatrixRef& ref : matrices(row)) {
    const model::MatrixRecord& matrix = record_of(views_, ref);
    facts.bytes += engine::stored_bytes(matrix);
    if (ref.model == 1) {
      facts.name = facts.name.empty() ? model::matrix_name(matrix) : facts.name;
      facts.cost += static_cast<double>(matrix.rows) * static_cast<double>(matrix.rows) *
                    static_cast<double>(matrix.cols);
    }
  }
  return facts;
}

engine::WorkerLayout ActivationsJob::worker_layout() const {
  engine::WorkerLayout layout{.calls = {}, .batch = 1, .held = 1};
  for (const auto& backend : backends_) {
    layout.calls.push_back(std::min<std::int32_t>(backend->limits().concurrent_calls,
                                                  static_cast<std::int32_t>(layers_.size())));
  }
  return layout;
}

/// What a call may use where a back end takes several.
std::int32_t ActivationsJob::threads_of_one(std::size_t device) const {
  const std::int32_t calls = backends_[device]->limits().concurrent_calls;
  return std::max(1, calls / worker_layout().calls[device]);
}

std::vector<engine::RowWork> ActivationsJob::works(const std::vector<std::int64_t>& rows) const {
  constexpr std::uint64_t kRowBytes = 1000;
  const Backend& backend = *backends_.front();
  const std::int32_t threads = threads_of_one(0);
  std::vector<engine::RowWork> works;
  for (const std::int64_t row : rows) {
    const engine::RowFacts of_row = facts(row);
    engine::RowWork work;
    work.row = row;
    work.matrices = matrices(row);
    work.name = of_row.name;
    work.read_bytes = of_row.bytes;
    work.cost = of_row.cost;
    work.output_bytes = kRowBytes;
    std::uint64_t slabs = 0;
    for (const engine::MatrixRef& ref : work.matrices) {
      const model::MatrixRecord& matrix = record_of(views_, ref);
      work.slot = std::max(work.slot, engine::staged_bytes(matrix).slot);
      slabs = std::max(slabs, engine::slab_memory(matrix.stored_cols(), step_of(matrix), true) +
                                  engine::stored_bytes(matrix) - matrix.codes.bytes);
    }
    if (const model::MatrixRecord* record = dumped(row); record != nullptr) {
      work.workspace = engine::slab_memory(record->cols, step_of(*record), false);
      if (!is_logits(*record)) {
        const engine::CovarianceTools tools{*backends_.front(), nulls_, threads};
        work.workspace += engine::activations_row_bytes(record->rows, record->cols,
                                                        covariance_ ? &tools : nullptr);
      }
    }
    for (const model::FeatureMatrix& gate : layers_[static_cast<std::size_t>(row)].gates) {
      const model::MatrixRecord& matrix =
          model_->index.matrices[static_cast<std::size_t>(gate.matrix)];
      work.workspace =
          std::max(work.workspace, gate_cosines_memory(gate.rows.count, matrix.cols,
                                                       matrix.stored_cols(), backend, threads));
    }
    work.min_workspace = work.workspace;
    work.streamed = work.streamed_workspace = work.workspace + slabs;
    works.push_back(std::move(work));
  }
  return works;
}

std::unique_ptr<StagingBuffer> ActivationsJob::make_staging(std::size_t bytes) {
  return backends_.front()->make_staging(bytes);
}

void ActivationsJob::add_logits(engine::UnitStream& unit, results::ResultRow& row) const {
  MatrixInput& input = *unit.input(0);
  const auto vocabulary = static_cast<std::size_t>(input.cols());
  statistics::LogitStatistics statistics;
  std::int64_t left_out = 0;
  engine::for_each_slab(input, 1, [&](const auto& /*slab*/, std::span<const float> values) {
    for (std::size_t first = 0; first < values.size(); first += vocabulary) {
      left_out += statistics.add(values.subspan(first, vocabulary)) ? 0 : 1;
    }
  });
  if (left_out > 0) {
    engine::add_reason(
        row, fmt::format("{} of {} positions have logits that are not finite, left out", left_out,
                         input.rows()));
  }
  if (statistics.tokens() == 0) {
    row.status = MatrixStatus::kNotFinite;
    return;
  }
  row.cells[activations_cell("tokens_left_out")] = static_cast<double>(left_out);
  const auto entries = static_cast<double>(vocabulary);
  row.cells[activations_cell("top8_mass")] = statistics.top8_mass();
  row.cells[activations_cell("top8_mass_null")] = std::min(1.0, 8.0 / entries);
  row.cells[activations_cell("output_entropy")] = statistics.output_entropy();
  row.cells[activations_cell("output_entropy_null")] = std::log(entries);
}

void ActivationsJob::add_gates(engine::UnitStream& unit, Backend& backend, std::int32_t threads,
                               std::int64_t number, results::ResultRow& row) const {
  const ActivationLayer& layer = layers_[static_cast<std::size_t>(number)];
  const std::size_t first = unit.size() - layer.gates.size();
  double adjacent = 0.0;
  double absolute = 0.0;
  double pairs = 0.0;  // of neighbours, all matrices together
  std::int64_t counted = 0;
  std::int64_t rows = 0;
  std::int64_t zero_rows = 0;
  std::int64_t not_finite = 0;
  std::int64_t width = 0;
  for (std::size_t i = 0; i < layer.gates.size(); ++i) {
    unit.wait(first + i);
    unit.require_read(first + i);
    const GateCosines cosines = gate_cosines(*unit.input(first + i), layer.gates[i].rows, backend,
                                             threads, unit.stop_token());
    unit.require_read(first + i);
    unit.input(first + i)->release();
    rows += cosines.rows;
    zero_rows += cosines.zero_rows;
    if (std::isnan(cosines.adjacent) || std::isnan(cosines.mean_absolute)) {
      not_finite += cosines.is_finite ? 0 : 1;
      continue;
    }
    width = model_->index.matrices[static_cast<std::size_t>(layer.gates[i].matrix)].cols;
    adjacent += cosines.adjacent;
    absolute += cosines.mean_absolute;
    pairs += static_cast<double>(cosines.rows - 1);
    ++counted;
  }
  if (not_finite > 0) {
    engine::add_reason(
        row,
        fmt::format("{} gate projections hold weights that are not finite, left out", not_finite));
  }
  if (layer.passed_over > 0) {
    engine::add_reason(row, passed_over_text(layer.passed_over));
  }
  row.cells[activations_cell("gate_matrices")] = static_cast<double>(counted);
  row.cells[activations_cell("gate_rows")] = static_cast<double>(rows);
  row.cells[activations_cell("gate_zero_rows")] = static_cast<double>(zero_rows);
  if (counted == 0) {
    if (not_finite == 0 && !layer.gates.empty()) {
      engine::add_reason(row, "fewer than two rows of a gate projection are not zeros: no cosine");
    }
    return;
  }
  if (row.status == MatrixStatus::kNotFinite) {
    row.status = MatrixStatus::kMeasured;  // of the weights there are numbers
  }
  const auto count = static_cast<double>(counted);
  const auto d = static_cast<double>(width);
  row.cells[activations_cell("gate_width")] = d;
  row.cells[activations_cell("gate_adjacent_cosine")] = adjacent / count;
  row.cells[activations_cell("gate_adjacent_cosine_null")] = 0.0;
  row.cells[activations_cell("gate_adjacent_cosine_null_sd")] = 1.0 / std::sqrt(d * pairs);
  row.cells[activations_cell("gate_mean_abs_cosine")] = absolute / count;
  row.cells[activations_cell("gate_mean_abs_cosine_null")] =
      std::sqrt(2.0 / (std::numbers::pi * d));
}

void ActivationsJob::process(engine::UnitStream& unit, std::size_t device, engine::RowSink& rows) {
  const std::int64_t number = unit.unit->rows.front();
  Backend& backend = *backends_[device];
  const std::int32_t threads = threads_of_one(device);
  results::ResultRow row;
  const char* side = "dump: ";
  try {
    row.status = MatrixStatus::kMeasured;
    row.method = "float64+" + backend.info().name;
    row.cells = results::empty_cells(kActivationsTable);
    row.arrays.resize(kActivationsArrays.size());
    if (const model::MatrixRecord* record = dumped(number); record != nullptr) {
      unit.wait(0);
      unit.require_read(0);
      if (is_logits(*record)) {
        add_logits(unit, row);
      } else {
        const engine::CovarianceTools tools{backend, nulls_, threads};
        engine::add_activations(*unit.input(0), law_of(*record), covariance_ ? &tools : nullptr,
                                unit.stop_token(), row);
      }
      unit.require_read(0);
      unit.input(0)->release();
    } else {
      engine::add_reason(row, "this layer was not dumped");
    }
    side = "model: ";
    if (!layers_[static_cast<std::size_t>(number)].gates.empty()) {
      add_gates(unit, backend, threads, number, row);
    } else if (model_ && !is_logits(*dumped(number))) {
      engine::add_reason(row,
                         passed_over_text(layers_[static_cast<std::size_t>(number)].passed_over));
    }
  } catch (const std::exception&) {
    row = engine::failed_row(std::current_exception());
    row.reason = side + row.reason;
  }
  row.index = number;
  rows.push(std::move(row));
}

}  // namespace vindex::commands
