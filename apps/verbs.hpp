// Owns what the verbs share: how a verb joins the command line, how sizes, lists and streams are
// spoken, and what the program knows of the terminal it talks to.
#pragma once

#include "commands/spectra/measure_run.hpp"
#include "engine/plan/memory_budget.hpp"
#include "engine/plan/worker_share.hpp"
#include <vindex/error.hpp>

#include <CLI/CLI.hpp>

#include <cstddef>
#include <cstdint>
#include <functional>
#include <stop_token>
#include <string>
#include <utility>
#include <vector>

namespace vindex::apps {

/// How a verb ended. Whatever is not kOk carries its reason, which main() prints as the one line on
/// standard error; an ending without a reason cannot be made.
class Ending {
 public:
  Ending() = default;
  /// `reason` reads "ID: what, where, what to do".
  Ending(ExitCode code, std::string reason) : code_(code), reason_(std::move(reason)) {
    expects(code_ != ExitCode::kOk && !reason_.empty(), "an ending without a reason");
  }
  ExitCode code() const { return code_; }
  const std::string& reason() const { return reason_; }

 private:
  ExitCode code_ = ExitCode::kOk;
  std::string reason_;
};

/// What main() hands to a verb and takes back from it.
struct Session {
  std::vector<std::string> arguments;        ///< argv
  std::vector<std::string> unset_variables;  ///< unset_arithmetic_variables()
  bool quiet = false;
  bool verbose = false;
  std::function<Ending()> chosen;  ///< set by the verb the user named
};

void add_inspect(CLI::App& app, Session& session);
void add_decode(CLI::App& app, Session& session);
void add_plan(CLI::App& app, Session& session);
void add_measure(CLI::App& app, Session& session);
void add_cka(CLI::App& app, Session& session);
void add_compare(CLI::App& app, Session& session);
void add_edit(CLI::App& app, Session& session);
void add_lookup(CLI::App& app, Session& session);
void add_trace(CLI::App& app, Session& session);
void add_experts(CLI::App& app, Session& session);
void add_activations(CLI::App& app, Session& session);
void add_routing(CLI::App& app, Session& session);
void add_show(CLI::App& app, Session& session);
void add_report(CLI::App& app, Session& session);
void add_results_verbs(CLI::App& app, Session& session);
void add_status(CLI::App& app, Session& session);
void add_organ(CLI::App& app, Session& session);
void add_synth(CLI::App& app, Session& session);
void add_bench(CLI::App& app, Session& session);

/// Makes `app` (a verb) choose `run` when the user names it.
void on_choice(CLI::App& app, Session& session, std::function<Ending()> run);

/// `arguments` (argv) with the flags of `--config FILE` put in behind the verb, where the command
/// line does not give them itself. The file holds `name = value` lines (TOML or INI); `model` and
/// `output` may stand there too. Errors: MissingInputError E-CONFIG where there is no such file,
/// UsageError E-CONFIG where it cannot be read.
std::vector<std::string> with_configuration(std::vector<std::string> arguments);

/// "8GiB", "500MB", "1073741824" as bytes. Errors: UsageError E-SIZE, also for a number so small
/// that its unit was forgotten ("16").
std::uint64_t parse_size(const std::string& text);

/// `text` ("8GiB") as the budget of a run; empty: what the system and Slurm's variables leave, with
/// a warning on standard error for variables that say nothing. Errors: UsageError E-SIZE.
engine::RamBudget ram_budget_of(const Session& session, const std::string& text);

/// What a scheduler says in this process's environment.
engine::SchedulerVariables scheduler_variables();

/// "all" (empty), "0", "0,2" as CUDA devices. Errors: UsageError E-DEVICE.
std::vector<std::int32_t> parse_devices(const std::string& text);

/// "fast", "default", "strict": names that the command line has checked.
SpectrumMode mode_of(const std::string& name);

/// The option --reshape into `choice` ("none", "out").
void add_reshape(CLI::App& verb, std::string& choice);

/// Writes to standard output. A reader that has gone (`| head`) is no error; a full disk is a
/// SystemError (74).
void print_result(const std::string& text);

/// One line on standard error, unless --quiet.
void say(const Session& session, const std::string& line);
void say_warnings(const Session& session, const std::vector<Warning>& warnings);

/// The value of a variable; empty where it is not set.
std::string environment_variable(const char* name);

/// "vindex 0.1.0 (commit)": what a document says of the program that wrote it.
std::string program_name();

/// From here on SIGTERM, SIGINT and SIGUSR1 request the stop of the returned token; a second SIGINT
/// ends the process at once. Errors: E-THREADS (70).
std::stop_token catch_stop_signals();

/// The ending of what a signal stopped; `kept` says what became of the work.
Ending stopped_early(const std::string& kept);

/// Columns of the terminal behind `descriptor`, asked anew at every call, so that a resized window
/// is followed. Where it is no terminal or does not say: those that COLUMNS names, else 80.
std::size_t text_width(int descriptor);

/// True where one line of `descriptor` can be written again and again: a terminal that knows how to
/// erase.
bool is_live(int descriptor);

}  // namespace vindex::apps
