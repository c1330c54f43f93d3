// Owns the order of a verification: files into groups, rules of each file, of each group, of
// values.
#include "verify.hpp"

#include "lint_file.hpp"
#include "lint_layout.hpp"
#include "lint_model.hpp"
#include "lint_set.hpp"
#include "lint_values.hpp"

#include "input/gguf/gguf_set.hpp"
#include "input/model_folder.hpp"
#include "input/stores/open_store.hpp"
#include "organ/manifest/manifest.hpp"
#include "organ/manifest/manifest_read.hpp"
#include <vindex/error.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <map>

namespace vindex::organ {
namespace {

/// Files of one model, in order; a set that lacks members has fewer.
struct FindingGroup {
  std::vector<std::string> names;
  std::vector<std::string> missing;
};

/// `name` and the rest of its set.
FindingGroup group_of(input::ModelStore& store, const std::string& name) {
  const auto split = input::parse_split_name(name);
  if (!split || split->count <= 1) {
    return {{name}, {}};
  }
  FindingGroup group;
  for (std::uint64_t i = 1; i <= split->count; ++i) {
    const std::string member = split->file_name(i);
    (input::member_exists(store, member) ? group.names : group.missing).push_back(member);
  }
  return group;
}

std::vector<FindingGroup> groups_of(input::ModelStore& store) {
  if (!store.file().empty()) {
    return {group_of(store, store.file())};
  }
  std::map<std::string, FindingGroup> groups;
  for (const input::StoreMember& member : store.list()) {
    if (member.folder || !member.name.ends_with(".gguf")) {
      continue;
    }
    const auto split = input::parse_split_name(member.name);
    groups.emplace(split ? split->prefix + "-of" : member.name, group_of(store, member.name));
  }
  std::vector<FindingGroup> list;
  for (auto& [unused, group] : groups) {
    list.push_back(std::move(group));
  }
  if (list.empty()) {
    input::throw_empty_folder(store, "no *.gguf");
  }
  return list;
}

void verify_group(input::ModelStore& store, const FindingGroup& group,
                  const VerifySettings& settings, bool as_model, VerifyReport& report) {
  Findings findings(report);
  std::vector<LintFile> files;
  for (const std::string& name : group.names) {
    LintFile& file = files.emplace_back();
    file.path = store.location(name);
    file.source = store.open(name);
    report.files.push_back(file.path);
    findings.set_file(file.path);
    read_lint_file(file, findings);
    lint_layout(file, findings);
    file.source->header_is_read();
    findings.finish_file();
    report.tensors += file.tensors.size();
  }
  for (const std::string& name : group.missing) {
    findings.set_file(store.location(name));
    findings.error("V-SPLIT-MISSING", "", "is absent: a loader asks for the whole set", "fetch it");
    findings.finish_file();
  }
  if (as_model && group.missing.empty()) {
    lint_set(files, findings);
    lint_model(files, findings);
  }
  if (settings.check_tensors) {
    lint_values(files, settings.threads, settings.stop, findings, report);
  }
}

/// Every organ file of an extracted folder by itself.
void verify_organs(const std::string& path, const VerifySettings& settings, VerifyReport& report) {
  const std::string folder = organ_folder_of(path);
  const Manifest manifest = read_manifest(folder);
  for (const ManifestTensor& tensor : manifest.tensors) {
    if (tensor.file.empty() || tensor.file.ends_with(".safetensors")) {
      continue;
    }
    const auto store = input::open_store(folder + "/" + tensor.file);
    verify_group(*store, {{store->file()}, {}}, settings, false, report);
  }
}

}  // namespace

VerifyReport verify(const VerifySettings& settings) {
  VerifyReport report;
  if (is_organ_folder(settings.path)) {
    verify_organs(settings.path, settings, report);
  } else {
    const auto store = input::open_store(settings.path);
    for (const FindingGroup& group : groups_of(*store)) {
      verify_group(*store, group, settings, true, report);
    }
  }
  report.stopped = settings.stop.stop_requested();
  return report;
}

}  // namespace vindex::organ
