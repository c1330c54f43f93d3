#include "row_stage.hpp"

#include <vindex/model/importance_matrix.hpp>
#include <vindex/model/unmeasured.hpp>
#include <vindex/run/derived_rows.hpp>
#include <vindex/run/measure_run.hpp>
#include <vindex/run/product_rows.hpp>
#include <vindex/run/run_description.hpp>
#include <vindex/run/worker_pool.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <new>
#include <random>

namespace vindex::run {

namespace {

using Clock = std::chrono::steady_clock;

constexpr std::size_t kMaxTroubles = 20;
constexpr double kPartSeconds = 30.0;         ///< work lost to a kill at most
constexpr double kPublishSeconds = 9.0 * 60;  ///< the contract says ten minutes

double seconds_since(Clock::time_point start) {
  return std::chrono::duration<double>(Clock::now() - start).count();
}

std::string code_text(ExitCode code) { return std::to_string(static_cast<int>(code)); }

/// Everything the threads of a run touch; it outlives them.
struct RunState {
  SelectedModel model;
  std::vector<std::unique_ptr<measure::Backend>> backends;
  measure::MeasureOptions options;
  WorkPlan plan;
  std::vector<std::int64_t> row_of_matrix;  ///< index in the index -> row, -1 where not selected
  std::unique_ptr<shard::BulkReader> reader;
  std::unique_ptr<RowStage> rows;
  std::unique_ptr<WorkerPool> pool;

  /// Measures some matrices of a unit. Memory trouble halves the batch; trouble of one matrix is a
  /// row.
  void measure_part(UnitStream& unit, measure::Backend& backend,
                    const std::vector<std::size_t>& members) {
    std::vector<measure::MatrixInput*> batch;
    for (const std::size_t member : members) {
      batch.push_back(unit.input(member));
    }
    std::vector<measure::MatrixReport> reports(batch.size());
    std::exception_ptr trouble;
    const model::MatrixRecord& first =
        model.index.matrices[static_cast<std::size_t>(unit.unit->matrices.front())];
    try {
      backend.measure(batch, options_for(first.table, options), unit.unit->workspace_limit,
                      reports);
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
      const std::int64_t matrix = unit.unit->matrices[members[i]];
      // What could not be read was zeros to the back end.
      const std::exception_ptr unread = unit.error(members[i]);
      if (unread != nullptr || trouble != nullptr) {
        rows->push_failed(matrix, unread != nullptr ? unread : trouble);
      } else {
        rows->push(matrix, std::move(reports[i]));
      }
    }
  }

  /// On the host, whatever the back end.
  void process_products(const WorkUnit& unit) {
    ProductMeasurer measurer(model.files);
    for (const std::int64_t row : unit.matrices) {
      try {
        rows->push(row, measurer.measure(model.index.matrices[static_cast<std::size_t>(row)]));
      } catch (const std::exception&) {
        rows->push_failed(row, std::current_exception());
      }
    }
  }

  void process(UnitStream& unit, measure::Backend& backend) {
    const auto first = static_cast<std::size_t>(unit.unit->matrices.front());
    if (model.index.matrices[first].product != nullptr) {
      return process_products(*unit.unit);
    }
    std::vector<std::size_t> members;
    for (std::size_t i = 0; i < unit.size(); ++i) {
      if (unit.size() == 1) {
        unit.wait(i);  // nothing else is there to be measured meanwhile
      }
      if (const std::exception_ptr unread = unit.error(i);
          unit.input(i) == nullptr || (unread != nullptr && unit.size() == 1)) {
        rows->push_failed(unit.unit->matrices[i], unread);
      } else {
        members.push_back(i);
      }
    }
    if (!members.empty()) {
      measure_part(unit, backend, members);
    }
  }
};

void add_to(ProgressSnapshot::Amount& amount, const model::MatrixRecord& record,
            const measure::MeasureOptions& options) {
  ++amount.matrices;
  amount.bytes += encoded_bytes(record);
  amount.cost += row_cost(record, options);
}

/// Counts one finished row into the outcome.
void count_row(const results::ResultRow& row, const model::MatrixRecord& record,
               RunOutcome& outcome) {
  ++outcome.measured_now;
  outcome.escalated += row.escalated ? 1 : 0;
  if (row.status == measure::Status::kMeasured) {
    return;
  }
  const bool not_finite = row.status == measure::Status::kNotFinite;
  const bool unsupported = row.status == measure::Status::kUnsupported;
  outcome.not_finite += not_finite ? 1 : 0;
  outcome.unsupported += unsupported ? 1 : 0;
  outcome.failed += not_finite || unsupported ? 0 : 1;
  if (outcome.troubles.size() < kMaxTroubles) {
    outcome.troubles.push_back(
        fmt::format("{}: {}", model::matrix_name(record), printable(row.reason)));
  }
}

/// The exit code that the first failed or unsupported row in row order asks for, and why.
struct FirstFailure {
  std::int64_t index = -1;
  ExitCode code = ExitCode::kOk;
  std::string text;
  void see(const results::ResultRow& row, const model::MatrixRecord& record) {
    if (!row.error_class.empty() && (index < 0 || row.index < index)) {
      index = row.index;
      code = static_cast<ExitCode>(std::stoi(row.error_class));
      text = fmt::format("{}: {}", matrix_name(record), printable(row.reason));
    }
  }
};

std::uint64_t workspace_of(const void* context, const model::MatrixRecord& matrix, bool least) {
  const auto* asked =
      static_cast<const std::pair<const measure::Backend*, const measure::MeasureOptions*>*>(
          context);
  return asked->first->workspace_bytes(measured_encoding(matrix), matrix.stored_rows(),
                                       matrix.stored_cols(),
                                       options_for(matrix.table, *asked->second), least);
}

}  // namespace

SelectedModel open_selected(const RunSettings& settings) {
  SelectedModel model;
  model.files = shard::open_model(settings.model, {.model_config = settings.model_config,
                                                   .adapter = settings.indexing.lora,
                                                   .threads = settings.threads});
  model::IndexOptions indexing = settings.indexing;
  indexing.threads = settings.threads;
  model.index = model::index_model(model.files, indexing);
  if (model.index.matrices.empty()) {
    throw MissingInputError("E-NOTHING",
                            fmt::format("{}: nothing to measure: the model has no weight matrix",
                                        printable(settings.model)));
  }
  model.selected = model::select(model.index, settings.selection);
  if (model.selected.empty()) {
    throw UsageError("E-SELECTION",
                     fmt::format("{}: {}", printable(settings.model),
                                 model::empty_selection_text(model.index, settings.selection)));
  }
  for (const std::string& part : model::unmatched_parts(model.index, settings.selection)) {
    model.notes.push_back("warning W-SELECTION: " + part);
  }
  // Who asks for some matrices does not miss the others.
  if (model.selected.size() == model.index.matrices.size()) {
    if (const std::string unmeasured = model::unmeasured_text(model.index); !unmeasured.empty()) {
      model.notes.push_back("note: " + unmeasured);
    }
  }
  if (!settings.imatrix.empty()) {
    model.importance = model::open_importance_matrix(settings.imatrix);
    model::weigh_columns(model.importance, model.index, model.selected);
    // Weighted rows come before products.
    std::stable_sort(model.selected.begin(), model.selected.end(),
                     [&](std::int64_t a, std::int64_t b) {
                       return model.index.matrices[static_cast<std::size_t>(a)].table <
                              model.index.matrices[static_cast<std::size_t>(b)].table;
                     });
  }
  return model;
}

WorkPlan plan_run(const RunSettings& settings, const SelectedModel& model,
                  const std::vector<std::unique_ptr<measure::Backend>>& backends,
                  const std::vector<std::int64_t>& remaining) {
  const measure::BackendLimits limits = backends.front()->limits();
  const std::pair<const measure::Backend*, const measure::MeasureOptions*> context(
      backends.front().get(), &settings.options);
  const PlanLimits plan_limits{
      .ram_budget = settings.ram_budget == 0 ? default_ram_budget() : settings.ram_budget,
      .workers = limits.concurrent_calls * static_cast<std::int32_t>(backends.size()),
      .batch = limits.batch,
      .held = limits.held_inputs};
  WorkPlan plan = plan_work(model.index, remaining, settings.options, plan_limits, &workspace_of,
                            &context, settings.store_spectra);
  if (plan.least_ram_bytes > plan_limits.ram_budget) {
    throw ConfigurationError(
        "E-BUDGET",
        fmt::format("--ram-budget of {} bytes is too small: {} needs {} bytes at least",
                    plan_limits.ram_budget, printable(plan.largest), plan.least_ram_bytes));
  }
  return plan;
}

RunOutcome measure_model(const RunSettings& settings, const RunHooks& hooks) {
  const Clock::time_point start = Clock::now();
  const auto say = [&](const std::string& line) {
    if (hooks.message) {
      hooks.message(line);
    }
  };
  auto state = std::make_unique<RunState>();
  state->model = open_selected(settings);
  std::string note;
  state->backends = open_backends(settings, note);
  state->options = settings.options;

  state->reader = std::make_unique<shard::BulkReader>(settings.reading);
  for (const shard::Shard& shard : state->model.files.shards) {
    state->reader->prepare(*shard.source);
  }
  const results::RunDescription description =
      describe_run(settings, state->model, state->backends, *state->reader);
  // The budget is judged for the whole selection, so that a resumed run refuses what the first one
  // would have refused.
  (void)plan_run(settings, state->model, state->backends, state->model.selected);
  const auto store =
      results::open_run_store(settings.output, description, settings.worker, settings.restart);
  // Said only now: a refusal is one line, and everything above may refuse.
  for (const Warning& warning : state->model.files.warnings) {
    say(fmt::format("warning {}: {}", warning.id, warning.text));
  }
  for (const Warning& warning : state->model.index.warnings) {
    say(fmt::format("warning {}: {}", warning.id, warning.text));
  }
  for (const std::string& line : state->model.notes) {
    say(line);
  }
  say(note);

  RunOutcome outcome;
  outcome.total = static_cast<std::int64_t>(state->model.selected.size());
  outcome.derived_total = static_cast<std::int64_t>(std::count_if(
      state->model.selected.begin(), state->model.selected.end(), [&](std::int64_t matrix) {
        return state->model.index.matrices[static_cast<std::size_t>(matrix)].table !=
               model::ResultTable::kMatrix;
      }));
  FirstFailure first_failure;
  ProgressSnapshot snapshot;
  std::vector<std::int64_t> remaining;
  state->row_of_matrix.assign(state->model.index.matrices.size(), -1);
  for (std::size_t row = 0; row < state->model.selected.size(); ++row) {
    const std::int64_t matrix = state->model.selected[row];
    state->row_of_matrix[static_cast<std::size_t>(matrix)] = static_cast<std::int64_t>(row);
    const bool mine =
        static_cast<std::int64_t>(row) % settings.worker.count == settings.worker.index;
    const model::MatrixRecord& record =
        state->model.index.matrices[static_cast<std::size_t>(matrix)];
    if (mine) {
      add_to(snapshot.total, record, settings.options);
      if (!record.unsupported.empty() || store->done()[row]) {
        add_to(snapshot.before, record, settings.options);
      }
    }
    if (!record.unsupported.empty()) {
      // Nothing is read for these; they are told again on every run so that the exit code stays the
      // same.
      results::ResultRow unsupported;
      unsupported.index = static_cast<std::int64_t>(row);
      unsupported.status = measure::Status::kUnsupported;
      unsupported.reason = record.unsupported;
      unsupported.error_class = code_text(ExitCode::kMalformedInput);
      if (mine) {
        first_failure.see(unsupported, record);
        count_row(unsupported, record, outcome);
        if (!store->done()[row]) {
          store->add(std::move(unsupported));
        }
      }
    } else if (store->done()[row]) {
      ++outcome.done_before;
    } else if (mine) {
      remaining.push_back(matrix);
    }
  }
  if (outcome.done_before > 0) {
    say(fmt::format("resuming: {} of {} matrices are done already", outcome.done_before,
                    outcome.total));
  }
  state->plan = plan_run(settings, state->model, state->backends, remaining);

  snapshot.done = snapshot.before;
  snapshot.failed = outcome.unsupported;
  const std::uint64_t budget =
      settings.ram_budget == 0 ? default_ram_budget() : settings.ram_budget;
  RunState* shared = state.get();
  shared->rows =
      std::make_unique<RowStage>(shared->model.index, shared->options, shared->row_of_matrix, 0);
  shared->pool = std::make_unique<WorkerPool>(
      shared->plan.units, std::max(budget, shared->plan.least_ram_bytes), shared->backends,
      [shared](const WorkUnit& unit, std::shared_ptr<MemoryLease> lease) {
        return std::make_shared<UnitStream>(shared->model.files, shared->model.index, unit,
                                            *shared->backends.front(), *shared->reader,
                                            std::move(lease));
      },
      [shared](LoadedUnit& loaded, measure::Backend& backend) {
        shared->process(static_cast<UnitStream&>(loaded), backend);
      },
      [shared] { shared->rows->close(); });

  snapshot.started_seconds = seconds_since(start);
  double last_part = 0.0;
  double last_publish = 0.0;
  std::int64_t unpublished = 0;
  try {
    while (!shared->rows->deliveries().finished()) {
      if (hooks.stop_signal != nullptr && *hooks.stop_signal != 0) {
        outcome.stopped = true;
        break;
      }
      auto delivery = shared->rows->deliveries().pop_for(std::chrono::milliseconds(100));
      const double now = seconds_since(start);
      if (delivery) {
        const std::int64_t matrix =
            shared->model.selected[static_cast<std::size_t>(delivery->row.index)];
        const model::MatrixRecord& record =
            shared->model.index.matrices[static_cast<std::size_t>(matrix)];
        first_failure.see(delivery->row, record);
        count_row(delivery->row, record, outcome);
        snapshot.done.matrices += 1;
        snapshot.done.bytes += delivery->bytes;
        snapshot.done.cost += delivery->cost;
        snapshot.failed = outcome.failed + outcome.unsupported;
        snapshot.current = model::matrix_name(record);
        store->add(std::move(delivery->row));
        ++unpublished;
      }
      snapshot.elapsed_seconds = now;
      if (hooks.progress) {
        hooks.progress(snapshot);
      }
      store->show_progress({.elapsed_seconds = now,
                            .rate_per_second = matrices_per_second(snapshot),
                            .eta_seconds = remaining_seconds(snapshot)});
      if (unpublished > 0 && now - last_part > kPartSeconds) {
        store->publish_part();
        last_part = seconds_since(start);
        unpublished = 0;
      }
      if (now - last_publish > kPublishSeconds) {
        store->publish_file();
        last_publish = seconds_since(start);
      }
    }
    for (const std::exception_ptr& failure : {shared->pool->failure(), shared->rows->failure()}) {
      if (failure != nullptr) {
        std::rethrow_exception(failure);
      }
    }
    store->publish_file();
  } catch (...) {
    // What was finished is kept as far as the disk allows; the first error is the one to tell.
    const std::exception_ptr error = std::current_exception();
    try {
      store->publish_part();
    } catch (const std::exception& second) {
      say(fmt::format("what was finished could not be published either: {}", second.what()));
    }
    shared->pool->abandon();
    (void)state.release();
    std::rethrow_exception(error);
  }
  outcome.seconds = seconds_since(start);
  outcome.reading = shared->reader->statistics();
  outcome.reading_engine = shared->reader->engine();
  if (outcome.stopped) {
    shared->pool->abandon();
    (void)state.release();
    outcome.exit_code = ExitCode::kStoppedEarly;
    return outcome;
  }
  shared->pool->join();
  outcome.exit_code = first_failure.code;
  outcome.first_failure_reason = std::move(first_failure.text);
  return outcome;
}

}  // namespace vindex::run
