// The program: verbs, errors to one line on standard error, exit codes. The only place that prints
// an error.
#include "arithmetic_environment.hpp"
#include "verbs.hpp"

#include <vindex/core/error.hpp>
#include <vindex/core/standard_output.hpp>
#include <vindex/run/awaited_launches.hpp>
#include <vindex/run/version.hpp>

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
#include <new>
#include <sstream>
#include <sys/resource.h>
#include <unistd.h>

namespace {

using vindex::ExitCode;

constexpr const char* kAbout =
    R"(vindex: singular-value spectra of every weight matrix of a language model.

Examples:
  vindex inspect MODEL                          what is in it
  vindex measure MODEL -o spectra.h5            every matrix: spectrum, statistics, and what noise would give
  vindex measure MODEL -o k2.h5 --blocks routed_expert --roles down_proj --layers 1-60
  vindex show spectra.h5 --metric stable_rank   any statistic as a table; --experts, --top 10
  vindex compare BASE TUNED -o pairs.h5         two models, matrix by matrix
  vindex experts MODEL -o experts.h5            how alike the routed experts of a layer are
  vindex export spectra.h5 --format csv -o spectra.csv
  vindex synth kimi-k2-mini -o mini             a small model with known spectra

MODEL is a Hugging Face folder, one .safetensors, or one .gguf (any split finds the rest).)";

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

/// Throws UsageError where the first word of `arguments` is no verb of `app`: CLI11 would only say
/// that some verb, or an option of a later one, is missing. No option before a verb takes a value.
void expect_verb(const CLI::App& app, const std::vector<std::string>& arguments) {
  const auto word = std::find_if(arguments.begin() + 1, arguments.end(),
                                 [](const std::string& text) { return !text.starts_with('-'); });
  const auto verbs = app.get_subcommands([](const CLI::App* /*verb*/) { return true; });
  if (word == arguments.end() || std::any_of(verbs.begin(), verbs.end(), [&](const auto* verb) {
        return verb->check_name(*word);
      })) {
    return;
  }
  std::string names;
  for (const CLI::App* verb : verbs) {
    names += (names.empty() ? "" : ", ") + verb->get_name();
  }
  throw vindex::UsageError(
      "E-USAGE", fmt::format("'{}' is no verb; they are {}", vindex::printable(*word), names));
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

int run(int argc, char** argv) {
  vindex::apps::Session session;
  session.arguments.assign(argv, argv + argc);
  session.unset_variables = vindex::apps::unset_arithmetic_variables();
  if (std::getenv("VINDEX_AWAIT_LAUNCHES") != nullptr) {
    vindex::run::await_launches();
  }
  CLI::App app(kAbout, "vindex");
  app.set_version_flag("--version",
                       fmt::format("vindex {} ({}, {})", vindex::run::program_version(),
                                   vindex::run::program_commit(), vindex::run::compiler_text()));
  app.add_flag("-q,--quiet", session.quiet, "Say nothing but results and errors");
  app.require_subcommand(1);
  app.fallthrough();
  vindex::apps::add_inspect(app, session);
  vindex::apps::add_decode(app, session);
  vindex::apps::add_plan(app, session);
  vindex::apps::add_measure(app, session);
  vindex::apps::add_compare(app, session);
  vindex::apps::add_cka(app, session);
  vindex::apps::add_edit(app, session);
  vindex::apps::add_lookup(app, session);
  vindex::apps::add_experts(app, session);
  vindex::apps::add_activations(app, session);
  vindex::apps::add_routing(app, session);
  vindex::apps::add_show(app, session);
  vindex::apps::add_status(app, session);
  vindex::apps::add_results_verbs(app, session);
  vindex::apps::add_organ(app, session);
  vindex::apps::add_synth(app, session);
  vindex::apps::add_bench(app, session);
  std::vector<std::string> arguments = vindex::apps::with_configuration(session.arguments);
  expect_verb(app, arguments);
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
  } catch (const CLI::ParseError& error) {
    return fail(fmt::format("E-USAGE: {}; `vindex --help` and `vindex VERB --help` tell more",
                            error.what()),
                ExitCode::kUsage);
  }
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

/// The program itself never calls exit().
void end_for_library() {
  (void)!::write(STDERR_FILENO, kEndedByLibrary, std::strlen(kEndedByLibrary));
  std::_Exit(static_cast<int>(ExitCode::kInternal));
}

/// Before all other initialisers of this program: they take memory too, those of headers included.
struct LastWords {
  LastWords() {
    std::set_terminate(end_at_once);
    std::atexit(end_for_library);
  }
};
[[gnu::init_priority(101)]] const LastWords kLastWords;

}  // namespace

int main(int argc, char** argv) {
  std::signal(SIGPIPE, SIG_IGN);
  std::signal(SIGXFSZ, SIG_IGN);  // a file size limit is then an ordinary error of write()
  keep_standard_descriptors();
  allow_many_files();
  int code = 0;
  try {
    code = run(argc, argv);
  } catch (const vindex::Error& error) {
    code = vindex::is_closed_output(error) ? 0 : fail(error.what(), error.exit_code());
  } catch (const std::bad_alloc&) {
    std::fputs(kOutOfMemory, stderr);  // nothing is put together: there is no memory for it
    code = static_cast<int>(ExitCode::kInternal);
  } catch (const std::filesystem::filesystem_error& error) {
    const vindex::SystemError same("E-OPEN", error.code().value(),
                                   "cannot examine " + vindex::printable(error.path1().string()));
    code = fail(same.what(), same.exit_code());
  } catch (const std::exception& error) {
    code = fail(fmt::format("E-INTERNAL: {}", error.what()), ExitCode::kInternal);
  }
  std::fflush(nullptr);
  // Workers of a run that was stopped early may still compute: no destructor may pull memory from
  // under them.
  std::_Exit(code);
}
