// Owns the files of a trace under way: who may use the folder, states, publishing.
#include "trace_folder.hpp"

#include "joined_dump.hpp"

#include "core/files/atomic_file.hpp"
#include "core/files/byte_source.hpp"
#include "core/files/path_kind.hpp"
#include "core/files/temporary_files.hpp"
#include "core/integers.hpp"
#include "core/json/json.hpp"
#include "core/json/json_document.hpp"
#include "core/text/text_parts.hpp"
#include "input/local/file_source.hpp"
#include "model/dump/dump.hpp"
#include "model/routers/carried_rule.hpp"
#include "results/schema/file_description.hpp"
#include <vindex/error.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <exception>
#include <filesystem>
#include <string_view>
#include <system_error>
#include <unistd.h>

namespace vindex::commands {

namespace {

namespace fs = std::filesystem;

constexpr OutputErrorIds kFolderErrors = {"E-OUTPUT-WRITE", "E-OUTPUT-WRITE", "E-OUTPUT-WRITE",
                                          "E-OUTPUT-WRITE"};
constexpr const char* kSchema = "vindex-trace-parts/1";
constexpr std::string_view kStream = "stream.";
constexpr std::uint64_t kMaxStateBytes = 16U << 20U;
/// Of rows that are written at a time, about.
constexpr std::int64_t kPieceValues = 1 << 20;

std::string without_slashes(std::string path) {
  while (path.size() > 1 && path.ends_with('/')) {
    path.pop_back();
  }
  return path;
}

/// Whether `name` is that of a file of a dump.
bool is_dump_file(const fs::path& name) {
  if (name == model::kCarriedRuleFile) {
    return true;
  }
  const std::string extension = name.extension().string();
  if (extension != ".npy" && extension != ".safetensors") {
    return false;
  }
  const std::string stem = name.stem().string();
  if (stem == "token_ids" || stem == "prompt" || stem == model::kLogitsRole) {
    return true;
  }
  const std::size_t dot = stem.rfind('.');
  const std::string_view role = std::string_view(stem).substr(0, dot);
  return dot != std::string::npos &&
         whole_number<std::uint32_t>(std::string_view(stem).substr(dot + 1)).has_value() &&
         (role == model::kHiddenRole || role == model::kMlpRole ||
          role == model::kRouterLogitsRole);
}

std::vector<fs::path> entries_of(const std::string& folder) {
  std::vector<fs::path> names;
  std::error_code error;
  for (fs::directory_iterator entry(folder, error), end; !error && entry != end;
       entry.increment(error)) {
    names.push_back(entry->path());
  }
  if (error) {
    throw SystemError("E-OUTPUT-WRITE", error.value(), "cannot list " + printable(folder));
  }
  return names;
}

std::string text_of(const std::string& path) {
  const auto source = input::open_file_source(path);
  if (source->size() > kMaxStateBytes) {
    throw FormatError("E-TRACE-STATE", printable(path), "not a file that a trace left");
  }
  return whole_text(*source);
}

void write_text(const std::string& path, const std::string& text) {
  AtomicFile file(path, kFolderErrors);
  file.write(0, std::as_bytes(std::span(text)));
  file.publish();
}

bool is_there(const std::string& path) {
  std::error_code error;
  return fs::exists(fs::symlink_status(path, error));
}

void rename_path(const std::string& from, const std::string& to) {
  if (std::rename(from.c_str(), to.c_str()) != 0) {
    throw_output_error(kFolderErrors.rename, errno, "cannot rename to " + printable(to));
  }
}

TraceFingerprint read_fingerprint(const std::string& path) {
  const JsonValue document = parse_json(text_of(path), printable(path), {});
  const JsonValue* schema = document.find("schema");
  const JsonValue* lines = document.find("fingerprint");
  if (schema == nullptr || schema->as_string() == nullptr || *schema->as_string() != kSchema ||
      lines == nullptr || lines->as_object() == nullptr) {
    throw FormatError("E-TRACE-STATE", printable(path), "not a file that a trace left");
  }
  TraceFingerprint fingerprint;
  for (const auto& [name, value] : *lines->as_object()) {
    if (value.as_string() == nullptr) {
      throw FormatError("E-TRACE-STATE", printable(path), "not a file that a trace left");
    }
    fingerprint.emplace_back(name, *value.as_string());
  }
  return fingerprint;
}

/// `path` lies there and may be replaced by a dump in one file. Errors: as require_free_dump().
void require_dump_file(const std::string& path, bool replace) {
  std::error_code error;
  bool is_dump = fs::is_regular_file(fs::symlink_status(path, error));
  try {
    is_dump = is_dump && model::open_dump(path).index.warnings.empty();
  } catch (const FormatError&) {
    is_dump = false;
  }
  if (!is_dump) {
    throw OutputError("E-OUTPUT-NOT-A-DUMP",
                      fmt::format("{} is there and no dump: not replaced", printable(path)));
  }
  if (!replace) {
    throw OutputError("E-OUTPUT-EXISTS",
                      fmt::format("{} is a dump; --force replaces it", printable(path)));
  }
}

/// Removes OUTPUT.parts of a run that ended after it had given the dump its name: nothing in it is
/// worth keeping, and no other run would come by. The caller has an error of its own to tell.
void remove_remains(const std::string& output) noexcept {
  const std::string folder = output + ".parts";
  try {
    if (!is_there(folder + "/run.json") || is_there(folder + "/dump")) {
      return;
    }
    const results::LockFile lock(folder + "/run.lock");
    for (const fs::path& path : entries_of(folder)) {
      std::error_code ignored;
      if (path.filename() != "run.lock" && path.filename() != "run.json") {
        fs::remove_all(path, ignored);
      }
    }
    remove_file(folder + "/run.json");
  } catch (const std::exception&) {
    return;
  }
  ::rmdir(folder.c_str());
}

}  // namespace

void require_free_dump(const std::string& given, bool replace) {
  const std::string output = without_slashes(given);
  const std::string parent = folder_of(output);
  std::error_code error;
  if (!is_there(output)) {
    if (!fs::is_directory(parent, error)) {
      throw OutputError("E-OUTPUT-CREATE", fmt::format("cannot create {}: {} is not a folder",
                                                       printable(output), printable(parent)));
    }
    return;
  }
  if (is_one_file(output)) {
    require_dump_file(output, replace);
    return;
  }
  if (!fs::is_directory(output, error)) {
    throw OutputError("E-OUTPUT-NOT-A-FOLDER",
                      fmt::format("{} is not a folder; a dump is one", printable(output)));
  }
  const std::vector<fs::path> entries = entries_of(output);
  const auto foreign = std::find_if(entries.begin(), entries.end(), [](const fs::path& path) {
    std::error_code ignored;
    return !fs::is_regular_file(fs::symlink_status(path, ignored)) ||
           !is_dump_file(path.filename());
  });
  if (foreign != entries.end()) {
    throw OutputError("E-OUTPUT-NOT-A-DUMP",
                      fmt::format("{} holds {}, which is no part of a dump: not replaced",
                                  printable(output), printable(foreign->filename().string())));
  }
  if (!entries.empty() && !replace) {
    remove_remains(output);
    throw OutputError("E-OUTPUT-EXISTS",
                      fmt::format("{} holds a dump; --force replaces it", printable(output)));
  }
}

TraceFolder::TraceFolder(std::string output, bool replace, bool restart,
                         const TraceFingerprint& fingerprint)
    : output_(without_slashes(std::move(output))), folder_(output_ + ".parts"), replace_(replace) {
  require_free_dump(output_, replace_);
  take_folder(restart, fingerprint);
  read_state();
  remove_stale_temporaries_in(folder_);
  remove_others();
}

TraceFolder::~TraceFolder() {
  if (lock_ != nullptr && layers_ == 0 && !published_) {
    remove_everything();
  }
}

void TraceFolder::take_folder(bool restart, const TraceFingerprint& fingerprint) {
  const std::string run = folder_ + "/run.json";
  std::error_code error;
  if (is_there(folder_) && !fs::is_directory(folder_, error)) {
    throw OutputError("E-OUT-FOREIGN", printable(folder_) + " is not a folder of a trace");
  }
  if (fs::create_directory(folder_, error); error) {
    throw_output_error(kFolderErrors.create, error.value(), "cannot create " + printable(folder_));
  }
  const bool is_ours = is_there(run);
  const std::vector<fs::path> entries = entries_of(folder_);
  const bool is_foreign =
      !is_ours && std::any_of(entries.begin(), entries.end(), [](const fs::path& path) {
        return !path.filename().string().starts_with("run.");
      });
  if (is_foreign) {
    throw OutputError(
        "E-OUT-FOREIGN",
        fmt::format("{} holds something that no trace left; move it away", printable(folder_)));
  }
  lock_ = std::make_unique<results::LockFile>(folder_ + "/run.lock");
  if (is_ours && !restart) {
    results::require_same_fingerprint(fingerprint, read_fingerprint(run), folder_,
                                      "--restart begins anew");
  } else {
    clear();
    Json lines = Json::object();
    for (const auto& [name, value] : fingerprint) {
      lines[name] = value;
    }
    write_text(run, Json({{"schema", kSchema}, {"fingerprint", lines}}).dump(1) + "\n");
  }
  if (fs::create_directory(dump_folder(), error); error) {
    throw_output_error(kFolderErrors.create, error.value(),
                       "cannot create " + printable(dump_folder()));
  }
}

/// All but the lock and the run's description, without which the folder would be nobody's: the
/// state first, so that a run that ends meanwhile leaves none that names arrays which are gone.
void TraceFolder::clear() const {
  remove_file(folder_ + "/state.json");
  sync_folder(folder_, kFolderErrors.folder);
  for (const fs::path& path : entries_of(folder_)) {
    std::error_code error;
    const bool stays = path.filename() == "run.lock" || path.filename() == "run.json";
    if (!stays && fs::remove_all(path, error) > 0 && error) {
      throw_output_error(kFolderErrors.create, error.value(),
                         "cannot remove " + printable(path.string()));
    }
  }
}

void TraceFolder::read_state() {
  const std::string path = folder_ + "/state.json";
  if (!is_there(path)) {
    return;
  }
  const JsonValue document = parse_json(text_of(path), printable(path), {});
  const JsonValue* layers = document.find("layers");
  const JsonValue* complete = document.find("complete");
  constexpr std::uint64_t kMost = 1U << 20U;
  if (layers == nullptr || layers->as_unsigned() == nullptr || *layers->as_unsigned() > kMost ||
      complete == nullptr || complete->as_bool() == nullptr) {
    throw FormatError("E-TRACE-STATE", printable(path), "not a file that a trace left");
  }
  layers_ = static_cast<std::int32_t>(*layers->as_unsigned());
  complete_ = *complete->as_bool();
  if (complete_ && entries_of(dump_folder()).empty()) {
    // It was published, and the process ended before it had removed this.
    layers_ = 0;
    complete_ = false;
    remove_file(path);
  }
}

void TraceFolder::write_state() const {
  write_text(folder_ + "/state.json",
             Json({{"layers", layers_}, {"complete", complete_}}).dump() + "\n");
}

/// Streams that are not the one of the state.
void TraceFolder::remove_others() const {
  for (const fs::path& path : entries_of(folder_)) {
    const std::string name = path.filename().string();
    if (name.starts_with(kStream) && (layers_ == 0 || path != stream_path(layers_))) {
      remove_file(path.string());
    }
  }
}

std::string TraceFolder::stream_path(std::int32_t layers) const {
  return fmt::format("{}/{}{}", folder_, kStream, layers);
}

void TraceFolder::finish_layers(std::int32_t layers) {
  sync_folder(folder_, kFolderErrors.folder);
  layers_ = layers;
  write_state();
  remove_others();
}

void TraceFolder::keep(const TokenRows& rows, std::int32_t layers) {
  const std::string path = stream_path(layers);
  remove_file(path);
  AtomicFile file(path, path, kFolderErrors);
  const std::int64_t step =
      std::max<std::int64_t>(1, kPieceValues / std::max<std::int64_t>(1, rows.width()));
  std::vector<float> values;
  std::uint64_t at = 0;
  for (std::int64_t first = 0; first < rows.tokens(); first += step) {
    const std::int64_t count = std::min(step, rows.tokens() - first);
    values.resize(as_size(count) * as_size(rows.width()));
    rows.read(first, count, values.data());
    file.write(at, std::as_bytes(std::span(values)));
    at += values.size() * sizeof(float);
  }
  file.flush();
  file.rename();
  finish_layers(layers);
}

void TraceFolder::refresh() { lock_->refresh(); }

void TraceFolder::publish(std::span<const DumpArrayPlan> joined) {
  if (!complete_) {
    sync_folder(dump_folder(), kFolderErrors.folder);
    complete_ = true;
    write_state();
  }
  std::string dump = dump_folder();
  if (!joined.empty()) {
    dump = folder_ + "/joined.safetensors";
    join_dump(joined, dump_folder(), dump);
  }
  const std::string parent = folder_of(output_);
  require_free_dump(output_, replace_);  // it may have come meanwhile
  if (is_there(output_)) {
    const std::string replaced = folder_ + "/replaced";
    std::error_code error;
    fs::remove_all(replaced, error);
    rename_path(output_, replaced);
  }
  rename_path(dump, output_);
  sync_folder(parent, kFolderErrors.folder);
  published_ = true;
  remove_everything();
}

/// What cannot be removed is no part of the result. The description last: without it what is left
/// by a run that ends meanwhile would be nobody's.
void TraceFolder::remove_everything() noexcept {
  try {
    clear();
    remove_file(folder_ + "/run.json");
  } catch (const std::exception&) {
  }
  lock_.reset();
  ::rmdir(folder_.c_str());
}

}  // namespace vindex::commands
