// Owns finding models, running each, and writing its documents.
#include "measure_fleet.hpp"

#include "commands/spectra/measure_run.hpp"
#include "core/files/atomic_file.hpp"
#include "core/files/path_kind.hpp"
#include "core/files/reading_bounds.hpp"
#include "core/files/small_file.hpp"
#include "core/json/json.hpp"
#include "core/text/secrets.hpp"
#include "input/model_files.hpp"
#include "input/open/open_model.hpp"
#include "input/stores/open_store.hpp"
#include "organ/manifest/manifest_read.hpp"
#include "organ/opening/organ_model.hpp"
#include <vindex/error.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <map>
#include <set>
#include <system_error>

namespace vindex::fleet {

namespace {

namespace fs = std::filesystem;

/// Of one model, of which the seconds are read again.
constexpr std::size_t kLargestReport = std::size_t{64} << 20U;

/// Number of a split, from 1, and the name without it; nothing where `stem` names none.
std::optional<std::pair<std::string, int>> split_of(const std::string& stem) {
  constexpr std::string_view kForm = "-00000-of-00000";  // 0: any digit
  if (stem.size() <= kForm.size()) {
    return std::nullopt;
  }
  const std::string_view end = std::string_view(stem).substr(stem.size() - kForm.size());
  const bool fits = std::equal(end.begin(), end.end(), kForm.begin(), [](char c, char form) {
    return form == '0' ? c >= '0' && c <= '9' : c == form;
  });
  if (!fits) {
    return std::nullopt;
  }
  return std::pair(stem.substr(0, stem.size() - kForm.size()),
                   std::stoi(std::string(end.substr(1, 5))));
}

/// A listing that broke off would be one of fewer models.
void require_listed(const fs::path& folder, const std::error_code& error) {
  if (error) {
    throw SystemError("E-FOLDER-READ", error.value(),
                      fmt::format("cannot list {}", printable(folder.string())));
  }
}

/// The models directly in `folder`. False: it is an extracted one, with nothing else to look for
/// in the folders within.
bool add_models_in(const fs::path& folder, std::vector<std::string>& found) {
  expect_readable_place(folder.string());
  if (organ::holds_organs(folder.string())) {
    found.push_back(folder.string());
    return false;
  }
  bool has_safetensors = false;
  std::error_code error;
  fs::directory_iterator entry(folder, fs::directory_options::skip_permission_denied, error);
  for (; !error && entry != fs::directory_iterator(); entry.increment(error)) {
    if (is_folder(entry->path())) {
      continue;
    }
    const fs::path& path = entry->path();
    has_safetensors = has_safetensors || path.extension() == ".safetensors";
    if (path.extension() == ".gguf") {
      const auto split = split_of(path.stem().string());
      if (!split || split->second == 1) {
        found.push_back(path.string());
      }
    }
  }
  require_listed(folder, error);
  if (has_safetensors) {
    found.push_back(folder.string());
  }
  return true;
}

std::string last_part(const fs::path& path) {
  const fs::path clean = path.has_filename() ? path : path.parent_path();
  if (clean.extension() != ".gguf") {
    const std::string name = clean.filename().string();
    return name.empty() || name == "." || name == ".."
               ? fs::weakly_canonical(clean).filename().string()
               : name;
  }
  // `..gguf` is called ".", which would be a folder's name and no file's.
  std::string stem = clean.stem().string();
  if (const auto split = split_of(stem)) {
    stem = split->first;
  }
  return stem.find_first_not_of('.') == std::string::npos ? clean.filename().string() : stem;
}

/// What the container says of how many tensors there are: split.tensors.count, or -1.
std::int64_t declared_tensors(const input::ModelFiles& files) {
  const auto found = std::find_if(files.keys.begin(), files.keys.end(), [](const gguf::Key& key) {
    return key.name == "split.tensors.count";
  });
  if (found == files.keys.end() || files.shards.size() < 2) {
    return -1;
  }
  if (const auto* number = std::get_if<std::int64_t>(&found->value)) {
    return *number;
  }
  const auto* number = std::get_if<std::uint64_t>(&found->value);
  return number == nullptr ? -1 : static_cast<std::int64_t>(*number);
}

void write_text(const std::string& path, const std::string& text) {
  AtomicFile file(path);
  file.write(0, std::as_bytes(std::span(text)));
  file.publish();
}

}  // namespace

std::vector<std::string> find_models(const std::string& address) {
  const auto local = input::local_path(address);
  if (!local) {
    return {address};
  }
  const std::string& path = *local;
  const PathKind kind = path_kind(path);
  if (kind == PathKind::kAbsent) {
    throw MissingInputError("E-ORGAN-FLEET", printable(path) + " does not exist");
  }
  if (kind != PathKind::kFolder) {
    return {path};
  }
  std::error_code error;
  std::vector<std::string> found;
  if (!add_models_in(path, found)) {
    return found;
  }
  auto entries =
      fs::recursive_directory_iterator(path,
                                       fs::directory_options::skip_permission_denied |
                                           fs::directory_options::follow_directory_symlink,
                                       error);
  for (; !error && entries != fs::recursive_directory_iterator(); entries.increment(error)) {
    if (!is_folder(entries->path())) {
      continue;
    }
    if (entries->path().filename().string().starts_with('.') || entries.depth() > 16) {
      entries.disable_recursion_pending();
      continue;
    }
    if (!add_models_in(entries->path(), found)) {
      entries.disable_recursion_pending();
    }
  }
  require_listed(path, error);
  if (found.empty()) {
    throw MissingInputError("E-ORGAN-FLEET", printable(path) +
                                                 ": no .gguf file and no folder with .safetensors "
                                                 "files at or below it");
  }
  std::sort(found.begin(), found.end());
  return found;
}

std::vector<NamedModel> named_models(const std::vector<std::string>& paths) {
  std::vector<NamedModel> models;
  std::vector<fs::path> parents;
  for (const std::string& path : paths) {
    models.push_back({last_part(without_secrets(path)), path});
    parents.push_back(fs::weakly_canonical(path).parent_path());
  }
  // Parents distinguish equal names; the number does where not even they do.
  for (int round = 0; round < 8; ++round) {
    std::map<std::string, int> uses;
    for (const NamedModel& model : models) {
      ++uses[model.name];
    }
    for (std::size_t i = 0; i < models.size(); ++i) {
      if (uses[models[i].name] > 1 && parents[i].has_filename()) {
        models[i].name = parents[i].filename().string() + "-" + models[i].name;
        parents[i] = parents[i].parent_path();
      }
    }
  }
  std::set<std::string> taken;
  for (NamedModel& model : models) {
    const std::string base = model.name;
    for (int number = 2; !taken.insert(model.name).second; ++number) {
      model.name = fmt::format("{}-{}", base, number);
    }
  }
  return models;
}

std::optional<ModelMeasure> measure_model(commands::SpectraSettings settings,
                                          const std::string& name, const engine::RunHooks& hooks,
                                          engine::RunOutcome& outcome) {
  if (settings.run.options.mode == SpectrumMode::kFast) {
    throw UsageError("E-ORGAN-MODE",
                     "theta needs the whole spectrum, which fast leaves out: take "
                     "--mode default or strict");
  }
  settings.class_of = [](std::string_view tensor) {
    return std::string(organ::class_name(organ::classify(tensor).organ_class));
  };
  settings.in_file_order = true;
  const bool is_folder = organ::is_organ_folder(settings.run.model);
  if (is_folder) {
    settings.open_files = [path = settings.run.model](const input::OpenOptions& options) {
      return organ::open_organ_model(path, options);
    };
  }
  outcome = commands::measure_model(settings, hooks);
  if (outcome.stopped || !settings.run.worker.is_single()) {
    return std::nullopt;
  }
  ModelMeasure model = read_model_measure(settings.run.output);
  model.name = name;
  model.seconds = outcome.measured_now > 0 ? outcome.seconds : kNaN;
  const input::OpenOptions opening = {.model_config = settings.run.model_config,
                                      .adapter = settings.indexing.lora};
  const input::ModelFiles files = is_folder ? organ::open_organ_model(settings.run.model, opening)
                                            : input::open_model(settings.run.model, opening);
  model.attention = model::architecture_facts(files);
  model.tensors_total = static_cast<std::int64_t>(files.tensors.size());
  for (const input::Shard& shard : files.shards) {
    model.bytes += shard.identity.bytes;
  }
  // Stored names are counted by the spaces between them; those within a name are none.
  for (const input::StoredTensor& tensor : files.tensors) {
    model.stored_counted -= std::count(tensor.name.begin(), tensor.name.end(), ' ');
  }
  // A folder of organs may be a selection, which its manifest has counted.
  require_all_counted(model, is_folder ? -1 : declared_tensors(files));
  return model;
}

double earlier_seconds(const std::string& folder, const std::string& name) {
  const std::string text =
      read_small_input(fs::path(folder) / (name + ".measure.json"), kLargestReport);
  try {
    const JsonValue document = parse_json(text, name, {});
    const JsonValue* const seconds = document.find("seconds");
    return seconds == nullptr ? kNaN : seconds->as_number().value_or(kNaN);
  } catch (const FormatError&) {
    return kNaN;  // an interrupted run may have left less than a document
  }
}

void write_reports(const std::string& folder, std::span<const FleetModel> models) {
  std::error_code error;
  fs::create_directories(folder, error);
  if (error) {
    throw_output_error("E-OUT-CREATE", error.value(), "cannot create folder " + printable(folder));
  }
  const fs::path base(folder);
  for (const FleetModel& model : models) {
    if (model.measure) {
      write_text(base / (model.name + ".measure.json"), measure_json(*model.measure));
    }
  }
  write_text(base / "z_report_complete.json", groups_json(models));
  write_text(base / "z_measure_report.json", ranking_json(models));
  write_text(base / "dissection_report.json", dissection_json(models));
  write_text(base / "report.md", report_markdown(models));
}

}  // namespace vindex::fleet
