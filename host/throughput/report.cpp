// Owns the facts of the machine, and a benchmark's rows as JSON and as a table.
#include "report.hpp"

#include "core/json/json_document.hpp"
#include "core/text/text_table.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <ctime>
#include <fstream>
#include <limits>
#include <map>
#include <sched.h>
#include <unistd.h>

namespace vindex::throughput {

namespace {

std::string utc_now() {
  const std::time_t now = std::time(nullptr);
  std::array<char, 32> text{};
  std::strftime(text.data(), text.size(), "%Y-%m-%dT%H:%M:%SZ", std::gmtime(&now));
  return text.data();
}

std::string processor_model() {
  std::ifstream info("/proc/cpuinfo");
  for (std::string line; std::getline(info, line);) {
    const auto colon = line.find(": ");
    if (line.starts_with("model name") && colon != std::string::npos) {
      return line.substr(colon + 2);
    }
  }
  return "unknown";
}

Json row_object(const Row& row) {
  Json entry = {{"name", row.name},         {"route", row.route}, {"backend", row.backend},
                {"rows", row.rows},         {"cols", row.cols},   {"batch", row.batch},
                {"encoding", row.encoding}, {"unit", row.unit},   {"samples", row.samples},
                {"limit", nullptr},         {"peer", nullptr}};
  if (!row.spectrum.empty()) {
    entry["spectrum"] = row.spectrum;
  }
  if (row.limit) {
    entry["limit"] = *row.limit;
  }
  if (!row.peer.empty()) {
    entry["peer"] = row.peer;
  }
  if (!row.note.empty()) {
    entry["note"] = row.note;
  }
  return entry;
}

/// Four significant digits without an exponent where that stays short.
std::string number_text(double value) { return fmt::format("{:.4g}", value); }

/// " ms" and the like: of one matrix where the unit says so.
std::string unit_text(const std::string& unit) {
  static const std::map<std::string, const char*> kShort = {{"ms_per_matrix", " ms"},
                                                            {"gb_f32_per_s", " GB/s f32"},
                                                            {"gb_in_per_s", " GB/s in"},
                                                            {"gb_per_s", " GB/s"},
                                                            {"seconds", " s"},
                                                            {"microseconds", " us"},
                                                            {"share", ""}};
  const auto known = kShort.find(unit);
  return known == kShort.end() ? " " + unit : known->second;
}

}  // namespace

HostFacts host_facts(std::string blas) {
  cpu_set_t cores;
  CPU_ZERO(&cores);
  const bool known = sched_getaffinity(0, sizeof(cores), &cores) == 0;
  return {.cpu = processor_model(),
          .cores = known ? CPU_COUNT(&cores) : 1,
          .memory_gib = static_cast<double>(sysconf(_SC_PHYS_PAGES)) *
                        static_cast<double>(sysconf(_SC_PAGESIZE)) / (1024.0 * 1024.0 * 1024.0),
          .blas = std::move(blas)};
}

std::string gpu_driver_version() {
  // "NVRM version: NVIDIA UNIX Open Kernel Module for x86_64  580.159.04  Release Build ..."
  std::ifstream file("/proc/driver/nvidia/version");
  for (std::string word; file >> word;) {
    if (word.find_first_not_of("0123456789.") == std::string::npos &&
        word.find('.') != std::string::npos) {
      return word;
    }
  }
  return "unknown";
}

std::string command_text(const std::vector<std::string>& arguments) {
  return fmt::format("{}", fmt::join(arguments, " "));
}

bool is_duration(const std::string& unit) {
  return unit == "ms_per_matrix" || unit == "seconds" || unit == "microseconds";
}

double median(std::vector<double> values) {
  if (values.empty()) {
    return std::numeric_limits<double>::quiet_NaN();
  }
  std::sort(values.begin(), values.end());
  const std::size_t middle = values.size() / 2;
  return values.size() % 2 == 1 ? values[middle] : 0.5 * (values[middle - 1] + values[middle]);
}

double best_of(const Row& row) {
  if (row.samples.empty()) {
    return std::numeric_limits<double>::quiet_NaN();
  }
  return is_duration(row.unit) ? *std::min_element(row.samples.begin(), row.samples.end())
                               : *std::max_element(row.samples.begin(), row.samples.end());
}

std::string row_json(const Row& row) { return row_object(row).dump(); }

std::string report_json(const Report& report) {
  Json document = {{"schema", "vindex-bench/1"},
                   {"commit", report.commit},
                   {"date", utc_now()},
                   {"host",
                    {{"cpu", report.host.cpu},
                     {"cores", report.host.cores},
                     {"memory_gib", report.host.memory_gib},
                     {"blas", report.host.blas}}},
                   {"gpu", nullptr},
                   {"command", report.command},
                   {"rows", Json::array()}};
  if (report.gpu) {
    document["gpu"] = {
        {"name", report.gpu->name}, {"driver", report.gpu->driver}, {"cuda", report.gpu->cuda}};
  }
  for (const Row& row : report.rows) {
    document["rows"].push_back(row_object(row));
  }
  return document.dump(1) + "\n";
}

std::string report_table(const Report& report, std::size_t columns) {
  std::string text =
      wrapped_text(fmt::format("{} ({} cores, {}){}", report.host.cpu, report.host.cores,
                               report.host.blas, report.gpu ? ", " + report.gpu->name : ""),
                   columns) +
      "\n";
  std::vector<std::vector<std::string>> rows = {{"name", "shape", "encoding", "weights", "batch",
                                                 "back end: route", "median", "best", "limit",
                                                 "share"}};
  std::string notes;
  for (const Row& row : report.rows) {
    const std::string shape = row.rows == 0 ? "-" : fmt::format("{}x{}", row.rows, row.cols);
    const double best = best_of(row);
    std::string limit = "-";
    std::string share = "-";
    if (row.limit) {
      limit = number_text(*row.limit);
      share = fmt::format("{:.2f}", is_duration(row.unit) ? *row.limit / best : best / *row.limit);
    }
    rows.push_back({row.name, shape, row.encoding, row.spectrum.empty() ? "-" : row.spectrum,
                    fmt::format("{}", row.batch),
                    (row.peer.empty() ? row.backend : row.peer) + ": " + row.route,
                    row.samples.empty() ? "-" : number_text(median(row.samples)),
                    row.samples.empty() ? "-" : number_text(best) + unit_text(row.unit), limit,
                    share});
    if (!row.note.empty()) {
      notes += wrapped_text(fmt::format("{}{}{}: {}", row.name, row.rows == 0 ? "" : " " + shape,
                                        row.spectrum.empty() ? "" : " " + row.spectrum, row.note),
                            columns, 2) +
               "\n";
    }
  }
  // What a narrow terminal leaves out is in the JSON document.
  text += table_text(rows,
                     {{.min_width = 12},
                      {.right = true},
                      {.min_width = 8, .is_close = true},
                      {.is_close = true},
                      {.right = true, .dropped_as = 1},
                      {.min_width = 10, .keep = Keep::kStart},
                      {.right = true, .dropped_as = 2},
                      {.right = true},
                      {.right = true, .dropped_as = 3},
                      {.right = true}},
                     columns) +
          notes;
  return text;
}

}  // namespace vindex::throughput
