// The command status: what of a run is done, left and failed, also while it works.
#include "apps/console/terminal.hpp"
#include "apps/options/command.hpp"
#include "apps/options/flag_names.hpp"
#include "core/json/json_document.hpp"
#include "core/text/text_table.hpp"
#include "engine/run/progress.hpp"
#include "results/runs/run_status.hpp"
#include "results/schema/schema.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstddef>
#include <memory>
#include <string>
#include <unistd.h>
#include <vector>

namespace vindex::apps {

namespace {

/// A number that may not be known.
template <typename Number>
Json known(Number value) {
  return value < 0 ? Json(nullptr) : Json(value);
}

Json workers_json(const results::RunStatus& status) {
  Json workers = Json::array();
  for (const results::WorkerStatus& worker : status.worker_list) {
    workers.push_back({{"worker", worker.tag},
                       {"state", results::worker_state_name(worker.state)},
                       {"host", printable(worker.host)},
                       {"process", worker.pid},
                       {"total", known(worker.own_total)},
                       {"done", known(worker.own_done)},
                       {"rate_per_second", worker.rate_per_second},
                       {"seen_seconds", known(worker.seen_seconds)}});
  }
  return workers;
}

std::string status_json(const results::RunStatus& status) {
  Json rows = Json::array();
  for (const results::FailedRow& row : status.failed_rows) {
    rows.push_back({{"table", model::table_name(row.table)},
                    {"tensor", row.tensor},
                    {"slice", row.slice},
                    {"status", row.status},
                    {"reason", row.reason}});
  }
  Json document = {{"schema", "vindex-status/1"},
                   {"state", status.state},
                   {"matrices_total", status.matrices_total},
                   {"done", status.done},
                   {"failed", status.failed},
                   {"left", status.left},
                   {"workers", status.workers},
                   {"workers_gone", status.gone},
                   {"rate_per_second", nullptr},
                   {"eta_seconds", nullptr},
                   {"failed_rows", std::move(rows)}};
  if (status.derived_total > 0) {
    document["derived"] = {{"total", status.derived_total},
                           {"done", status.derived_done},
                           {"failed", status.derived_failed},
                           {"left", status.derived_left}};
  }
  if (!status.worker_list.empty()) {
    document["worker_list"] = workers_json(status);
  }
  if (status.shares_total > 0) {
    document["shares"] = {{"total", status.shares_total}, {"done", status.shares_done}};
  }
  if (status.n_total > 0) {
    document["n_total"] = status.n_total;
  }
  if (status.workers > 0) {
    document["rate_per_second"] = status.rate_per_second;
  }
  if (status.eta_seconds >= 0.0) {
    document["eta_seconds"] = status.eta_seconds;
  }
  return document.dump() + "\n";
}

const char* state_of(const results::RunStatus& status) {
  if (status.workers > 0) {
    return "running";
  }
  return status.state == "running" ? "stopped" : status.state.c_str();
}

std::string processes(std::int64_t count) {
  return fmt::format("{} process{}", count, count == 1 ? "" : "es");
}

/// The workers one by one: those to look after first, each kind in the order of shares.
std::string workers_text(const results::RunStatus& status, std::size_t columns) {
  using results::WorkerState;
  using results::WorkerStatus;
  constexpr std::size_t kMostLines = 24;
  std::vector<const WorkerStatus*> workers;
  for (const WorkerState state : {WorkerState::kDead, WorkerState::kSlow, WorkerState::kStopped,
                                  WorkerState::kAlive, WorkerState::kAbsent, WorkerState::kDone}) {
    for (const WorkerStatus& worker : status.worker_list) {
      if (worker.state == state) {
        workers.push_back(&worker);
      }
    }
  }
  std::vector<std::vector<std::string>> rows = {
      {"worker", "state", "done", "rate/s", "seen", "host", "process"}};
  for (std::size_t i = 0; i < std::min(workers.size(), kMostLines); ++i) {
    const WorkerStatus& worker = *workers[i];
    const std::string done = worker.own_done < 0 ? ""
                             : worker.own_total < 0
                                 ? fmt::format("{}", worker.own_done)
                                 : fmt::format("{}/{}", worker.own_done, worker.own_total);
    const bool works = worker.state == WorkerState::kAlive || worker.state == WorkerState::kSlow;
    rows.push_back({printable(worker.tag), results::worker_state_name(worker.state), done,
                    works ? fmt::format("{:.3g}", worker.rate_per_second) : "",
                    worker.seen_seconds < 0.0 ? "" : engine::clock_text(worker.seen_seconds),
                    printable(worker.host), worker.pid == 0 ? "" : std::to_string(worker.pid)});
  }
  std::string text = table_text(rows,
                                {{.min_width = 8},
                                 {},
                                 {.right = true},
                                 {.right = true},
                                 {.right = true},
                                 {.min_width = 8},
                                 {.right = true, .dropped_as = 1}},
                                columns, 2);
  if (workers.size() > kMostLines) {
    text += fmt::format("  ({} more; --json has them)\n", workers.size() - kMostLines);
  }
  return text;
}

std::string status_text(const results::RunStatus& status, const std::string& path,
                        std::size_t columns) {
  const char* const noun = results::row_noun(status.schema);
  std::string text =
      fmt::format("{}: {} done, {} failed, {} left of {} {}\n", state_of(status), status.done,
                  status.failed, status.left, status.matrices_total, noun);
  if (status.derived_total > 0) {
    text += fmt::format("{} done, {} failed, {} left of {} derived rows\n", status.derived_done,
                        status.derived_failed, status.derived_left, status.derived_total);
  }
  const auto sentence = [&](const std::string& words) {
    text += wrapped_text(words, columns, 2) + "\n";
  };
  if (status.n_total > 0) {
    sentence(status.n_total > status.matrices_total
                 ? fmt::format("a sample: {} of {} {} of the model", status.matrices_total,
                               status.n_total, noun)
                 : fmt::format("drawn in random order, all {} {} of their groups", status.n_total,
                               noun));
  }
  if (status.workers > 0) {
    sentence(fmt::format(
        "{} at work, {:.3g} {}/s, {}", processes(status.workers), status.rate_per_second, noun,
        status.eta_seconds < 0.0 ? std::string("time left not known yet")
                                 : "about " + engine::clock_text(status.eta_seconds) + " left"));
  } else if (status.left + status.derived_left > 0) {
    sentence(fmt::format(
        "no process works on it; the same `vindex {}` command again goes on from here (of a run by "
        "--worker, those of the workers that are not done)",
        results::writing_command(status.schema)));
  } else if (status.state == "running" || status.state == "finished") {
    sentence(fmt::format("all parts are there: vindex merge {}.parts -o {}", printable(path),
                         printable(path)));
  }
  if (status.gone > 0) {
    sentence(
        fmt::format("{} ended without a word (killed?); what {} had finished and not stored "
                    "is {} again",
                    processes(status.gone), status.gone == 1 ? "it" : "they",
                    results::outcome_word(status.schema)));
  }
  if (status.shares_total > 0) {
    sentence(fmt::format("{} of {} claimed shares are finished", status.shares_done,
                         status.shares_total));
  }
  if (!status.worker_list.empty()) {
    text += workers_text(status, columns);
  }
  for (const results::FailedRow& row : status.failed_rows) {
    const std::string slice = row.slice < 0 ? "" : fmt::format("#{}", row.slice);
    const std::string table = row.table == model::ResultTable::kMatrix
                                  ? ""
                                  : fmt::format(" /{}/", model::table_name(row.table));
    text += wrapped_text(
                fmt::format("  {}{} {}{}: {}", row.status, table, row.tensor, slice, row.reason),
                columns, 4) +
            "\n";
  }
  const std::int64_t failed = status.failed + status.derived_failed;
  if (const auto named = static_cast<std::int64_t>(status.failed_rows.size());
      named > 0 && failed > named) {
    text += fmt::format("  ({} more; status and reason of the file's tables have them)\n",
                        failed - named);
  }
  return text;
}

}  // namespace

void add_status(Command& app, Session& session) {
  struct Options {
    std::string path;
    bool json = false;
  };
  auto options = std::make_shared<Options>();
  Command& command = app.add_command("status",
                                     "Report what is done, left and failed, also during a run\n\n"
                                     "Example:\n  vindex status OUT.h5");
  command.add_results("file", options->path, "Results file (its parts count too)")->required();
  command.add_flag("--json", options->json, "One JSON document");
  command.runs(session, [options] {
    const results::RunStatus status = results::read_status(options->path);
    print_result(options->json ? status_json(status)
                               : status_text(status, options->path, text_width(STDOUT_FILENO)));
    return Ending();
  });
}

}  // namespace vindex::apps
