// Owns the common entries of a description: time, program, files, settings, environment, warnings.
#include "description_parts.hpp"

#include "version.hpp"

#include "core/files/path_kind.hpp"
#include "core/json/json.hpp"
#include "input/model_store.hpp"
#include <vindex/error.hpp>

#include <fmt/format.h>

#include <ctime>
#include <optional>
#include <utility>

namespace vindex::engine {

namespace {

std::string utc_now() {
  const std::time_t now = std::time(nullptr);
  std::tm parts{};
  gmtime_r(&now, &parts);
  char text[32];
  std::strftime(text, sizeof text, "%Y-%m-%dT%H:%M:%SZ", &parts);
  return text;
}

/// The part of a source's version that survives a copy of the folder to another disk: modification
/// time, no inode.
std::string modification_time(const std::string& version) {
  const std::size_t colon = version.find(':');
  return colon == std::string::npos ? version : version.substr(colon + 1);
}

std::string revision_of(const input::ModelFiles& files) {
  return files.store == nullptr ? "" : files.store->revision();
}

Json optional_number(const std::optional<std::int64_t>& value) {
  return value ? Json(*value) : Json(nullptr);
}

Json back_end_json(const Backend& backend) {
  const BackendInfo info = backend.info();
  Json self_tests = Json::array();
  for (const SelfTestInfo& test : info.self_tests) {
    self_tests.push_back({{"name", test.name}, {"passed", test.passed}, {"detail", test.detail}});
  }
  return {{"backend", info.name},        {"device", info.device},
          {"libraries", info.libraries}, {"self_tests", self_tests},
          {"notes", info.notes},         {"concurrent_calls", backend.limits().concurrent_calls}};
}

}  // namespace

results::RunDescription begin_description(results::FileSchema schema, const std::string& model,
                                          const std::string& title,
                                          const std::vector<std::string>& command) {
  std::string text;
  for (const std::string& word : command) {
    // Where the program lies on this machine is nobody's business.
    text += text.empty() ? printable(file_name_of(word)) : " " + printable(word);
  }
  results::RunDescription run;
  run.schema = schema;
  run.model = model;
  run.title = title;
  run.history = fmt::format("{} {}", utc_now(), text);
  run.command_json =
      Json{{"argv", command.empty() ? Json::array() : Json(text)}, {"started", utc_now()}}.dump();
  run.fingerprint = {{"numeric version", std::to_string(kNumericVersion)}};
  return run;
}

std::vector<std::pair<std::string, std::string>> file_lines(const input::ModelFiles& files) {
  std::vector<std::pair<std::string, std::string>> lines;
  const std::string revision = revision_of(files);
  if (!revision.empty()) {
    lines.emplace_back("revision", revision);
  }
  for (const input::Shard& shard : files.shards) {
    // Of one commit a file is the same wherever it is read from: a machine may have it in a cache.
    const std::string when =
        revision.empty() ? ", modified " + modification_time(shard.identity.version) : "";
    lines.emplace_back(
        "file " + shard.file_name,
        fmt::format("{} bytes{}, header {}", shard.identity.bytes, when, shard.header_sha256));
  }
  return lines;
}

Json add_inputs(const input::ModelFiles& files, std::string_view side,
                results::RunDescription& run) {
  for (auto& [name, value] : file_lines(files)) {
    run.fingerprint.emplace_back(std::string(side) + name, std::move(value));
  }
  Json inputs = Json::array();
  for (const input::Shard& shard : files.shards) {
    inputs.push_back({{"path", printable(shard.path)},
                      {"bytes", shard.identity.bytes},
                      {"version", printable(shard.identity.version)},
                      {"header_sha256", shard.header_sha256}});
    if (const std::string revision = revision_of(files); !revision.empty()) {
      inputs.back()["revision"] = revision;
    }
  }
  return inputs;
}

Json all_settings(Json own, const RunSettings& settings) {
  own["threads"] = settings.threads;
  own["ram_budget_bytes"] = settings.ram_budget;
  own["ram_budget_source"] = settings.provenance.ram_budget_source;
  own["worker"] =
      settings.worker.claims ? Json("claims") : Json{settings.worker.index, settings.worker.count};
  return own;
}

Json environment(const RunSettings& settings, const input::BulkReader& reader,
                 const std::vector<std::unique_ptr<Backend>>& backends, std::int32_t host_threads) {
  Json devices = Json::array();
  for (const auto& backend : backends) {
    devices.push_back(back_end_json(*backend));
  }
  if (backends.empty()) {
    devices.push_back({{"backend", "cpu"}, {"concurrent_calls", host_threads}});
  }
  Json environment = {
      {"program", "vindex"},
      {"version", program_version()},
      {"commit", program_commit()},
      {"compiler", compiler_text()},
      {"back_ends", std::move(devices)},
      {"reading",
       {{"engine", reader.engine()}, {"direct_reads_refused", reader.statistics().refused}}}};
  if (!settings.provenance.unset_variables.empty()) {
    environment["unset_variables"] = settings.provenance.unset_variables;
  }
  return environment;
}

std::string with_reading(const std::string& environment_json, const input::BulkReader& reader) {
  const input::ReadStatistics read = reader.statistics();
  const auto megabytes = [](double bytes) { return 1e-6 * bytes; };
  Json document = Json::of(parse_json(environment_json, "the environment", {}));
  document["reading"]["engine"] = reader.engine();
  document["reading"]["direct_reads_refused"] = read.refused;
  document["reading"]["direct_bytes"] = read.direct_bytes;
  document["reading"]["cached_bytes"] = read.cached_bytes;
  document["reading"]["buffered_bytes"] = read.buffered_bytes;
  document["reading"]["unknown_bytes"] = read.unknown_bytes;
  document["reading"]["preferred"] = read.prefers_buffered ? "file cache" : "direct";
  document["reading"]["timed_direct_mb_s"] = megabytes(read.direct_rate);
  document["reading"]["timed_buffered_mb_s"] = megabytes(read.buffered_rate);
  return document.dump(1);
}

Json shape_json(const model::ModelShape& shape) {
  return {{"architecture", printable(shape.architecture)},
          {"layers", optional_number(shape.layers)},
          {"experts", optional_number(shape.experts)},
          {"experts_per_token", optional_number(shape.experts_per_token)},
          {"shared_experts", optional_number(shape.shared_experts)},
          {"dense_first_layers", optional_number(shape.dense_first_layers)},
          {"quantisation", printable(shape.quantisation)}};
}

void add_warnings(const input::ModelFiles& files, const model::ModelIndex& index,
                  std::string_view side, std::vector<std::string>& messages) {
  for (const auto* warnings : {&files.warnings, &index.warnings}) {
    for (const Warning& warning : *warnings) {
      messages.push_back(fmt::format("warning {}: {}{}", warning.id, side, warning.text));
    }
  }
}

std::string mode_name(SpectrumMode mode) {
  switch (mode) {
    case SpectrumMode::kFast:
      return "fast";
    case SpectrumMode::kStrict:
      return "strict";
    case SpectrumMode::kDefault:
      break;
  }
  return "default";
}

}  // namespace vindex::engine
