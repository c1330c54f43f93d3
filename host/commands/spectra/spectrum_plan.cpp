// Owns the cost model of a spectrum: memory beside the matrix, report, arithmetic, kinds that share
// a call.
#include "spectrum_plan.hpp"

#include "commands/spectra/sampled/sampled_input.hpp"
#include "engine/units/derived_rows.hpp"
#include "model/products/product.hpp"
#include "statistics/judgement/batch_inputs.hpp"
#include "statistics/null/sign_flip_null.hpp"

#include <algorithm>

namespace vindex::commands {

namespace {

bool spectra_of_one_kind(const model::ModelIndex& index, const engine::RowWork& work_a,
                         const engine::RowWork& work_b) {
  const model::MatrixRecord& a =
      index.matrices[static_cast<std::size_t>(work_a.matrices.front().matrix)];
  const model::MatrixRecord& b =
      index.matrices[static_cast<std::size_t>(work_b.matrices.front().matrix)];
  if (work_a.reading == engine::Reading::kPieces || work_b.reading == engine::Reading::kPieces) {
    // Heads of one attention share factors that one worker reads once.
    return work_a.reading == work_b.reading && a.tensor == b.tensor;
  }
  return a.table == b.table &&
         statistics::is_same_kind({a.rows, a.cols, a.transposed, &a.encoding},
                                  {b.rows, b.cols, b.transposed, &b.encoding}) &&
         work_a.slot == work_b.slot && work_a.shared == work_b.shared;
}

/// Spectrum, singular vectors and draws of one report.
std::uint64_t report_bytes(const model::MatrixRecord& matrix, const MeasureOptions& options) {
  const auto rows = static_cast<std::uint64_t>(matrix.rows);
  const auto cols = static_cast<std::uint64_t>(matrix.cols);
  const auto draws = static_cast<std::uint64_t>(options.sign_flip_draws);
  const std::uint64_t values = std::min(rows, cols);
  const std::uint64_t vectors = std::min(values, static_cast<std::uint64_t>(options.vectors));
  return sizeof(double) * values * (draws > 0 ? 2 : 1) + sizeof(SignFlipDraw) * draws +
         vectors * (sizeof(float) * (rows + cols) + 3 * sizeof(double));
}

}  // namespace

engine::RowWork spectrum_work(const SpectrumPlanning& planning, std::int64_t row,
                              std::int64_t matrix) {
  const model::MatrixRecord& record = planning.index->matrices[static_cast<std::size_t>(matrix)];
  engine::RowWork work;
  work.row = row;
  work.matrices = {{0, matrix}};
  work.name = record.tensor;
  work.cost = row_cost(record, *planning.options);
  work.read_bytes = encoded_bytes(record);
  const auto values = static_cast<std::uint64_t>(
      record.product != nullptr ? record.product->rank() : std::min(record.rows, record.cols));
  work.output_bytes = (planning.store_spectra ? 8 * values : 0) + 700;
  if (record.product != nullptr) {
    work.reading = engine::Reading::kPieces;
    work.workspace = engine::product_bytes(record);
    return work;
  }
  work.result_bytes = report_bytes(record, engine::options_for(record.table, *planning.options));
  const engine::StagedBytes staged = engine::staged_bytes(record);
  work.slot = staged.slot;
  work.shared = staged.shared;
  const engine::InputMemory input = engine::input_memory(record);
  const auto need = [&](InputBytes bytes) {
    return planning.workspace(planning.context, record, bytes);
  };
  // A derived row decodes into slabs of its own, also where the bytes below it are held.
  const bool is_derived = input.working > 0;
  work.streamed_workspace = need(InputBytes::kStreamedLeast);
  work.workspace = need(is_derived ? InputBytes::kStreamed : InputBytes::kHeld);
  work.min_workspace = is_derived ? work.streamed_workspace : work.workspace;
  work.input_working = input.working;
  work.input_lasting = input.lasting;
  if (planning.sampled && record.table == model::ResultTable::kMatrix) {
    const std::uint64_t sample = sample_bytes(record.rows * record.cols);
    work.input_working += scale_bytes_in_memory(record.rows * record.cols);
    work.input_lasting += sample;
    work.result_bytes += sample;
  }
  // A slab in flight is encoded beside its decoded tile; no encoding takes more than twice the
  // bytes of float32. A derived input decodes its slab from another one.
  const std::uint64_t companions = work.read_bytes - record.codes.bytes;
  work.streamed = 2 * work.streamed_workspace + companions + work.input_lasting + 3 * input.working;
  if (planning.sampled && record.table == model::ResultTable::kMatrix) {
    work.streamed += scale_bytes(record.stored_rows(), record.stored_cols());
  }
  return work;
}

void set_kinds(const model::ModelIndex& index, std::vector<engine::RowWork>& works) {
  for (std::size_t i = 0; i < works.size(); ++i) {
    const bool is_alike = i > 0 && spectra_of_one_kind(index, works[i - 1], works[i]);
    works[i].kind = i == 0 ? 1 : works[i - 1].kind + (is_alike ? 0 : 1);
  }
}

engine::WorkPlan plan_work(const model::ModelIndex& index,
                           const std::vector<std::int64_t>& selected, const MeasureOptions& options,
                           const engine::PlanLimits& limits, WorkspaceModel workspace,
                           const void* context, bool store_spectra) {
  const SpectrumPlanning planning{.index = &index,
                                  .options = &options,
                                  .workspace = workspace,
                                  .context = context,
                                  .store_spectra = store_spectra};
  std::vector<engine::RowWork> works;
  for (std::size_t row = 0; row < selected.size(); ++row) {
    if (index.matrices[static_cast<std::size_t>(selected[row])].unsupported.empty()) {
      works.push_back(spectrum_work(planning, static_cast<std::int64_t>(row), selected[row]));
    }
  }
  set_kinds(index, works);
  return engine::plan_rows(works, limits);
}

std::uint64_t encoded_bytes(const model::MatrixRecord& matrix) {
  return matrix.product != nullptr ? engine::product_read_bytes(matrix)
                                   : engine::stored_bytes(matrix);
}

double row_cost(const model::MatrixRecord& matrix, const MeasureOptions& options) {
  return matrix.product != nullptr
             ? engine::product_cost(matrix)
             : engine::measuring_cost(matrix.rows, matrix.cols,
                                      engine::options_for(matrix.table, options));
}

}  // namespace vindex::commands
