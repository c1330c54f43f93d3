// The program: commands, errors to one line on standard error, exit codes. The only place that
// prints an error.
#include "arithmetic_environment.hpp"
#include "describe_commands.hpp"
#include "flag_names.hpp"
#include "help_text.hpp"
#include "verbs.hpp"

#include "commands/spectra/measure_run.hpp"
#include "core/files/output_target.hpp"
#include "core/files/reading_bounds.hpp"
#include "core/process/stop.hpp"
#include "core/text/nearest_name.hpp"
#include "core/text/text_parts.hpp"
#include "engine/run/opening.hpp"
#include "engine/run/version.hpp"
#include "input/remote/remote_environment.hpp"
#include <vindex/error.hpp>

#include <CLI/CLI.hpp>
#include <fmt/format.h>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <exception>
#include <fcntl.h>
#include <filesystem>
#include <malloc.h>
#include <memory>
#include <new>
#include <sstream>
#include <string>
#include <string_view>
#include <sys/resource.h>
#include <thread>
#include <unistd.h>
#include <utility>
#include <vector>

namespace {

using vindex::ExitCode;

constexpr const char* kAbout =
    "vindex COMMAND ...: spectra of every weight matrix of a language model";

constexpr const char* kModel =
    "`vindex COMMAND --help`: options; MODEL: folder or file; -q: no table; --version";

/// The commands of one group of the help, in its order.
struct CommandGroup {
  const char* name;
  std::vector<void (*)(CLI::App&, vindex::apps::Session&)> add;
};

void add_commands(CLI::App& app, vindex::apps::Session& session) {
  using namespace vindex::apps;
  const std::vector<CommandGroup> groups = {
      {"Measure",
       {add_inspect, add_plan, add_measure, add_show, add_report, add_status, add_results_verbs}},
      {"Analyse",
       {add_compare, add_experts, add_cka, add_activations, add_routing, add_lookup, add_trace}},
      {"Edit", {add_edit, add_organ}},
      {"Tools", {add_decode, add_synth, add_bench}}};
  for (const CommandGroup& group : groups) {
    const std::size_t earlier = app.get_subcommands({}).size();
    for (const auto add : group.add) {
      add(app, session);
    }
    const std::vector<CLI::App*> commands = app.get_subcommands({});
    for (std::size_t i = earlier; i < commands.size(); ++i) {
      commands[i]->group(group.name);
    }
  }
}

constexpr const char* kOutOfMemory =
    "vindex: E-MEMORY: out of memory; a smaller --ram-budget or fewer --threads may help\n";

/// What uthash does within libhdf5 (H5I_register), with 255 and without a word.
constexpr const char* kEndedByLibrary =
    "vindex: E-MEMORY: a library ended the program, as libhdf5 does where it gets no memory; a "
    "smaller --ram-budget or fewer --threads may help\n";

/// The one line that says why the program does not end with 0.
int fail(const std::string& text, ExitCode code) {
  std::fputs(("vindex: " + vindex::printable(text) + "\n").c_str(), stderr);
  return static_cast<int>(code);
}

/// Throws UsageError where the first word of `arguments` is no command of `app`, or the next one no
/// command of that: CLI11 would only say that one is missing. No option before a command takes a
/// value.
void expect_command(const CLI::App& app, const std::vector<std::string>& arguments) {
  const CLI::App* parent = &app;
  std::string path = "vindex";
  auto word = arguments.begin() + 1;
  while (true) {
    const auto commands = vindex::apps::commands_of(*parent);
    word = std::find_if(word, arguments.end(),
                        [](const std::string& text) { return !text.starts_with('-'); });
    if (commands.empty()) {
      return;
    }
    if (word == arguments.end()) {
      const bool is_question =
          std::any_of(arguments.begin(), arguments.end(), [](const std::string& text) {
            return text == "-h" || text == "--help" || text == "--version";
          });
      if (is_question) {
        return;
      }
      throw vindex::UsageError(
          "E-USAGE", fmt::format("no command given; `{} --help` lists the commands", path));
    }
    const auto found = std::find_if(commands.begin(), commands.end(), [&](const CLI::App* command) {
      return command->check_name(*word);
    });
    if (found == commands.end()) {
      std::vector<std::string> names;
      for (const CLI::App* command : commands) {
        names.push_back(command->get_name());
      }
      const std::string within = parent == &app ? "" : parent->get_name() + " ";
      const std::string guess = vindex::nearest_name(*word, names);
      throw vindex::UsageError(
          "E-USAGE",
          fmt::format("unknown command '{}{}';{} `{} --help` lists the commands", within,
                      vindex::excerpt(*word),
                      guess.empty() ? "" : fmt::format(" did you mean '{}{}'?", within, guess),
                      path));
    }
    parent = *found;
    path += " " + parent->get_name();
    ++word;
  }
}

/// The command that `app` has parsed up to, and what to call it: "vindex edit insert".
std::pair<const CLI::App*, std::string> chosen_command(const CLI::App& app) {
  const CLI::App* command = &app;
  std::string path = "vindex";
  while (!command->get_subcommands().empty()) {
    command = command->get_subcommands().front();
    path += " " + command->get_name();
  }
  return {command, path};
}

/// What to say where CLI11 says `what` ("b is required"): the command, what is missing, and what
/// that is.
std::string missing_text(const CLI::App& app, const std::string& what) {
  const auto [command, path] = chosen_command(app);
  for (const CLI::Option* option : command->get_options()) {
    if (option->get_required() && what.starts_with(option->get_name() + " ")) {
      return fmt::format("{} needs {} ({}); `{} --help` has examples", path,
                         vindex::apps::shown_name(*option), option->get_description(), path);
    }
  }
  return fmt::format("{}; see `{} --help`", what, path);
}

/// The first flag among the words that `app` has left over; empty: there is none.
std::string unknown_flag(const CLI::App& app) {
  const std::vector<std::string> extra = app.remaining(true);
  const auto flag = std::find_if(extra.begin(), extra.end(), [](const std::string& word) {
    return word.size() > 1 && word.starts_with('-');
  });
  return flag == extra.end() ? std::string() : flag->substr(0, flag->find('='));
}

/// What to say where words are left over: the first unknown flag and the flag of the command that
/// is spelt nearly so, or else the first word.
std::string extra_text(const CLI::App& app) {
  const auto [command, path] = chosen_command(app);
  const std::string word = unknown_flag(app);
  if (word.empty()) {
    const std::vector<std::string> extra = app.remaining(true);
    return fmt::format("{}: an argument too many: '{}'; `{} --help` has examples", path,
                       extra.empty() ? "" : vindex::excerpt(extra.front()), path);
  }
  std::vector<std::string> names;
  for (const CLI::Option* option : command->get_options()) {
    for (const std::string& name : option->get_lnames()) {
      names.push_back("--" + name);
    }
  }
  const std::string guess = vindex::nearest_name(word, names);
  return fmt::format("{} has no flag {};{} `{} --help` lists them", path, vindex::excerpt(word),
                     guess.empty() ? "" : fmt::format(" did you mean {}?", guess), path);
}

/// Standard descriptors that the caller has closed stay taken, so that no file of ours gets the
/// number of one and what is said lands in it. What stands for them can be read only: results that
/// nobody can see are still an error.
void keep_standard_descriptors() {
  for (const int descriptor : {STDIN_FILENO, STDOUT_FILENO, STDERR_FILENO}) {
    if (::fcntl(descriptor, F_GETFD) == -1 && errno == EBADF) {
      (void)::open("/dev/null", O_RDONLY);  // the lowest free number: this one
    }
  }
}

/// A model of thousands of shards has them all open; the usual soft limit is 1024.
void allow_many_files() {
  struct rlimit limit {};
  if (::getrlimit(RLIMIT_NOFILE, &limit) == 0) {
    limit.rlim_cur = limit.rlim_max;
    (void)::setrlimit(RLIMIT_NOFILE, &limit);  // where it fails, opening says so
  }
}

/// What users of the Hub may have set for its own tools and expect to help here.
void warn_of_dead_variables(const vindex::apps::Session& session) {
  const bool names_hub =
      std::any_of(session.arguments.begin(), session.arguments.end(),
                  [](const std::string& text) { return text.starts_with("hf://"); });
  if (names_hub && !vindex::apps::environment_variable("HF_HUB_ENABLE_HF_TRANSFER").empty()) {
    vindex::apps::say(session,
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
  for (const std::string_view root : vindex::split(given, '\n')) {
    if (!root.empty()) {
      roots.emplace_back(root);
    }
  }
  vindex::read_only_beneath(roots);
}

/// Begins to load what the command will need: of `measure`, OpenBLAS, while its words are read.
std::vector<std::jthread> load_ahead(const std::vector<std::string>& words) {
  const auto command = std::find_if(words.begin() + (words.empty() ? 0 : 1), words.end(),
                                    [](const std::string& word) { return !word.starts_with('-'); });
  const bool is_for_nothing = std::any_of(words.begin(), words.end(), [](const std::string& word) {
    return word == "-h" || word == "--help" || word.find("cuda") != std::string::npos;
  });
  return command != words.end() && *command == "measure" && !is_for_nothing
             ? vindex::commands::load_blas_ahead(vindex::apps::blas_core_wish())
             : std::vector<std::jthread>();
}

int run(int argc, char** argv) {
  vindex::apps::Session session;
  session.arguments.assign(argv, argv + argc);
  bound_reading();
  session.unset_variables = vindex::apps::unset_arithmetic_variables();
  (void)vindex::apps::blas_core_wish();
  vindex::input::set_remote_environment(vindex::apps::environment_variable);
  if (std::getenv("VINDEX_AWAIT_LAUNCHES") != nullptr) {
    vindex::engine::await_launches();
  }
  const std::vector<std::jthread> loading = load_ahead(session.arguments);
  CLI::App app(kAbout, "vindex");
  app.set_version_flag(
      "--version", fmt::format("vindex {} ({}, {})", vindex::engine::program_version(),
                               vindex::engine::program_commit(), vindex::engine::compiler_text()));
  app.add_flag("-q,--quiet", session.quiet,
               "Print errors and --json alone: no progress, no last table (`vindex show` has it)");
  app.add_flag("-v,--verbose", session.verbose, "Also what was read, from where and how fast");
  app.require_subcommand(1);
  app.fallthrough();
  app.formatter(std::make_shared<vindex::apps::HelpText>(vindex::apps::text_width(STDOUT_FILENO)));
  add_commands(app, session);
  if (session.arguments.size() == 2 && session.arguments.back() == "--describe-commands") {
    vindex::apps::print_result(vindex::apps::describe_commands(app));
    return 0;
  }
  app.footer(kModel);  // of this list alone: commands inherit what is there before
  std::vector<std::string> arguments = vindex::apps::with_configuration(session.arguments);
  if (arguments.size() == 1) {
    vindex::apps::print_result(app.help());
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
    vindex::apps::print_result(text.str());
    return 0;
  } catch (const CLI::RequiredError& error) {
    // What is missing may be what is misspelt.
    return fail(
        fmt::format("E-USAGE: {}",
                    unknown_flag(app).empty() ? missing_text(app, error.what()) : extra_text(app)),
        ExitCode::kUsage);
  } catch (const CLI::ExtrasError&) {
    return fail(fmt::format("E-USAGE: {}", extra_text(app)), ExitCode::kUsage);
  } catch (const CLI::ParseError& error) {
    return fail(
        fmt::format("E-USAGE: {}; see `vindex --help` and `vindex COMMAND --help`", error.what()),
        ExitCode::kUsage);
  }
  const auto [command, path] = chosen_command(app);
  vindex::apps::expect_values(*command, path);
  warn_of_dead_variables(session);
  const vindex::apps::Ending ending = session.chosen();
  return ending.code() == ExitCode::kOk ? 0 : fail(ending.reason(), ending.code());
}

/// The last word where an exception has nobody to catch it, or no memory is left to throw one in:
/// one line and an exit code all the same. What is on disk is as after a kill: valid.
[[noreturn]] void end_at_once() noexcept {
  const auto say = [](const char* text) { (void)!::write(STDERR_FILENO, text, std::strlen(text)); };
  try {
    if (const std::exception_ptr error = std::current_exception()) {
      std::rethrow_exception(error);
    }
    say("vindex: E-INTERNAL: ended by a library\n");
  } catch (const std::bad_alloc&) {
    say(kOutOfMemory);
  } catch (const std::exception& error) {
    say("vindex: E-INTERNAL: nothing could handle this: ");
    say(error.what());
    say("\n");
  } catch (...) {
    say("vindex: E-INTERNAL: nothing could handle an exception\n");
  }
  std::_Exit(static_cast<int>(ExitCode::kInternal));
}

/// Set where main() returns: what ends the process before that is a library.
bool main_returns = false;

void end_for_library() {
  if (main_returns) {
    return;
  }
  (void)!::write(STDERR_FILENO, kEndedByLibrary, std::strlen(kEndedByLibrary));
  std::_Exit(static_cast<int>(ExitCode::kInternal));
}

/// Every thread was joined on the way here; what libhdf5 does at an exit does not survive an
/// allocation that failed inside it.
[[noreturn]] void end_without_memory(ExitCode code) {
  std::fflush(nullptr);
  std::_Exit(static_cast<int>(code));
}

/// Before all other initialisers of this program: they take memory too, those of headers included.
struct LastWords {
  LastWords() {
    std::set_terminate(end_at_once);
    std::atexit(end_for_library);
  }
};
[[gnu::init_priority(101)]] const LastWords kLastWords;

/// Pages that were freed are taken again, not fresh ones, whose first touch costs several times as
/// much, most of all in a virtual machine. Left alone, the C library finds these limits by what is
/// freed, too slowly for runs whose matrices are all alike: it gives every one's workspace back.
/// They are the highest that it comes to by itself, so that no more is kept than it may keep
/// anyway.
void keep_freed_pages() {
#ifdef __GLIBC__
  constexpr int kLargestInHeap = 32 << 20;
  ::mallopt(M_MMAP_THRESHOLD, kLargestInHeap);
  ::mallopt(M_TRIM_THRESHOLD, 2 * kLargestInHeap);
#endif
}

}  // namespace

int main(int argc, char** argv) {
  keep_freed_pages();
  std::signal(SIGPIPE, SIG_IGN);
  std::signal(SIGXFSZ, SIG_IGN);  // a file size limit is then an ordinary error of write()
  keep_standard_descriptors();
  allow_many_files();
  int code = 0;
  try {
    code = run(argc, argv);
  } catch (const vindex::Error& error) {
    code = vindex::is_closed_output(error) ? 0 : fail(error.what(), error.exit_code());
    if (error.id() == "E-MEMORY") {
      end_without_memory(error.exit_code());
    }
  } catch (const vindex::Stopped&) {
    const vindex::apps::Ending early =
        vindex::apps::stopped_early("before anything was finished; run the same command again");
    code = fail(early.reason(), early.code());
  } catch (const std::bad_alloc&) {
    std::fputs(kOutOfMemory, stderr);  // nothing is put together: there is no memory for it
    end_without_memory(ExitCode::kInternal);
  } catch (const std::filesystem::filesystem_error& error) {
    const vindex::SystemError same("E-OPEN", error.code().value(),
                                   "cannot examine " + vindex::printable(error.path1().string()));
    code = fail(same.what(), same.exit_code());
  } catch (const std::exception& error) {
    code = fail(fmt::format("E-INTERNAL: {}", error.what()), ExitCode::kInternal);
  }
  main_returns = true;
  return code;
}
