// gpu_probe: what the bus of this GPU, its libraries and the kernels of a spectrum give. Rows
// `probe.*` and `spectra.*` in the form "vindex-bench/1". Each group runs in a process of its own
// and is ended at its time limit; what it found until then is kept.
#include "probe.hpp"

#include "engine/run/version.hpp"

#include <CLI/CLI.hpp>
#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <array>
#include <csignal>
#include <cstdio>
#include <poll.h>
#include <sys/wait.h>
#include <unistd.h>

namespace {

using namespace vindex;

struct Group {
  const char* name;
  void (*run)(probe::Probe&);
  double share;  ///< of the time limit
};

constexpr std::array<Group, 4> kGroups = {{{"transfers", probe::probe_transfers, 0.1},
                                           {"values", probe::probe_values, 0.15},
                                           {"svd", probe::probe_svd, 0.15},
                                           {"stages", probe::probe_stages, 0.1}}};

struct Options {
  int device = 0;
  double seconds = 90.0;
  int samples = 7;
  std::vector<std::string> only;
  probe::StageChoice stages;
  bool json = false;
  double hold = 0.0;
};

/// Keeps a context on the device for so long, that other processes find its driver awake.
int hold_device(int device, double seconds) {
  probe::check(cudaSetDevice(device));
  probe::check(cudaFree(nullptr));
  fmt::print("gpu_probe: a context is held\n");
  std::fflush(stdout);
  const double end = throughput::wall_seconds() + seconds;
  while (throughput::wall_seconds() < end) {
    ::usleep(100'000);
  }
  return 0;
}

/// Facts of the device and one line per row, written to `out` by the process of a group.
[[noreturn]] void run_group(const Group& group, const Options& options, double seconds, int out) {
  std::FILE* const stream = ::fdopen(out, "w");
  const auto say = [stream](const std::string& line) {
    std::fputs((line + "\n").c_str(), stream);
    std::fflush(stream);
  };
  int code = 0;
  try {
    probe::Probe probe(options.device, seconds, options.samples,
                       [&](const throughput::Row& row) { say(throughput::row_json(row)); });
    probe.stages = options.stages;
    int driver = 0;
    int runtime = 0;
    probe::check(cudaDriverGetVersion(&driver));
    probe::check(cudaRuntimeGetVersion(&runtime));
    say(nlohmann::json{
        {"device", probe.properties().name},
        {"cuda", fmt::format("driver for CUDA {}.{}, runtime {}.{}", driver / 1000,
                             driver % 1000 / 10, runtime / 1000, runtime % 1000 / 10)}}
            .dump());
    group.run(probe);
  } catch (const std::exception& error) {
    throughput::Row row = probe::plain_row("probe.group", group.name, "seconds");
    row.note = error.what();
    say(throughput::row_json(row));
    code = 1;
  }
  std::fflush(stream);
  ::_exit(code);  // the driver's own ends are not waited for
}

throughput::Row row_of(const nlohmann::json& line) {
  throughput::Row row{.name = line.at("name"),
                      .route = line.at("route"),
                      .backend = line.at("backend"),
                      .rows = line.at("rows"),
                      .cols = line.at("cols"),
                      .batch = line.at("batch"),
                      .encoding = line.at("encoding"),
                      .spectrum = line.value("spectrum", ""),
                      .unit = line.at("unit"),
                      .samples = line.at("samples"),
                      .note = line.value("note", "")};
  if (!line.at("limit").is_null()) {
    row.limit = line.at("limit").get<double>();
  }
  if (!line.at("peer").is_null()) {
    row.peer = line.at("peer");
  }
  return row;
}

/// Takes one line of a group's process into the report.
void take_line(const std::string& text, throughput::Report& report) {
  const auto line = nlohmann::json::parse(text, nullptr, false);
  if (line.is_discarded()) {
    return;  // cut off by the end of its process
  }
  if (line.contains("device")) {
    report.gpu = throughput::GpuFacts{.name = line.at("device"),
                                      .driver = throughput::gpu_driver_version(),
                                      .cuda = line.at("cuda")};
    return;
  }
  report.rows.push_back(row_of(line));
}

/// Runs one group to its end or its time limit. True where its process ended by itself and well.
bool take_group(const Group& group, const Options& options, double seconds,
                throughput::Report& report) {
  std::array<int, 2> ends{};
  if (::pipe(ends.data()) != 0) {
    throw SystemError("E-PIPE", errno, "no pipe for a group of probes");
  }
  const pid_t process = ::fork();
  if (process == 0) {
    ::close(ends[0]);
    run_group(group, options, seconds, ends[1]);
  }
  ::close(ends[1]);
  if (process < 0) {
    ::close(ends[0]);
    throw SystemError("E-FORK", errno, "no process for a group of probes");
  }
  // A case that was begun in time may end late, but not by much.
  const double deadline = throughput::wall_seconds() + seconds + 10.0;
  std::string pending;
  bool timed_out = false;
  for (;;) {
    const double left = deadline - throughput::wall_seconds();
    pollfd wait{.fd = ends[0], .events = POLLIN, .revents = 0};
    if (left <= 0.0 || ::poll(&wait, 1, static_cast<int>(1e3 * left) + 1) == 0) {
      timed_out = true;
      ::kill(process, SIGKILL);
      break;
    }
    std::array<char, 4096> buffer{};
    const ssize_t count = ::read(ends[0], buffer.data(), buffer.size());
    if (count <= 0) {
      break;
    }
    pending.append(buffer.data(), static_cast<std::size_t>(count));
    for (std::size_t end = pending.find('\n'); end != std::string::npos; end = pending.find('\n')) {
      take_line(pending.substr(0, end), report);
      pending.erase(0, end + 1);
    }
  }
  ::close(ends[0]);
  int status = 0;
  ::waitpid(process, &status, 0);
  const bool ended_well = WIFEXITED(status) && WEXITSTATUS(status) == 0;
  if (!ended_well && !(WIFEXITED(status) && WEXITSTATUS(status) == 1)) {
    throughput::Row row = probe::plain_row("probe.group", group.name, "seconds");
    row.note = timed_out ? fmt::format("ended at its time limit of {:.0f} s", seconds + 10.0)
                         : fmt::format("its process ended by signal {}", WTERMSIG(status));
    report.rows.push_back(row);
  }
  return ended_well;
}

}  // namespace

int main(int argc, char** argv) {
  CLI::App app(
      "gpu_probe: what the bus of a GPU, its libraries and our kernels give, as rows probe.* and "
      "spectra.*");
  Options options;
  std::vector<std::string> names;
  for (const Group& group : kGroups) {
    names.emplace_back(group.name);
  }
  app.add_option("--device", options.device, "CUDA device")->check(CLI::Range(0, 1023));
  app.add_option("--seconds", options.seconds, "Time limit of all groups together")
      ->check(CLI::PositiveNumber)
      ->capture_default_str();
  app.add_option("--samples", options.samples, "Samples per case, after one warm-up")
      ->check(CLI::Range(1, 1000))
      ->capture_default_str();
  app.add_option("--only", options.only, "Groups: " + fmt::format("{}", fmt::join(names, ", ")))
      ->delimiter(',')
      ->check(CLI::IsMember(names));
  app.add_option("--stages", options.stages.only,
                 "Of the group \"stages\" only these: " +
                     fmt::format("{}", fmt::join(probe::stage_names(), ", ")))
      ->delimiter(',')
      ->check(CLI::IsMember(probe::stage_names()));
  app.add_option(
         "--chase", options.stages.sweeps,
         "Sweeps of the chase under way at once that \"stages\" compares, in each precision "
         "as many as fit")
      ->delimiter(',')
      ->check(CLI::Range(4, 64))
      ->capture_default_str();
  app.add_option("--rows", options.stages.rows, "Rows of the matrices of \"stages\"")
      ->check(CLI::Range(32, 1 << 16))
      ->capture_default_str();
  app.add_option("--cols", options.stages.cols, "Their columns")
      ->check(CLI::Range(32, 1 << 16))
      ->capture_default_str();
  app.add_option("--batch", options.stages.batch,
                 "Matrices of \"stages\" at once; without it one for each multiprocessor")
      ->check(CLI::Range(1, 65535));
  app.add_option("--strip-rows", options.stages.strip_rows,
                 "Rows of the strips of the band's reduction that \"stages\" compares")
      ->delimiter(',')
      ->check(CLI::IsMember({64, 128, 256}));
  app.add_flag("--json", options.json, "One JSON document with every sample (vindex-bench/1)");
  app.add_option("--hold", options.hold,
                 "Nothing but a context on the device, for so many seconds: beside many short "
                 "processes, each of which would wake the driver")
      ->check(CLI::PositiveNumber);
  CLI11_PARSE(app, argc, argv);
  try {
    if (options.hold > 0.0) {
      return hold_device(options.device, options.hold);
    }
    throughput::Report report{.commit = engine::program_commit(),
                              .command = throughput::command_text({argv, argv + argc}),
                              .host = throughput::host_facts("none")};
    double total = 0.0;
    for (const Group& group : kGroups) {
      total += options.only.empty() || std::find(options.only.begin(), options.only.end(),
                                                 group.name) != options.only.end()
                   ? group.share
                   : 0.0;
    }
    bool all_well = true;
    const double start = throughput::wall_seconds();
    double planned = 0.0;
    for (const Group& group : kGroups) {
      if (!options.only.empty() &&
          std::find(options.only.begin(), options.only.end(), group.name) == options.only.end()) {
        continue;
      }
      // What earlier groups left over is a later one's.
      planned += options.seconds * group.share / total;
      const double seconds = std::max(1.0, planned - (throughput::wall_seconds() - start));
      all_well = take_group(group, options, seconds, report) && all_well;
    }
    fmt::print("{}",
               options.json ? throughput::report_json(report) : throughput::report_table(report));
    if (!report.gpu) {
      fmt::print(stderr, "gpu_probe: no GPU was reached: {}\n",
                 report.rows.empty() ? "no group ran" : report.rows.front().note);
      return 70;
    }
    return all_well ? 0 : 1;
  } catch (const std::exception& error) {
    fmt::print(stderr, "gpu_probe: {}\n", error.what());
    return 70;
  }
}
