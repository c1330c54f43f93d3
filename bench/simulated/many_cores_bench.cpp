// many_cores_bench: how many workers of a run are busy where there are many, by runs whose storage
// and solver sleep (simulated_cores.hpp). Beside it, what this machine's own cores would allow: the
// processor time of everything that is real, per matrix. Output: a table, or "vindex-bench/1" with
// --json.
#include "pipeline_model.hpp"
#include "simulated_cores.hpp"

#include "core/process/parallel.hpp"
#include "engine/run/version.hpp"
#include "throughput/report.hpp"
#include "throughput/sampling.hpp"

#include <CLI/CLI.hpp>
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <fstream>
#include <limits>
#include <string>
#include <unistd.h>
#include <utility>
#include <vector>

namespace {

using namespace vindex;

struct Workload {
  std::string name;
  std::vector<throughput::SimulatedShape> period;
  std::int64_t most;  ///< matrices
};

const std::vector<Workload>& workloads() {
  static const std::vector<Workload> all = {
      // 384 experts x 60 layers: one matrix of each.
      {"experts", {{7168, 2048, true, 0.3, 1}}, 384 * 60},
      {"medium", {{2048, 768, true, 0.03, 1}}, 40000},
      {"small", {{2048, 128, false, 0.001, 1}}, 40000},
      {"mixed",
       {{16384, 7168, false, 3.0, 1}, {7168, 2048, true, 0.3, 24}, {2048, 128, false, 0.001, 8}},
       384 * 60}};
  return all;
}

double mean_seconds(const Workload& workload) {
  double seconds = 0.0;
  std::int64_t count = 0;
  for (const throughput::SimulatedShape& shape : workload.period) {
    seconds += static_cast<double>(shape.repeats) * shape.solve_seconds;
    count += shape.repeats;
  }
  return seconds / static_cast<double>(count);
}

/// What one run says, per matrix and worker.
struct Figures {
  double busy = 0.0;          ///< workers, while there were units
  double busy_whole = 0.0;    ///< workers, the published file included
  double cores_allow = 0.0;   ///< workers that this machine's cores could keep busy
  double serial_allow = 0.0;  ///< workers that the busiest of the single threads could
};

Figures figures_of(const throughput::SimulatedRun& run, const throughput::SimulatedTimes& times) {
  const auto workers = static_cast<double>(run.workers);
  const auto cores = static_cast<double>(usable_cores());
  Figures figures;
  figures.busy = times.solve / times.working;
  figures.busy_whole = times.solve / times.whole;
  figures.cores_allow = std::min(workers, cores * times.solve / times.processor);
  figures.serial_allow =
      std::min(workers, times.solve / std::max(times.begin_processor, times.writer_processor));
  return figures;
}

/// Of the threads that make rows of reports: what is left, where each other kind is counted.
double metrics_processor(const throughput::SimulatedTimes& times) {
  return times.processor - times.begin_processor - times.writer_processor - times.reader_processor -
         times.worker_processor;
}

void add_rows(const Workload& workload, const throughput::SimulatedRun& run,
              const throughput::SimulatedTimes& times, const Figures& figures,
              throughput::Report& report) {
  const auto workers = static_cast<double>(run.workers);
  const auto matrices = static_cast<double>(run.matrices);
  const auto add = [&](const std::string& what, const std::string& unit, double value,
                       std::optional<double> limit = {}, const std::string& note = {}) {
    report.rows.push_back({.name = "probe.cores." + what,
                           .route = workload.name,
                           .rows = workload.period.front().rows,
                           .cols = workload.period.front().cols,
                           .batch = run.workers,
                           .encoding = workload.period.front().is_fp8 ? "F8_E4M3/128x128" : "BF16",
                           .unit = unit,
                           .samples = {value},
                           .limit = limit,
                           .note = note});
  };
  const double worker_time = workers * times.working;
  add("busy", "share", figures.busy / workers, figures.cores_allow / workers,
      fmt::format("{} matrices on {} workers; limit: what this machine's cores allow", run.matrices,
                  run.workers));
  add("busy_whole", "share", figures.busy_whole / workers);
  add("serial_allows", "share", figures.serial_allow / workers);
  add("oversleep", "share", times.oversleep / worker_time);
  add("wait_unit", "share", times.wait_unit / worker_time);
  add("wait_bytes", "share", times.wait_bytes / worker_time);
  add("wait_hand_over", "share", times.wait_hand_over / worker_time);
  add("writer_waits", "share", times.writer_waits / times.working);
  add("begin_processor", "microseconds", 1e6 * times.begin_processor / matrices);
  add("writer_processor", "microseconds", 1e6 * times.writer_processor / matrices);
  add("reader_processor", "microseconds", 1e6 * times.reader_processor / matrices);
  add("worker_processor", "microseconds", 1e6 * times.worker_processor / matrices);
  add("processor", "microseconds", 1e6 * times.processor / matrices);
  add("metrics_processor", "microseconds", 1e6 * metrics_processor(times) / matrices);
  add("publishing_processor", "microseconds", 1e6 * times.publishing_processor / matrices);
  add("staging_made", "share", static_cast<double>(times.staging_made) / matrices);
  add("working", "seconds", times.working);
  add("publishing", "seconds", times.publishing);
}

std::string table_line(const Workload& workload, const throughput::SimulatedRun& run,
                       const throughput::SimulatedTimes& times, const Figures& figures) {
  const double share = 100.0 / (static_cast<double>(run.workers) * times.working);
  const double each = 1e6 / static_cast<double>(run.matrices);
  std::string line = fmt::format("{:<8}{:>8}{:>9}{:>8.1f}", workload.name, run.workers,
                                 run.matrices, times.working);
  for (const double busy :
       {figures.busy, figures.busy_whole, figures.cores_allow, figures.serial_allow}) {
    line += fmt::format("{:>7.1f}", busy);
  }
  for (const double wait :
       {times.oversleep, times.wait_unit, times.wait_bytes, times.wait_hand_over}) {
    line += fmt::format("{:>7.1f}", share * wait);
  }
  for (const double time :
       {times.begin_processor, times.writer_processor, times.reader_processor,
        times.worker_processor, metrics_processor(times), times.publishing_processor}) {
    line += fmt::format("{:>8.1f}", each * time);
  }
  return line + fmt::format("{:>8.1f}\n", times.publishing);
}

/// "cores", "serial": how many workers this machine's cores, and the busiest single thread, allow.
std::string table_head() {
  return fmt::format(
      "{:33}{:<28}{:<28}{:<48}{:>8}\n{:<8}{:>8}{:>9}{:>8}{:>7}{:>7}{:>7}{:>7}"
      "{:>7}{:>7}{:>7}{:>7}{:>8}{:>8}{:>8}{:>8}{:>8}{:>8}{:>8}\n",
      "", "   workers busy, allowed by", "   % of their time: late, wait",
      "   microseconds of processor per matrix", "publish", "workload", "workers", "matrices", "s",
      "now", "whole", "cores", "serial", "late", "unit", "bytes", "rows", "begin", "writer",
      "readers", "workers", "metrics", "publish", "s");
}

/// Routed experts in fp8 on a device.
struct DeviceCase {
  std::int64_t matrices = 384;
  double microseconds = 1e6 / 3000.0;
  std::int32_t lanes = 3;
  std::string output, copied;
};

/// Runs it, its bytes copied from the page cache, and adds what the host's threads took.
void add_device_rows(const DeviceCase& wanted, throughput::Report& report) {
  constexpr std::size_t kCopied = 256U << 20U;
  const throughput::SimulatedShape shape{7168, 2048, true, 0.0, 1};
  throughput::SimulatedRun run;
  run.period = {shape};
  run.matrices = wanted.matrices;
  run.workers = wanted.lanes;
  run.ram_budget = std::uint64_t{16} << 30U;
  run.output = wanted.output;
  run.copied_file = wanted.copied;
  run.device = {.lanes = wanted.lanes,
                .seconds_per_matrix = 1e-6 * wanted.microseconds,
                .least_seconds = 0.0};
  std::ofstream(wanted.copied, std::ios::binary) << std::string(kCopied, 'x');
  const throughput::SimulatedTimes times = throughput::simulate(run);
  std::filesystem::remove(wanted.output);
  std::filesystem::remove(wanted.copied);
  const auto matrices = static_cast<double>(wanted.matrices);
  const auto add = [&](const std::string& what, const std::string& unit, double value,
                       std::optional<double> limit, const std::string& note) {
    report.rows.push_back({.name = "probe.device." + what,
                           .route = "simulated",
                           .rows = shape.rows,
                           .cols = shape.cols,
                           .batch = wanted.matrices,
                           .encoding = "F8_E4M3/128x128",
                           .unit = unit,
                           .samples = {value},
                           .limit = limit,
                           .note = note});
  };
  const double each = 1e6 / matrices;
  // 3,000 matrices a second: what one thread, and 16 cores, may take of one.
  constexpr double kOneThread = 1e6 / 3000.0;
  constexpr double kAllCores = 16.0 * kOneThread;
  add("begin", "microseconds", each * (times.begin_processor - times.staging_processor), kOneThread,
      fmt::format("the thread that begins units, without {:.2f} GB of buffers",
                  1e-9 * static_cast<double>(times.staging_bytes)));
  add("rows", "microseconds", each * times.writer_processor, kOneThread,
      "the thread that takes rows");
  add("publish", "microseconds", each * times.publishing_processor, {},
      "compressing and writing the file, after the last row");
  add("lanes", "microseconds", each * times.worker_processor, wanted.lanes * kOneThread,
      fmt::format("{} threads: uploads, findings, errors, judgement", wanted.lanes));
  add("metrics", "microseconds", each * metrics_processor(times), 4.0 * kOneThread,
      "a quarter of the cores: metrics, nulls, cells");
  add("readers", "microseconds", each * times.reader_processor, kAllCores,
      "copies from the page cache, as many threads as cores");
  add("processor", "microseconds",
      each * (times.processor + times.publishing_processor - times.staging_processor), kAllCores,
      "all of it");
  add("whole", "seconds", times.whole, 1e-6 * wanted.microseconds * matrices,
      fmt::format("on {} cores, from the plan to the published file; limit: the kernels alone",
                  usable_cores()));
  add("publishing", "seconds", times.publishing, {}, "from the last solve to the end");
}

/// Orders of the calls of a device, as a model has them: per matrix, and what passes before the
/// first kernels.
void add_pipeline_rows(throughput::Report& report) {
  struct Order {
    const char* name;
    std::int32_t lanes;
    bool takes_turns;
    std::int64_t unit;
  };
  constexpr Order kOrders[] = {{"2 lanes that share the bus", 2, false, 48},
                               {"2 lanes in turn", 2, true, 48},
                               {"3 lanes that share the bus", 3, false, 48},
                               {"3 lanes in turn", 3, true, 32},
                               {"3 lanes in turn", 3, true, 48},
                               {"3 lanes in turn", 3, true, 64},
                               {"3 lanes in turn", 3, true, 96}};
  for (const auto& [kernels, least] :
       {std::pair(0.64, 39.0), std::pair(0.40, 25.0), std::pair(0.30, 20.0)}) {
    for (const std::int64_t matrices : {384, 3072}) {
      for (const Order& order : kOrders) {
        const std::vector<std::int64_t> units(static_cast<std::size_t>(matrices / order.unit),
                                              order.unit);
        const throughput::PipelineTimes times =
            throughput::run_pipeline({.lanes = order.lanes,
                                      .takes_turns = order.takes_turns,
                                      .kernels = kernels,
                                      .least_kernels = least},
                                     units);
        report.rows.push_back(
            {.name = "probe.pipeline",
             .route = fmt::format("{}, units of {}", order.name, order.unit),
             .rows = 7168,
             .cols = 2048,
             .batch = matrices,
             .encoding = "F8_E4M3/128x128",
             .unit = "ms_per_matrix",
             .samples = {times.whole / static_cast<double>(matrices)},
             .limit = kernels,
             .note = fmt::format(
                 "modelled; {} of {}, {} ms of kernels and 0.267 of bus; the first kernels begin "
                 "after {:.0f} ms, {:.0f} % of the device idle",
                 order.name, order.unit, kernels, times.fill, 100.0 * times.idle / times.whole)});
      }
    }
  }
}

std::string device_table(const throughput::Report& report) {
  std::string out;
  for (const throughput::Row& row : report.rows) {
    out += fmt::format("{:<28}{:>12.4g} {:<14}{:>10}  {}\n", row.name, row.samples.front(),
                       row.unit, row.limit ? fmt::format("{:.4g}", *row.limit) : "-", row.note);
  }
  return out;
}

}  // namespace

int main(int argc, char** argv) {
  CLI::App app("Workers that are busy where there are many; storage and solver only sleep.\n");
  bool json = false;
  double seconds = 10.0;
  double gib_per_worker = 2.0;
  double gb_per_second = 20.0;
  std::vector<std::int32_t> workers = {1, 16, 64, 128};
  std::vector<std::string> names;
  std::string folder = std::filesystem::temp_directory_path().string();
  for (const Workload& workload : workloads()) {
    names.push_back(workload.name);
  }
  app.add_flag("--json", json, "The form vindex-bench/1");
  app.add_option("--seconds", seconds, "Of each run, about");
  app.add_option("--workers", workers, "Numbers of workers")->delimiter(',');
  app.add_option("--workloads", names, "Some of experts, medium, small, mixed")
      ->delimiter(',')
      ->check(CLI::IsMember(names));
  app.add_option("--gib-per-worker", gib_per_worker, "Memory budget");
  app.add_option("--storage", gb_per_second, "GB/s of the storage");
  app.add_option("--folder", folder, "Where results files are written");
  bool device = false;
  DeviceCase wanted;
  app.add_flag("--device", device,
               "Batches on a device that only sleeps: what the host does of a matrix");
  bool pipeline = false;
  app.add_flag("--pipeline", pipeline, "A model of bus, kernels and host: orders of events");
  app.add_option("--matrices", wanted.matrices, "Of the run on a device");
  app.add_option("--device-microseconds", wanted.microseconds, "Of its kernels, per matrix");
  app.add_option("--lanes", wanted.lanes, "Its calls at once");
  CLI11_PARSE(app, argc, argv);

  throughput::Report report;
  report.commit = engine::program_commit();
  report.command = throughput::command_text(std::vector<std::string>(argv, argv + argc));
  report.host = throughput::host_facts("none");
  const std::string output =
      (std::filesystem::path(folder) / fmt::format("many-cores-{}.h5", ::getpid())).string();
  if (pipeline) {
    add_pipeline_rows(report);
    fmt::print("{}", json ? throughput::report_json(report) : device_table(report));
    return 0;
  }
  if (device) {
    wanted.output = output;
    wanted.copied = (std::filesystem::path(folder) / fmt::format("copied-{}", ::getpid())).string();
    add_device_rows(wanted, report);
    fmt::print("{}", json ? throughput::report_json(report) : device_table(report));
    return 0;
  }
  if (!json) {
    fmt::print("{}", table_head());
  }
  for (const Workload& workload : workloads()) {
    if (std::find(names.begin(), names.end(), workload.name) == names.end()) {
      continue;
    }
    for (const std::int32_t count : workers) {
      throughput::SimulatedRun run;
      run.period = workload.period;
      run.workers = count;
      run.matrices = std::clamp(std::llround(seconds * count / mean_seconds(workload)), 4LL * count,
                                std::max<long long>(workload.most, 4LL * count));
      run.ram_budget =
          static_cast<std::uint64_t>((count + 1) * gib_per_worker * static_cast<double>(1U << 30U));
      run.bytes_per_second = 1e9 * gb_per_second;
      run.output = output;
      const throughput::SimulatedTimes times = throughput::simulate(run);
      std::filesystem::remove(output);
      const Figures figures = figures_of(run, times);
      add_rows(workload, run, times, figures, report);
      if (!json) {
        fmt::print("{}", table_line(workload, run, times, figures));
        std::fflush(stdout);
      }
    }
  }
  if (json) {
    fmt::print("{}", throughput::report_json(report));
  }
  return 0;
}
