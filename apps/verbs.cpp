// Owns stop signals, configuration files, parsing of sizes and devices, printing, and the width of
// a text on a terminal.
#include "verbs.hpp"

#include "numbers.hpp"

#include "core/files/output_sink.hpp"
#include "core/process/parallel.hpp"
#include "core/text/secrets.hpp"
#include "core/text/text_table.hpp"
#include "engine/run/opening.hpp"
#include "engine/run/version.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <map>
#include <semaphore.h>
#include <signal.h>
#include <span>
#include <sstream>
#include <stop_token>
#include <string.h>
#include <string>
#include <sys/ioctl.h>
#include <unistd.h>
#include <utility>

namespace vindex::apps {

namespace {

std::atomic<int> stop_signal{0};
static_assert(std::atomic<int>::is_always_lock_free, "written by a signal handler");
sem_t stop_noted;  ///< never destroyed: the handler stays

extern "C" void note_stop(int signal) {
  if (signal == SIGINT && stop_signal != 0) {
    constexpr char kReason[] = "vindex: E-INTERRUPTED: ended at once by a second SIGINT\n";
    (void)!::write(STDERR_FILENO, kReason, sizeof(kReason) - 1);  // all that a handler may call
    _exit(130);
  }
  stop_signal = signal;
  sem_post(&stop_noted);
}

/// Makes a request of the first signal, which a handler may not: it has a thread for that.
class StopSignals {
 public:
  StopSignals() {
    sem_init(&stop_noted, 0, 0);
    const auto await_signal = [this] {
      while (sem_wait(&stop_noted) != 0) {  // interrupted
      }
      if (stop_signal != 0) {
        stop_.request_stop();
      }
    };
    if (!start_thread(watcher_, await_signal)) {
      throw_no_thread("stop signals");
    }
    struct sigaction action {};
    action.sa_handler = note_stop;
    sigemptyset(&action.sa_mask);
    action.sa_flags = SA_RESTART;
    for (const int signal : {SIGTERM, SIGINT, SIGUSR1}) {
      sigaction(signal, &action, nullptr);
    }
  }
  ~StopSignals() { sem_post(&stop_noted); }
  StopSignals(const StopSignals&) = delete;
  StopSignals& operator=(const StopSignals&) = delete;
  std::stop_token token() const { return stop_.get_token(); }

 private:
  std::stop_source stop_;
  std::vector<std::jthread> watcher_;
};

}  // namespace

std::stop_token catch_stop_signals() {
  static const StopSignals signals;
  return signals.token();
}

Ending stopped_early(const std::string& kept) {
  const int signal = stop_signal;
  const char* const name = sigabbrev_np(signal);
  return {ExitCode::kStoppedEarly, fmt::format("E-STOPPED: stopped early by {}: {}",
                                               name == nullptr ? fmt::format("signal {}", signal)
                                                               : fmt::format("SIG{}", name),
                                               kept)};
}

std::string environment_variable(const char* name) {
  const char* const value = std::getenv(name);
  return value == nullptr ? std::string() : std::string(value);
}

engine::RamBudget ram_budget_of(const Session& session, const std::string& text) {
  if (!text.empty()) {
    engine::RamBudget budget;
    budget.bytes = parse_size(text);
    budget.limit.source = "--ram-budget";
    return budget;
  }
  engine::RamBudget budget = engine::default_ram_budget(
      engine::system_memory_limits(), {.mem_per_node = environment_variable("SLURM_MEM_PER_NODE"),
                                       .mem_per_cpu = environment_variable("SLURM_MEM_PER_CPU"),
                                       .cpus_on_node = environment_variable("SLURM_CPUS_ON_NODE")});
  for (const std::string& warning : budget.warnings) {
    say(session, "warning W-SLURM-MEMORY: " + warning);
  }
  return budget;
}

engine::SchedulerVariables scheduler_variables() {
  return {.slurm_array_task_id = environment_variable("SLURM_ARRAY_TASK_ID"),
          .slurm_array_task_count = environment_variable("SLURM_ARRAY_TASK_COUNT"),
          .slurm_array_task_min = environment_variable("SLURM_ARRAY_TASK_MIN"),
          .slurm_array_task_max = environment_variable("SLURM_ARRAY_TASK_MAX"),
          .slurm_array_task_step = environment_variable("SLURM_ARRAY_TASK_STEP"),
          .slurm_procid = environment_variable("SLURM_PROCID"),
          .slurm_ntasks = environment_variable("SLURM_NTASKS"),
          .slurm_step_num_tasks = environment_variable("SLURM_STEP_NUM_TASKS"),
          .job_completion_index = environment_variable("JOB_COMPLETION_INDEX")};
}

void on_choice(CLI::App& app, Session& session, std::function<Ending()> run) {
  app.callback([&session, run = std::move(run)] { session.chosen = run; });
}

namespace {
std::string configuration_text(const std::string& path) {
  constexpr std::size_t kLargest = 1U << 20U;
  std::string text = engine::beginning_of_file(path, kLargest + 1);
  if (text.size() > kLargest) {
    throw UsageError("E-CONFIG", fmt::format("{}: more than {} bytes: no configuration file",
                                             printable(path), kLargest));
  }
  return text;
}
}  // namespace

std::vector<std::string> with_configuration(std::vector<std::string> arguments) {
  const std::string flag = "--config";
  std::string path;
  for (std::size_t i = 1; i < arguments.size(); ++i) {
    if (arguments[i] == flag && i + 1 < arguments.size()) {
      path = arguments[i + 1];
    } else if (arguments[i].rfind(flag + "=", 0) == 0) {
      path = arguments[i].substr(flag.size() + 1);
    }
  }
  if (path.empty() || arguments.size() < 2) {
    return arguments;
  }
  std::istringstream file(configuration_text(path));
  // "layers" of a file is given by --layer too, which is the same flag.
  const auto other_spelling = [](const std::string& name) {
    const auto is_one = [&](const char* stem) {
      return name == stem || name == stem + std::string("s");
    };
    const bool has_two = is_one("layer") || is_one("block") || is_one("role");
    return !has_two ? name : (name.back() == 's' ? name.substr(0, name.size() - 1) : name + "s");
  };
  const auto is_spelt = [&](const std::string& name) {
    return std::any_of(arguments.begin(), arguments.end(), [&](const std::string& argument) {
      return argument == "--" + name || argument.rfind("--" + name + "=", 0) == 0 ||
             (name == "output" && argument.rfind("-o", 0) == 0);
    });
  };
  const auto is_given = [&](const std::string& name) {
    return is_spelt(name) || is_spelt(other_spelling(name));
  };
  std::vector<CLI::ConfigItem> items;
  try {
    items = CLI::ConfigBase().from_config(file);
  } catch (const CLI::Error& error) {
    throw UsageError("E-CONFIG", fmt::format("{}: {}", printable(path), error.what()));
  }
  std::vector<std::string> flags;
  for (const CLI::ConfigItem& item : items) {
    std::string value;
    for (const std::string& input : item.inputs) {
      value += (value.empty() ? "" : ",") + input;
    }
    if (item.name == "model") {
      flags.push_back(value);
    } else if (!is_given(item.name) && value != "false") {
      flags.push_back(value == "true" ? "--" + item.name
                                      : fmt::format("--{}={}", item.name, value));
    }
  }
  // Behind a nested verb, too.
  const std::ptrdiff_t behind =
      (arguments[1] == "organ" || arguments[1] == "edit") && arguments.size() > 2 ? 3 : 2;
  arguments.insert(arguments.begin() + behind, flags.begin(), flags.end());
  return arguments;
}

namespace {
/// What a bare number below this is taken for: a number whose unit was left out.
constexpr double kFewestBareBytes = 65536.0;
}  // namespace

std::uint64_t parse_size(const std::string& text) {
  struct Unit {
    const char* name;
    double bytes;
  };
  static constexpr std::array<Unit, 11> kUnits = {{{"", 1.0},
                                                   {"B", 1.0},
                                                   {"kB", 1e3},
                                                   {"KB", 1e3},
                                                   {"MB", 1e6},
                                                   {"GB", 1e9},
                                                   {"TB", 1e12},
                                                   {"KiB", 1024.0},
                                                   {"MiB", 1048576.0},
                                                   {"GiB", 1073741824.0},
                                                   {"TiB", 1099511627776.0}}};
  const std::size_t letters = text.find_first_not_of("0123456789.eE+-");
  const auto value = parse_number(std::string_view(text).substr(0, letters));
  const std::string unit = letters == std::string::npos ? "" : text.substr(letters);
  for (const Unit& known : kUnits) {
    const double bytes = value.value_or(0.0) * known.bytes;
    if (unit == known.name && bytes >= 1.0 && bytes < 9e18) {
      if (unit.empty() && bytes < kFewestBareBytes) {
        throw UsageError("E-SIZE", fmt::format("`{0}` is {0} bytes; did you mean {0}GiB?", text));
      }
      return static_cast<std::uint64_t>(bytes);
    }
  }
  throw UsageError(
      "E-SIZE",
      fmt::format("`{}` is not a size; write bytes or a number with kB, MB, GB, KiB, MiB or GiB",
                  printable(text)));
}

std::vector<std::int32_t> parse_devices(const std::string& text) {
  std::vector<std::int32_t> devices;
  if (text == "all") {
    return devices;
  }
  std::istringstream words(text);
  for (std::string word; std::getline(words, word, ',');) {
    if (word.empty() || word.size() > 3 ||
        word.find_first_not_of("0123456789") != std::string::npos) {
      throw UsageError(
          "E-DEVICE",
          fmt::format("--device `{}`: write all, a number, or numbers with commas", text));
    }
    devices.push_back(std::stoi(word));
  }
  if (devices.empty()) {
    throw UsageError("E-DEVICE", "--device names no device");
  }
  return devices;
}

SpectrumMode mode_of(const std::string& name) {
  static const std::map<std::string, SpectrumMode> kModes = {{"fast", SpectrumMode::kFast},
                                                             {"default", SpectrumMode::kDefault},
                                                             {"strict", SpectrumMode::kStrict}};
  return kModes.at(name);
}

void add_reshape(CLI::App& verb, std::string& choice) {
  verb.add_option("--reshape", choice,
                  "out: tensors of rank 3 and more (convolutions) as out x rest")
      ->check(CLI::IsMember({"none", "out"}))
      ->capture_default_str();
}

void print_result(const std::string& text) {
  const std::string shown = without_secrets(text);
  try {
    write_standard_output(std::as_bytes(std::span(shown)));
  } catch (const SystemError& error) {
    if (!is_closed_output(error)) {
      throw;
    }
  }
}

void say(const Session& session, const std::string& line) {
  if (!session.quiet) {
    // Nobody may be reading: no reason to stop.
    std::fputs((without_secrets(line) + "\n").c_str(), stderr);
  }
}

void say_warnings(const Session& session, const std::vector<Warning>& warnings) {
  for (const Warning& warning : warnings) {
    say(session, fmt::format("warning {}: {}", warning.id, warning.text));
  }
}

std::string program_name() {
  return fmt::format("vindex {} ({})", engine::program_version(), engine::program_commit());
}

std::size_t text_width(int descriptor) {
  struct winsize size {};
  if (::ioctl(descriptor, TIOCGWINSZ, &size) == 0 && size.ws_col > 0) {
    return size.ws_col;
  }
  constexpr unsigned long kMax = 10'000;
  const char* columns = std::getenv("COLUMNS");
  const unsigned long width = columns == nullptr ? 0 : std::strtoul(columns, nullptr, 10);
  return width > 0 && width <= kMax ? width : kUsualWidth;
}

bool is_live(int descriptor) {
  const char* kind = std::getenv("TERM");
  return ::isatty(descriptor) == 1 && kind != nullptr && *kind != '\0' &&
         std::string(kind) != "dumb";
}

}  // namespace vindex::apps
