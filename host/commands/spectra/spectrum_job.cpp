// Owns the units of a measuring run: what goes to which back end, and the rows of what comes back.
#include "spectrum_job.hpp"

#include "spectrum_plan.hpp"

#include "commands/spectra/sampled/sampled_input.hpp"
#include "core/process/parallel.hpp"
#include "engine/plan/division.hpp"
#include "engine/units/derived_rows.hpp"
#include "engine/units/unit_stream.hpp"
#include <vindex/error.hpp>

#include <algorithm>
#include <limits>
#include <string_view>
#include <tuple>
#include <utility>

namespace vindex::commands {

namespace {

std::uint64_t matrix_workspace(const void* context, const model::MatrixRecord& matrix,
                               InputBytes input) {
  const auto* asked = static_cast<const std::pair<const Backend*, const MeasureOptions*>*>(context);
  return asked->first->workspace_bytes(engine::measured_encoding(matrix), matrix.stored_rows(),
                                       matrix.stored_cols(),
                                       engine::options_for(matrix.table, *asked->second), input);
}

/// As they are stored; products, which are of several places, last.
void sort_by_file(const engine::SelectedModel& model, std::vector<engine::RowWork>& works) {
  const engine::ModelViews views = {{&model.files, &model.index}};
  std::stable_sort(works.begin(), works.end(),
                   [&](const engine::RowWork& a, const engine::RowWork& b) {
                     return engine::stored_place(views, a.matrices.front()) <
                            engine::stored_place(views, b.matrices.front());
                   });
}

/// The first drawn of all groups, then the second ones, ...; what is of no draw last. Within a turn
/// by role, so that matrices of one shape are neighbours and share a batch.
void sort_by_draw(const engine::SelectedModel& model, std::vector<engine::RowWork>& works) {
  const auto turn = [&](const engine::RowWork& work) {
    const model::MatrixRecord& record =
        model.index.matrices[static_cast<std::size_t>(work.matrices.front().matrix)];
    const bool is_drawn = record.draw >= 0 && record.table == model::ResultTable::kMatrix;
    return std::tuple(is_drawn ? record.draw : std::numeric_limits<std::int32_t>::max(),
                      record.block, model::role_rank(record.role), std::string_view(record.role));
  };
  std::stable_sort(
      works.begin(), works.end(),
      [&](const engine::RowWork& a, const engine::RowWork& b) { return turn(a) < turn(b); });
}

}  // namespace

std::vector<engine::RowWork> spectrum_works(const engine::SelectedModel& model,
                                            const std::vector<std::unique_ptr<Backend>>& backends,
                                            const MeasureOptions& options, RowOptions wanted,
                                            const std::vector<std::int64_t>& rows) {
  const std::pair<const Backend*, const MeasureOptions*> context(backends.front().get(), &options);
  const SpectrumPlanning planning{.index = &model.index,
                                  .options = &options,
                                  .workspace = &matrix_workspace,
                                  .context = &context,
                                  .store_spectra = wanted.store_spectra,
                                  .sampled = wanted.sampled};
  std::vector<engine::RowWork> works;
  works.reserve(rows.size());
  for (const std::int64_t row : rows) {
    works.push_back(spectrum_work(planning, row, model.selected[static_cast<std::size_t>(row)]));
  }
  if (wanted.in_file_order) {
    sort_by_file(model, works);
  }
  if (wanted.in_drawn_order) {
    sort_by_draw(model, works);
  }
  set_kinds(model.index, works);
  return works;
}

RowOptions row_options(const SpectraSettings& settings) {
  return {.store_spectra = settings.store_spectra,
          .sampled = settings.class_of != nullptr,
          .in_file_order = settings.in_file_order,
          .in_drawn_order = settings.in_drawn_order};
}

engine::WorkerLayout layout_of(const std::vector<std::unique_ptr<Backend>>& backends,
                               RowOptions wanted) {
  const BackendLimits limits = backends.front()->limits();
  engine::WorkerLayout layout{.calls = {},
                              .batch = limits.batch,
                              .held = limits.held_inputs,
                              .in_order = wanted.in_file_order || wanted.in_drawn_order};
  for (const auto& backend : backends) {
    layout.calls.push_back(backend->limits().concurrent_calls);
  }
  return layout;
}

SpectrumJob::SpectrumJob(SpectraModel model, std::vector<std::unique_ptr<Backend>> backends,
                         MeasureOptions options, RowOptions rows)
    : model_(std::move(model)),
      views_({{&model_.files, &model_.index}}),
      backends_(std::move(backends)),
      options_(std::move(options)),
      row_options_(rows) {}

const model::MatrixRecord& SpectrumJob::record(std::int64_t row) const {
  return model_.index
      .matrices[static_cast<std::size_t>(model_.selected[static_cast<std::size_t>(row)])];
}

std::int64_t SpectrumJob::row_count() const {
  return static_cast<std::int64_t>(model_.selected.size());
}

engine::RowFacts SpectrumJob::facts(std::int64_t row) const {
  const model::MatrixRecord& matrix = record(row);
  return {.name = model::matrix_name(matrix),
          .unsupported = matrix.unsupported,
          .is_derived = matrix.table != model::ResultTable::kMatrix,
          .bytes = encoded_bytes(matrix),
          .cost = row_cost(matrix, options_)};
}

std::vector<engine::RowWork> SpectrumJob::works(const std::vector<std::int64_t>& rows) const {
  return spectrum_works(model_, backends_, options_, row_options_, rows);
}

engine::WorkerLayout SpectrumJob::worker_layout() const {
  return layout_of(backends_, row_options_);
}

std::unique_ptr<StagingBuffer> SpectrumJob::make_staging(std::size_t bytes) {
  return backends_.front()->make_staging(bytes);
}

void SpectrumJob::begin(engine::RowSink& rows, std::uint64_t queue_bytes) {
  stage_ = std::make_unique<RowStage>(model_.index, options_, rows, queue_bytes);
  if (row_options_.sampled && !backends_.front()->limits().uses_host_cores) {
    scale_threads_ = std::make_unique<ScaleThreads>(std::clamp(usable_cores() / 2, 1, 16));
  }
}

void SpectrumJob::finish() { stage_->finish(); }

/// Measures some matrices of a unit. Memory trouble halves the batch; trouble of one matrix is a
/// row.
void SpectrumJob::measure_part(engine::UnitStream& unit, Backend& backend,
                               const std::vector<std::size_t>& members, engine::RowSink& rows) {
  const model::ResultTable table = record(unit.unit->rows.front()).table;
  const bool sampled = row_options_.sampled && table == model::ResultTable::kMatrix;
  std::vector<MatrixInput*> batch;
  std::vector<std::unique_ptr<SampledInput>> samples;
  for (const std::size_t member : members) {
    batch.push_back(unit.input(member));
    if (sampled) {
      batch.back() = samples
                         .emplace_back(std::make_unique<SampledInput>(
                             *batch.back(), options_.sign_flip_draws > 0, scale_threads_.get()))
                         .get();
    }
  }
  std::vector<MatrixReport> reports(batch.size());
  MeasureOptions options = engine::options_for(table, options_);
  options.stop = unit.stop_token();
  std::exception_ptr error;
  try {
    backend.measure(batch, options, unit.unit->workspace_limit, reports);
  } catch (const DeviceError&) {
    throw;
  } catch (const std::exception&) {
    error = std::current_exception();
  }
  if (error != nullptr && members.size() > 1) {
    samples.clear();  // after the last look at their inputs, which are used again
    const auto middle = members.begin() + static_cast<std::ptrdiff_t>(members.size() / 2);
    measure_part(unit, backend, {members.begin(), middle}, rows);
    measure_part(unit, backend, {middle, members.end()}, rows);
    return;
  }
  for (std::size_t i = 0; i < members.size(); ++i) {
    batch[i]->release();
    const std::int64_t row = unit.unit->rows[members[i]];
    // What could not be read was zeros to the back end.
    const std::exception_ptr unread = unit.error(members[i]);
    if (unread != nullptr || error != nullptr) {
      rows.push_failed(row, unread != nullptr ? unread : error);
    } else {
      stage_->push(row, unit.unit->matrices[members[i]].matrix, std::move(reports[i]),
                   sampled ? samples[i]->take_sample() : TakenSample());
    }
  }
}

/// On the host, whatever the back end.
void SpectrumJob::process_products(const engine::UnitStream& unit, engine::RowSink& rows) {
  engine::ProductMeasurer measurer(model_.files);
  for (const std::int64_t row : unit.unit->rows) {
    try {
      stage_->push(row, model_.selected[static_cast<std::size_t>(row)],
                   measurer.measure(record(row), unit.stop_token()));
    } catch (const std::exception&) {
      rows.push_failed(row, std::current_exception());
    }
  }
}

void SpectrumJob::process(engine::UnitStream& unit, std::size_t device, engine::RowSink& rows) {
  if (record(unit.unit->rows.front()).product != nullptr) {
    return process_products(unit, rows);
  }
  std::vector<std::size_t> members;
  for (std::size_t i = 0; i < unit.size(); ++i) {
    if (unit.size() == 1) {
      unit.wait(i);  // nothing else is there to be measured meanwhile
    }
    if (const std::exception_ptr unread = unit.error(i);
        unit.input(i) == nullptr || (unread != nullptr && unit.size() == 1)) {
      rows.push_failed(unit.unit->rows[i], unread);
    } else {
      members.push_back(i);
    }
  }
  if (!members.empty()) {
    measure_part(unit, *backends_[device], members, rows);
  }
}

}  // namespace vindex::commands
