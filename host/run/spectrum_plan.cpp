// Owns the cost model of a spectrum: memory beside the matrix, report, arithmetic, kinds that share
// a call.
#include "sampled_input.hpp"

#include <vindex/measure/judgement.hpp>
#include <vindex/measure/sign_flip_null.hpp>
#include <vindex/model/product.hpp>
#include <vindex/run/derived_rows.hpp>
#include <vindex/run/product_rows.hpp>
#include <vindex/run/spectrum_plan.hpp>

#include <algorithm>

namespace vindex::run {

namespace {

bool spectra_of_one_kind(const model::ModelIndex& index, const RowWork& work_a,
                         const RowWork& work_b) {
  const model::MatrixRecord& a =
      index.matrices[static_cast<std::size_t>(work_a.matrices.front().matrix)];
  const model::MatrixRecord& b =
      index.matrices[static_cast<std::size_t>(work_b.matrices.front().matrix)];
  if (work_a.reading == Reading::kPieces || work_b.reading == Reading::kPieces) {
    // Heads of one attention share factors that one worker reads once.
    return work_a.reading == work_b.reading && a.tensor == b.tensor;
  }
  return a.table == b.table &&
         measure::is_same_kind({a.rows, a.cols, a.transposed, &a.encoding},
                               {b.rows, b.cols, b.transposed, &b.encoding}) &&
         work_a.slot == work_b.slot && work_a.shared == work_b.shared;
}

/// Spectrum, singular vectors and draws of one report.
std::uint64_t report_bytes(const model::MatrixRecord& matrix,
                           const measure::MeasureOptions& options) {
  const auto rows = static_cast<std::uint64_t>(matrix.rows);
  const auto cols = static_cast<std::uint64_t>(matrix.cols);
  const auto draws = static_cast<std::uint64_t>(options.sign_flip_draws);
  const std::uint64_t values = std::min(rows, cols);
  const std::uint64_t vectors = std::min(values, static_cast<std::uint64_t>(options.vectors));
  return sizeof(double) * values * (draws > 0 ? 2 : 1) + sizeof(measure::SignFlipDraw) * draws +
         vectors * (sizeof(float) * (rows + cols) + 3 * sizeof(double));
}

}  // namespace

RowWork spectrum_work(const SpectrumPlanning& planning, std::int64_t row, std::int64_t matrix) {
  const model::MatrixRecord& record = planning.index->matrices[static_cast<std::size_t>(matrix)];
  RowWork work;
  work.row = row;
  work.matrices = {{0, matrix}};
  work.name = record.tensor;
  work.cost = row_cost(record, *planning.options);
  work.read_bytes = encoded_bytes(record);
  const auto values = static_cast<std::uint64_t>(
      record.product != nullptr ? record.product->rank() : std::min(record.rows, record.cols));
  work.output_bytes = (planning.store_spectra ? 8 * values : 0) + 700;
  if (record.product != nullptr) {
    work.reading = Reading::kPieces;
    work.workspace = product_bytes(record);
    return work;
  }
  work.result_bytes = report_bytes(record, options_for(record.table, *planning.options));
  const StagedBytes staged = staged_bytes(record);
  work.slot = staged.slot;
  work.shared = staged.shared;
  const InputMemory input = input_memory(record);
  using measure::InputBytes;
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
    work.input_lasting += sample;
    work.result_bytes += sample;
  }
  // A slab in flight is encoded beside its decoded tile; no encoding takes more than twice the
  // bytes of float32. A derived input decodes its slab from another one.
  const std::uint64_t companions = work.read_bytes - record.codes.bytes;
  work.streamed = 2 * work.streamed_workspace + companions + work.input_lasting + 3 * input.working;
  return work;
}

void set_kinds(const model::ModelIndex& index, std::vector<RowWork>& works) {
  for (std::size_t i = 0; i < works.size(); ++i) {
    const bool is_alike = i > 0 && spectra_of_one_kind(index, works[i - 1], works[i]);
    works[i].kind = i == 0 ? 1 : works[i - 1].kind + (is_alike ? 0 : 1);
  }
}

WorkPlan plan_work(const model::ModelIndex& index, const std::vector<std::int64_t>& selected,
                   const measure::MeasureOptions& options, const PlanLimits& limits,
                   WorkspaceModel workspace, const void* context, bool store_spectra) {
  const SpectrumPlanning planning{.index = &index,
                                  .options = &options,
                                  .workspace = workspace,
                                  .context = context,
                                  .store_spectra = store_spectra};
  std::vector<RowWork> works;
  for (std::size_t row = 0; row < selected.size(); ++row) {
    if (index.matrices[static_cast<std::size_t>(selected[row])].unsupported.empty()) {
      works.push_back(spectrum_work(planning, static_cast<std::int64_t>(row), selected[row]));
    }
  }
  set_kinds(index, works);
  return plan_rows(works, limits);
}

std::uint64_t encoded_bytes(const model::MatrixRecord& matrix) {
  return matrix.product != nullptr ? product_read_bytes(matrix) : stored_bytes(matrix);
}

double measuring_cost(std::int64_t rows, std::int64_t cols,
                      const measure::MeasureOptions& options) {
  const auto p = static_cast<double>(std::min(rows, cols));
  const auto n = static_cast<double>(std::max(rows, cols));
  const double gram = n * p * (p + 1);
  const double reduction = 4.0 / 3.0 * p * p * p;
  // float64 halves the rate; the few values that a Gram of a square matrix loses cost a fifth more.
  const bool is_wide =
      options.mode == measure::Mode::kStrict || measure::begins_in_float64(rows, cols, options, 1);
  const double tail_factor = options.mode != measure::Mode::kFast && n < 1.1 * p ? 1.2 : 1.0;
  const double strict_factor = (is_wide ? 2.2 : 1.0) * tail_factor;
  const double reduction_weight =
      3.0;  // half of it is memory-bound: measured about a third of the Gram's rate
  // Draws take the route of the mode, whatever the shape.
  const double draw_factor = options.mode == measure::Mode::kStrict ? strict_factor : 1.0;
  return (strict_factor + options.sign_flip_draws * draw_factor) *
         (gram + reduction_weight * reduction);
}

double row_cost(const model::MatrixRecord& matrix, const measure::MeasureOptions& options) {
  return matrix.product != nullptr
             ? product_cost(matrix)
             : measuring_cost(matrix.rows, matrix.cols, options_for(matrix.table, options));
}

}  // namespace vindex::run
