#include "spectrum_job.hpp"

#include <vindex/core/error.hpp>
#include <vindex/run/derived_rows.hpp>
#include <vindex/run/product_rows.hpp>
#include <vindex/run/spectrum_plan.hpp>
#include <vindex/run/unit_stream.hpp>

#include <utility>

namespace vindex::run {

namespace {

std::uint64_t workspace_of(const void* context, const model::MatrixRecord& matrix,
                           measure::InputBytes input) {
  const auto* asked =
      static_cast<const std::pair<const measure::Backend*, const measure::MeasureOptions*>*>(
          context);
  return asked->first->workspace_bytes(measured_encoding(matrix), matrix.stored_rows(),
                                       matrix.stored_cols(),
                                       options_for(matrix.table, *asked->second), input);
}

}  // namespace

std::vector<RowWork> spectrum_works(const SelectedModel& model,
                                    const std::vector<std::unique_ptr<measure::Backend>>& backends,
                                    const measure::MeasureOptions& options, bool store_spectra,
                                    const std::vector<std::int64_t>& rows) {
  const std::pair<const measure::Backend*, const measure::MeasureOptions*> context(
      backends.front().get(), &options);
  const SpectrumPlanning planning{.index = &model.index,
                                  .options = &options,
                                  .workspace = &workspace_of,
                                  .context = &context,
                                  .store_spectra = store_spectra};
  std::vector<RowWork> works;
  works.reserve(rows.size());
  for (const std::int64_t row : rows) {
    works.push_back(spectrum_work(planning, row, model.selected[static_cast<std::size_t>(row)]));
  }
  set_kinds(model.index, works);
  return works;
}

Lanes lanes_of(const std::vector<std::unique_ptr<measure::Backend>>& backends) {
  const measure::BackendLimits limits = backends.front()->limits();
  Lanes lanes{.calls = {}, .batch = limits.batch, .held = limits.held_inputs};
  for (const auto& backend : backends) {
    lanes.calls.push_back(backend->limits().concurrent_calls);
  }
  return lanes;
}

SpectrumJob::SpectrumJob(SelectedModel model,
                         std::vector<std::unique_ptr<measure::Backend>> backends,
                         measure::MeasureOptions options, bool store_spectra)
    : model_(std::move(model)),
      views_({{&model_.files, &model_.index}}),
      backends_(std::move(backends)),
      options_(std::move(options)),
      store_spectra_(store_spectra) {}

const model::MatrixRecord& SpectrumJob::record(std::int64_t row) const {
  return model_.index
      .matrices[static_cast<std::size_t>(model_.selected[static_cast<std::size_t>(row)])];
}

std::int64_t SpectrumJob::row_count() const {
  return static_cast<std::int64_t>(model_.selected.size());
}

RowFacts SpectrumJob::facts(std::int64_t row) const {
  const model::MatrixRecord& matrix = record(row);
  return {.name = model::matrix_name(matrix),
          .unsupported = matrix.unsupported,
          .is_derived = matrix.table != model::ResultTable::kMatrix,
          .bytes = encoded_bytes(matrix),
          .cost = row_cost(matrix, options_)};
}

std::vector<RowWork> SpectrumJob::works(const std::vector<std::int64_t>& rows) const {
  return spectrum_works(model_, backends_, options_, store_spectra_, rows);
}

Lanes SpectrumJob::lanes() const { return lanes_of(backends_); }

std::unique_ptr<measure::StagingBuffer> SpectrumJob::make_staging(std::size_t bytes) {
  return backends_.front()->make_staging(bytes);
}

void SpectrumJob::begin(RowSink& rows, std::uint64_t queue_bytes) {
  rows_ = &rows;
  stage_ = std::make_unique<RowStage>(model_.index, options_, rows, queue_bytes);
}

void SpectrumJob::finish() { stage_->finish(); }

/// Measures some matrices of a unit. Memory trouble halves the batch; trouble of one matrix is a
/// row.
void SpectrumJob::measure_part(UnitStream& unit, measure::Backend& backend,
                               const std::vector<std::size_t>& members) {
  std::vector<measure::MatrixInput*> batch;
  for (const std::size_t member : members) {
    batch.push_back(unit.input(member));
  }
  std::vector<measure::MatrixReport> reports(batch.size());
  std::exception_ptr trouble;
  const model::ResultTable table = record(unit.unit->rows.front()).table;
  try {
    backend.measure(batch, options_for(table, options_), unit.unit->workspace_limit, reports);
  } catch (const DeviceError&) {
    throw;
  } catch (const std::exception&) {
    trouble = std::current_exception();
  }
  if (trouble != nullptr && members.size() > 1) {
    const auto middle = members.begin() + static_cast<std::ptrdiff_t>(members.size() / 2);
    measure_part(unit, backend, {members.begin(), middle});
    measure_part(unit, backend, {middle, members.end()});
    return;
  }
  for (std::size_t i = 0; i < members.size(); ++i) {
    batch[i]->release();
    const std::int64_t row = unit.unit->rows[members[i]];
    // What could not be read was zeros to the back end.
    const std::exception_ptr unread = unit.error(members[i]);
    if (unread != nullptr || trouble != nullptr) {
      rows_->push_failed(row, unread != nullptr ? unread : trouble);
    } else {
      stage_->push(row, unit.unit->matrices[members[i]].matrix, std::move(reports[i]));
    }
  }
}

/// On the host, whatever the back end.
void SpectrumJob::process_products(const WorkUnit& unit) {
  ProductMeasurer measurer(model_.files);
  for (const std::int64_t row : unit.rows) {
    try {
      stage_->push(row, model_.selected[static_cast<std::size_t>(row)],
                   measurer.measure(record(row)));
    } catch (const std::exception&) {
      rows_->push_failed(row, std::current_exception());
    }
  }
}

void SpectrumJob::process(UnitStream& unit, std::size_t device) {
  if (record(unit.unit->rows.front()).product != nullptr) {
    return process_products(*unit.unit);
  }
  std::vector<std::size_t> members;
  for (std::size_t i = 0; i < unit.size(); ++i) {
    if (unit.size() == 1) {
      unit.wait(i);  // nothing else is there to be measured meanwhile
    }
    if (const std::exception_ptr unread = unit.error(i);
        unit.input(i) == nullptr || (unread != nullptr && unit.size() == 1)) {
      rows_->push_failed(unit.unit->rows[i], unread);
    } else {
      members.push_back(i);
    }
  }
  if (!members.empty()) {
    measure_part(unit, *backends_[device], members);
  }
}

}  // namespace vindex::run
