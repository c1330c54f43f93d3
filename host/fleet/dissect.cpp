// Owns what was done before, and the report.
#include "dissect.hpp"

#include "core/files/atomic_file.hpp"
#include "core/files/path_kind.hpp"
#include "core/files/small_file.hpp"
#include "core/json/json.hpp"
#include "core/json/json_document.hpp"
#include "core/text/text_table.hpp"
#include "organ/extract/extract.hpp"
#include "organ/manifest/manifest_read.hpp"
#include "organ/opening/organ_model.hpp"
#include <vindex/error.hpp>

#include <fmt/format.h>

#include <cmath>
#include <filesystem>

namespace vindex::fleet {

namespace {

namespace fs = std::filesystem;

constexpr const char* kReportName = "dissection_report.json";
constexpr std::size_t kLargestDissection = std::size_t{64} << 20U;

double rate(const organ::ExtractReport& report, bool by_reference) {
  return by_reference ? kNaN : 1e-6 * static_cast<double>(report.bytes) / report.seconds;
}

}  // namespace

std::vector<NamedModel> models_to_dissect(std::vector<std::string> models,
                                          std::span<const std::string> folders) {
  for (const std::string& folder : folders) {
    for (const std::string& path : find_models(folder)) {
      if (!organ::holds_organs(path)) {
        models.push_back(path);
      }
    }
  }
  return named_models(models);
}

EarlierSeconds earlier_dissection(const std::string& folder) {
  EarlierSeconds seconds;
  const std::string text = read_small_input(fs::path(folder) / kReportName, kLargestDissection);
  try {
    const JsonValue document = parse_json(text, kReportName, {});
    const JsonValue* const of = document.find("of");
    const JsonValue* const models = document.find("models");
    const bool is_ours =
        of != nullptr && of->as_string() != nullptr && *of->as_string() == "extract";
    if (!is_ours || models == nullptr || models->as_array() == nullptr) {
      return seconds;
    }
    for (const JsonValue& model : *models->as_array()) {
      const JsonValue* const name = model.find("model");
      const JsonValue* const own = model.find("seconds");
      if (name != nullptr && name->as_string() != nullptr && own != nullptr) {
        seconds[*name->as_string()] = own->as_number().value_or(kNaN);
      }
    }
  } catch (const FormatError&) {
    seconds.clear();  // somebody else's
  }
  return seconds;
}

DissectedModel dissect(const NamedModel& named, const std::string& folder,
                       organ::ExtractSettings settings, const EarlierSeconds& earlier) {
  DissectedModel out = {
      .name = named.name, .path = named.path, .folder = (fs::path(folder) / named.name).string()};
  settings.model = named.path;
  settings.output = out.folder;
  if (path_kind(out.folder) == PathKind::kFolder && organ::is_organ_folder(out.folder)) {
    out.report = organ::extracted_before(settings);
    const auto known = earlier.find(named.name);
    out.report->seconds = known == earlier.end() ? kNaN : known->second;
    out.earlier = true;
    return out;
  }
  out.report = organ::extract(settings);
  return out;
}

std::string dissection_json(std::span<const DissectedModel> models, bool by_reference) {
  Json rows = Json::array();
  Json failed = Json::array();
  for (const DissectedModel& model : models) {
    if (!model.report) {
      failed.push_back({{"model", model.name}, {"path", model.path}, {"reason", model.failure}});
      continue;
    }
    const organ::ExtractReport& report = *model.report;
    rows.push_back({{"model", model.name},
                    {"path", model.path},
                    {"folder", model.folder},
                    {"bytes", report.bytes},
                    {"seconds", report.seconds},
                    {"mb_s", rate(report, by_reference)},
                    {"tensors", report.tensors},
                    {"tensors_total", report.tensors_total},
                    {"earlier", model.earlier},
                    {"classes", organ::class_counts_json(report.classes)}});
  }
  const Json document = {{"schema", "organ-dissection/1"},
                         {"of", "extract"},
                         {"storage", by_reference ? "reference" : "files"},
                         {"models", std::move(rows)},
                         {"failed", std::move(failed)}};
  return document.dump(1) + "\n";
}

void write_dissection(const std::string& folder, std::span<const DissectedModel> models,
                      bool by_reference) {
  AtomicFile file((fs::path(folder) / kReportName).string());
  const std::string text = dissection_json(models, by_reference);
  file.write(0, std::as_bytes(std::span(text)));
  file.publish();
}

std::string dissection_text(std::span<const DissectedModel> models, std::size_t width,
                            bool by_reference) {
  std::vector<std::vector<std::string>> rows = {
      {"model", "tensors", "weights", "MB", "seconds", "MB/s", ""}};
  double megabytes = 0.0;
  double seconds = 0.0;
  for (const DissectedModel& model : models) {
    if (!model.report) {
      rows.push_back({printable(model.name), "-", "-", "-", "-", "-", "failed"});
      continue;
    }
    const organ::ExtractReport& report = *model.report;
    std::uint64_t weights = 0;
    for (const organ::ClassCount& count : report.classes) {
      weights += count.params;
    }
    const auto number = [](double value, int digits) {
      return std::isnan(value) ? "-" : fmt::format("{:.{}f}", value, digits);
    };
    const double own = 1e-6 * static_cast<double>(report.bytes);
    if (!std::isnan(report.seconds)) {
      megabytes += own;
      seconds += report.seconds;
    }
    rows.push_back({printable(model.name), std::to_string(report.tensors), std::to_string(weights),
                    number(own, 1), number(report.seconds, 2),
                    number(rate(report, by_reference), 0), model.earlier ? "before" : ""});
  }
  const TextColumn figures{.right = true};
  std::string text =
      table_text(rows, {{.min_width = 12}, figures, figures, figures, figures, figures, {}}, width);
  if (seconds > 0.0 && !by_reference) {
    text += fmt::format("{:.1f} MB in {:.2f} s, {:.0f} MB/s\n", megabytes, seconds,
                        megabytes / seconds);
  }
  return text;
}

}  // namespace vindex::fleet
