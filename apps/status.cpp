// The command status: what of a run is done, left and failed, also while it works.
#include "verbs.hpp"

#include "core/json_document.hpp"
#include "core/text_table.hpp"
#include "engine/progress.hpp"
#include "results/run_store.hpp"

#include <fmt/format.h>

#include <memory>
#include <unistd.h>

namespace vindex::apps {

namespace {

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
  if (status.workers > 0) {
    sentence(fmt::format(
        "{} at work, {:.3g} {}/s, {}", processes(status.workers), status.rate_per_second, noun,
        status.eta_seconds < 0.0 ? std::string("time left not known yet")
                                 : "about " + engine::clock_text(status.eta_seconds) + " left"));
  } else if (status.left + status.derived_left > 0) {
    sentence(fmt::format(
        "no process works on it; the same `vindex {}` command again goes on from here (of a run by "
        "--worker, those of the workers that are not done)",
        results::writing_verb(status.schema)));
  } else if (status.state == "running") {
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

void add_status(CLI::App& app, Session& session) {
  struct Options {
    std::string path;
    bool json = false;
  };
  auto options = std::make_shared<Options>();
  CLI::App* verb = app.add_subcommand("status",
                                      "Report what is done, left and failed, also during a run\n\n"
                                      "Example:\n  vindex status OUT.h5");
  verb->add_option("file", options->path, "Results file (its parts count too)")->required();
  verb->add_flag("--json", options->json, "One JSON document");
  on_choice(*verb, session, [options] {
    const results::RunStatus status = results::read_status(options->path);
    print_result(options->json ? status_json(status)
                               : status_text(status, options->path, text_width(STDOUT_FILENO)));
    return Ending();
  });
}

}  // namespace vindex::apps
