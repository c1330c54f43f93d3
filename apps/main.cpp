// The program: commands, errors to one line on standard error, exit codes. The only place that
// prints an error.
#include "apps/commands/command_table.hpp"
#include "apps/console/help_text.hpp"
#include "apps/console/terminal.hpp"
#include "apps/console/usage.hpp"
#include "apps/options/command.hpp"
#include "apps/options/configuration.hpp"
#include "apps/process/arithmetic_environment.hpp"
#include "apps/process/environment.hpp"
#include "apps/process/last_words.hpp"
#include "apps/process/session.hpp"
#include "apps/process/stop_signals.hpp"
#include "apps/process/system_limits.hpp"
#include "commands/spectra/measure_run.hpp"
#include "core/files/output_sink.hpp"
#include "core/files/reading_bounds.hpp"
#include "core/process/stop.hpp"
#include "core/text/nearest_name.hpp"
#include "core/text/text_parts.hpp"
#include "engine/devices/backends.hpp"
#include "engine/run/version.hpp"
#include "input/remote/remote_environment.hpp"
#include <vindex/error.hpp>

#include <CLI/CLI.hpp>
#include <fmt/format.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <filesystem>
#include <memory>
#include <new>
#include <sstream>
#include <string>
#include <string_view>
#include <thread>
#include <unistd.h>
#include <vector>

namespace vindex::apps {

namespace {

constexpr const char* kAbout =
    "vindex COMMAND ...: spectra of every weight matrix of a language model";

constexpr const char* kModel =
    "`vindex COMMAND --help`: options; MODEL: folder or file; -q: no table; --version";

/// The one line that says why the program does not end with 0.
int fail(const std::string& text, ExitCode code) {
  std::fputs(("vindex: " + printable(text) + "\n").c_str(), stderr);
  return static_cast<int>(code);
}

/// What users of the Hub may have set for its own tools and expect to help here.
void warn_of_dead_variables(const Session& session) {
  const bool names_hub =
      std::any_of(session.arguments.begin(), session.arguments.end(),
                  [](const std::string& text) { return text.starts_with("hf://"); });
  if (names_hub && !environment_variable("HF_HUB_ENABLE_HF_TRANSFER").empty()) {
    say(session,
        "warning W-HF-TRANSFER: HF_HUB_ENABLE_HF_TRANSFER means nothing any more: "
        "several ranges are read at once without it");
  }
}

/// A server that runs this program for its clients says beneath which folders it may read, one a
/// line; an empty variable names none.
void bound_reading() {
  const char* const given = std::getenv("VINDEX_BENEATH");
  if (given == nullptr) {
    return;
  }
  std::vector<std::string> roots;
  for (const std::string_view root : split(given, '\n')) {
    if (!root.empty()) {
      roots.emplace_back(root);
    }
  }
  read_only_beneath(roots);
}

/// Begins to load what the command will need: of `measure`, OpenBLAS, while its words are read.
std::vector<std::jthread> load_ahead(const std::vector<std::string>& words) {
  const auto command = std::find_if(words.begin() + (words.empty() ? 0 : 1), words.end(),
                                    [](const std::string& word) { return !word.starts_with('-'); });
  const bool is_for_nothing = std::any_of(words.begin(), words.end(), [](const std::string& word) {
    return word == "-h" || word == "--help" || word.find("cuda") != std::string::npos;
  });
  return command != words.end() && *command == "measure" && !is_for_nothing
             ? commands::load_blas_ahead(blas_core_wish())
             : std::vector<std::jthread>();
}

int run_command(int argc, char** argv) {
  Session session;
  session.arguments.assign(argv, argv + argc);
  bound_reading();
  session.unset_variables = unset_arithmetic_variables();
  (void)blas_core_wish();
  input::set_remote_environment(environment_variable);
  if (std::getenv("VINDEX_AWAIT_LAUNCHES") != nullptr) {
    engine::await_launches();
  }
  const std::vector<std::jthread> loading = load_ahead(session.arguments);
  Command app(kAbout, "vindex");
  app.set_version_flag("--version", fmt::format("vindex {} ({}, {})", engine::program_version(),
                                                engine::program_commit(), engine::compiler_text()));
  app.add_flag("-q,--quiet", session.quiet,
               "Print errors and --json alone: no progress, no last table (`vindex show` has it)",
               ValueKind::kCaller);
  app.add_flag("-v,--verbose", session.verbose, "Also what was read, from where and how fast");
  app.require_subcommand(1);
  app.fallthrough();
  app.formatter(std::make_shared<HelpText>(text_width(STDOUT_FILENO)));
  add_commands(app, session);
  app.footer(kModel);  // of this list alone: commands inherit what is there before
  std::vector<std::string> arguments = with_configuration(session.arguments, app);
  if (arguments.size() == 1) {
    print_result(app.help());
    return fail("E-USAGE: no command given; `vindex COMMAND --help` says more", ExitCode::kUsage);
  }
  expect_command(app, arguments);
  // CLI11 takes a vector from its end, without the program's name.
  std::reverse(arguments.begin(), arguments.end());
  arguments.pop_back();
  try {
    app.parse(arguments);
  } catch (const CLI::Success& help) {
    std::ostringstream text;
    (void)app.exit(help, text, text);
    print_result(text.str());
    return 0;
  } catch (const CLI::RequiredError& error) {
    return fail(fmt::format("E-USAGE: {}", missing_text(app, error.what())), ExitCode::kUsage);
  } catch (const CLI::ExtrasError&) {
    return fail(fmt::format("E-USAGE: {}", extra_text(app)), ExitCode::kUsage);
  } catch (const CLI::ParseError& error) {
    return fail(
        fmt::format("E-USAGE: {}; see `vindex --help` and `vindex COMMAND --help`", error.what()),
        ExitCode::kUsage);
  }
  const auto [command, path] = chosen_command(app);
  expect_values(*command, path);
  warn_of_dead_variables(session);
  const Ending ending = session.chosen();
  return ending.code() == ExitCode::kOk ? 0 : fail(ending.reason(), ending.code());
}

/// The exit code of the process; every error is said here.
int run(int argc, char** argv) {
  try {
    return run_command(argc, argv);
  } catch (const Error& error) {
    const int code = is_closed_output(error) ? 0 : fail(error.what(), error.exit_code());
    if (error.id() == "E-MEMORY") {
      end_without_memory(error.exit_code());
    }
    return code;
  } catch (const Stopped&) {
    const Ending early = stopped_early("before anything was finished; run the same command again");
    return fail(early.reason(), early.code());
  } catch (const std::bad_alloc&) {
    std::fputs(kOutOfMemory, stderr);  // nothing is put together: there is no memory for it
    end_without_memory(ExitCode::kInternal);
  } catch (const std::filesystem::filesystem_error& error) {
    const SystemError same("E-OPEN", error.code().value(),
                           "cannot examine " + printable(error.path1().string()));
    return fail(same.what(), same.exit_code());
  } catch (const std::exception& error) {
    return fail(fmt::format("E-INTERNAL: {}", error.what()), ExitCode::kInternal);
  }
}

}  // namespace

}  // namespace vindex::apps

int main(int argc, char** argv) {
  vindex::apps::settle_process();
  const int code = vindex::apps::run(argc, argv);
  vindex::apps::main_returns();
  return code;
}
