// Owns what measuring the spectrum of a matrix costs: arithmetic, memory, what may share a
// hand-over to a back end.
#pragma once

#include "backend/backend.hpp"
#include "engine/plan/work_plan.hpp"
#include "model/model_index.hpp"

#include <cstdint>
#include <vector>

namespace vindex::commands {

/// What the plan asks of a back end: its workspace, without needing one in tests.
using WorkspaceModel = std::uint64_t (*)(const void* context, const model::MatrixRecord& matrix,
                                         InputBytes input);

/// How spectra are measured, as far as planning goes.
struct SpectrumPlanning {
  const model::ModelIndex* index = nullptr;
  const MeasureOptions* options = nullptr;
  WorkspaceModel workspace = nullptr;
  const void* context = nullptr;  ///< of `workspace`
  bool store_spectra = true;
  bool sampled = false;  ///< a sample of the weights of every row of /matrix/
};

/// What row `row`, matrix `matrix` of the index, needs. `kind` is left to spectrum_works().
engine::RowWork spectrum_work(const SpectrumPlanning& planning, std::int64_t row,
                              std::int64_t matrix);

/// Of neighbours, which rows may share a unit: one table, shape and encoding; heads of one
/// attention. `works` are in the job's order.
void set_kinds(const model::ModelIndex& index, std::vector<engine::RowWork>& works);

/// Plans the measurement of `selected` (indices into index.matrices, in row order; unsupported ones
/// are left out), whose rows are numbered from 0. See plan_rows().
engine::WorkPlan plan_work(const model::ModelIndex& index,
                           const std::vector<std::int64_t>& selected, const MeasureOptions& options,
                           const engine::PlanLimits& limits, WorkspaceModel workspace,
                           const void* context, bool store_spectra);

/// Bytes of codes and companions of one matrix; of a product, those of its windows.
std::uint64_t encoded_bytes(const model::MatrixRecord& matrix);

/// The same of a row of any table.
double row_cost(const model::MatrixRecord& matrix, const MeasureOptions& options);

}  // namespace vindex::commands
