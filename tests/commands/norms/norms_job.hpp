// Owns an example of a job, which docs/developing/adding-a-job.md shows: the Frobenius norm of
// every matrix of a model, a row of a results file each.
#pragma once

#include "core/process/parallel.hpp"
#include "core/process/stop.hpp"
#include "engine/run/description_parts.hpp"
#include "engine/run/job_frame.hpp"
#include "engine/run/opening.hpp"
#include "engine/units/row_slabs.hpp"
#include "engine/units/unit_stream.hpp"
#include "results/schema/cell_table.hpp"
#include <vindex/error.hpp>

#include <fmt/format.h>

#include <array>
#include <cmath>
#include <cstdint>
#include <exception>
#include <memory>
#include <span>
#include <stop_token>
#include <string_view>
#include <utility>
#include <vector>

namespace vindex::commands {

// 1. The table: every number of a row beside its identity. Writer, reader and checks follow it.
inline constexpr std::array<results::CellColumn, 1> kNormsCells = {{
    {"frobenius_norm", "root of the sum of squared weights", false, results::kNotNegative},
}};
inline constexpr results::CellTable kNormsTable = {kNormsCells};

consteval std::size_t norms_cell(std::string_view name) {
  return results::cell_in(kNormsCells, name);
}

/// A kind of the program has an enumerator.
inline constexpr auto kNormsSchema = static_cast<results::FileSchema>(100);

// 2. The job: rows, what each needs, and what becomes of it.
class NormsJob final : public engine::Job {
 public:
  NormsJob(engine::SelectedModel model, std::int32_t threads)
      : model_(std::move(model)), views_({{&model_.files, &model_.index}}), threads_(threads) {}

  const engine::ModelViews& models() const override { return views_; }
  std::int64_t row_count() const override { return std::ssize(model_.selected); }
  engine::RowFacts facts(std::int64_t row) const override {
    const model::MatrixRecord& matrix = record(row);
    return {.name = model::matrix_name(matrix),
            .unsupported = model::undecodable_text(matrix),
            .bytes = engine::stored_bytes(matrix),
            .cost = static_cast<double>(matrix.rows) * static_cast<double>(matrix.cols)};
  }
  /// The plan is made of these numbers: what is too little here breaks the memory budget.
  std::vector<engine::RowWork> works(const std::vector<std::int64_t>& rows) const override {
    std::vector<engine::RowWork> works;
    for (const std::int64_t row : rows) {
      const model::MatrixRecord& matrix = record(row);
      engine::RowWork& work = works.emplace_back();
      work.row = row;
      work.matrices = {{0, model_.selected[static_cast<std::size_t>(row)]}};
      work.name = matrix.tensor;
      work.cost = facts(row).cost;
      work.read_bytes = engine::stored_bytes(matrix);
      work.slot = engine::staged_bytes(matrix).slot;
      work.output_bytes = sizeof(double) * kNormsCells.size();
      work.workspace = work.min_workspace = engine::slab_memory(matrix.stored_cols(), 1, false);
      work.streamed = work.streamed_workspace =
          engine::slab_memory(matrix.stored_cols(), 1, true) + work.read_bytes - matrix.codes.bytes;
    }
    return works;
  }
  engine::WorkerLayout worker_layout() const override { return {.calls = {threads_}}; }

  /// From many threads at once, a unit each. Stopped is no std::exception: it passes.
  void process(engine::UnitStream& unit, std::size_t /*device*/, engine::RowSink& rows) override {
    results::ResultRow row;
    try {
      unit.wait(0);
      unit.require_read(0);
      row = norm_of(*unit.input(0), unit.stop_token());
      unit.require_read(0);  // what was read slab by slab is believed only now
    } catch (const std::exception&) {
      row = engine::failed_row(std::current_exception());
    }
    row.index = unit.unit->rows.front();
    rows.push(std::move(row));
  }

 private:
  const model::MatrixRecord& record(std::int64_t row) const {
    return model_.index
        .matrices[static_cast<std::size_t>(model_.selected[static_cast<std::size_t>(row)])];
  }

  static results::ResultRow norm_of(MatrixInput& input, const std::stop_token& stop) {
    decode::Moments sum;
    engine::for_each_slab(
        input, 1, [&](const decode::EncodedMatrix& slab, std::span<const float> values) {
          throw_if_stopped(stop);
          sum = decode::merge(sum,
                              decode::moments_of(values.data(), slab.rows, slab.cols, slab.cols));
        });
    results::ResultRow row;
    row.method = "float64";
    row.cells = results::empty_cells(kNormsTable);
    if (sum.nonfinite > 0) {  // a row without a value says why
      row.status = MatrixStatus::kNotFinite;
      row.reason = fmt::format("{} weights are not finite", sum.nonfinite);
      return row;
    }
    row.status = MatrixStatus::kMeasured;
    row.cells[norms_cell("frobenius_norm")] = std::sqrt(sum.sum_squares);
    return row;
  }

  engine::SelectedModel model_;
  engine::ModelViews views_;
  std::int32_t threads_;
};

// 3. The run: open, describe, hand over. Rows of an earlier run are kept where the fingerprint is
// the same: whatever changes a number belongs into it. add_inputs() puts in the files.
inline engine::RunOutcome measure_norms(const engine::RunSettings& settings,
                                        const engine::RunHooks& hooks) {
  engine::JobFrame frame(settings);
  engine::SelectedModel model = engine::open_selected(settings);
  const std::int32_t threads = settings.threads > 0 ? settings.threads : usable_cores();
  frame.open_reader({&model.files});
  results::RunDescription& run = frame.describe(
      kNormsSchema, settings.model, "norms of " + printable(settings.model), {}, threads);
  frame.add_inputs(model.files);
  frame.complete({}, engine::shape_json(model.index.shape));
  for (const std::int64_t matrix : model.selected) {
    run.matrices.push_back(model.index.matrices[static_cast<std::size_t>(matrix)]);
  }
  frame.say_warnings(model.files, model.index);
  frame.say(model.notes);
  return engine::run_job(std::make_unique<NormsJob>(std::move(model), threads), frame.take_run(),
                         hooks);
}

}  // namespace vindex::commands
