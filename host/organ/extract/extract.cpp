// Owns extracting from GGUF.
#include "extract.hpp"

#include "extract_safetensors.hpp"
#include "extraction.hpp"

#include "core/digest.hpp"
#include "core/files/byte_source.hpp"
#include "core/process/stop.hpp"
#include "core/text/utf8.hpp"
#include "input/open/open_model.hpp"
#include "input/stores/open_store.hpp"
#include "organ/manifest/manifest_read.hpp"
#include "organ/opening/open_gguf.hpp"
#include "organ/writing/organ_file.hpp"
#include "organ/writing/write_organs.hpp"
#include <vindex/error.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <utility>

namespace vindex::organ {
namespace {

/// Whether `path` names a model of safetensors: by the first bytes of a file, by what a folder
/// holds.
bool is_safetensors(const std::string& path) {
  const auto store = input::open_store(path);
  if (!store->file().empty()) {
    return beginning_of(*store->open(store->file()), 4) != "GGUF" &&
           store->file().ends_with(".safetensors");
  }
  const std::vector<input::StoreMember> members = store->list();
  return std::any_of(members.begin(), members.end(), [](const input::StoreMember& member) {
    return !member.folder && (member.name.ends_with(".safetensors") ||
                              member.name.ends_with(".safetensors.index.json"));
  });
}

std::vector<ManifestTensor> wanted_tensors(const GgufSource& source, const OrganFilter& filter) {
  std::vector<ManifestTensor> wanted;
  for (const OrganTensor& tensor : source.tensors()) {
    require_utf8_name(tensor.name, printable(source.path()));
    if (filter.wants(tensor.name)) {
      wanted.push_back({tensor, tensor.split});
    }
  }
  return wanted;
}

void write_organs(const GgufSource& source, const ExtractSettings& settings,
                  std::vector<ManifestTensor>& tensors, write::OutputFolder& folder,
                  ExtractReport& report) {
  OrganNames names;
  for (ManifestTensor& tensor : tensors) {
    tensor.file = names.path_of(tensor.name, ".bin");
  }
  AtomicFile& probe = folder.create("kv.probe");
  const bool share = write::can_share_blocks(*source.files().front().source, probe);
  folder.drop(probe);
  const OrganOrigin origin = organ_origin(source);
  report.cloned = for_each_tensor(tensors, settings.threads, settings.stop,
                                  [&](ManifestTensor& tensor, write::RangeCopier& copier) {
                                    const input::Shard& file = source.files()[tensor.split];
                                    return write_organ(folder.create(tensor.file), tensor, origin,
                                                       {source.splits()[tensor.split].file_name,
                                                        file.header_sha256, file.source.get()},
                                                       share, copier);
                                  });
}

void digest_tensors(const GgufSource& source, const ExtractSettings& settings,
                    std::vector<ManifestTensor>& tensors) {
  for_each_tensor(tensors, settings.threads, settings.stop,
                  [&](ManifestTensor& tensor, write::RangeCopier& copier) {
                    auto digest = copier.digest(*source.files()[tensor.split].source, tensor.offset,
                                                tensor.bytes);
                    tensor.sha256 = digest.value_or("");
                    return digest.has_value();
                  });
}

void extract_gguf(const ExtractSettings& settings, const OrganFilter& filter,
                  ExtractReport& report) {
  const auto source = open_gguf(settings.model);
  report.warnings = source->warnings();
  report.tensors_total = source->tensors().size();
  std::vector<ManifestTensor> tensors = wanted_tensors(*source, filter);
  if (report.tensors_total > 0) {
    require_some(tensors, settings, filter);
  }
  count_tensors(tensors, report);
  for (const input::Shard& file : source->files()) {
    if (settings.by_reference && !is_utf8(absolute_path(file.path))) {
      throw FormatError("E-ORGAN-NAME", printable(file.path),
                        "a path that is not UTF-8 cannot stand in a manifest");
    }
  }
  write::OutputFolder folder(settings.output);
  if (!settings.by_reference) {
    folder.require_space(report.bytes);
    write_organs(*source, settings, tensors, folder, report);
  } else if (settings.digests) {
    digest_tensors(*source, settings, tensors);
  }
  write_model_manifest(*source, tensors, source->tensors().size(), context_of(settings, filter),
                       folder);
  source->require_unchanged();
  throw_if_stopped(settings.stop);
  folder.publish();
}

}  // namespace

ExtractReport extract(const ExtractSettings& settings) {
  const auto start = std::chrono::steady_clock::now();
  const OrganFilter filter(settings);
  if (is_organ_folder(settings.model)) {
    throw UsageError("E-ORGAN-EXTRACTED", fmt::format("{}: is a model that was taken apart already",
                                                      printable(settings.model)));
  }
  ExtractReport report;
  try {
    (is_safetensors(settings.model) ? extract_safetensors : extract_gguf)(settings, filter, report);
  } catch (const Stopped&) {
    report.stopped = true;
  }
  report.seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  return report;
}

namespace {

struct WantedModel {
  std::vector<ManifestFile> files;
  std::vector<std::string> tensors;  ///< names of those that are selected
};

template <typename Tensors>
WantedModel wanted_model(const std::vector<input::Shard>& files, const Tensors& tensors,
                         const OrganFilter& filter) {
  WantedModel model;
  for (const input::Shard& file : files) {
    ManifestFile& own = model.files.emplace_back();
    own.name = file.file_name;
    own.bytes = file.identity.bytes;
    own.version = file.identity.version;
    own.header_sha256 = file.header_sha256;
  }
  for (const auto& tensor : tensors) {
    if (filter.wants(tensor.name)) {
      model.tensors.push_back(tensor.name);
    }
  }
  return model;
}

bool is_same(const Manifest& manifest, const WantedModel& wanted, const ExtractSettings& settings) {
  const auto same_file = [](const ManifestFile& a, const ManifestFile& b) {
    return a.name == b.name && a.bytes == b.bytes && a.version == b.version &&
           a.header_sha256 == b.header_sha256;
  };
  const auto is_stored = [&](const ManifestTensor& tensor) {
    return tensor.file.empty() == settings.by_reference &&
           (!settings.digests || !tensor.sha256.empty());
  };
  return std::equal(manifest.files.begin(), manifest.files.end(), wanted.files.begin(),
                    wanted.files.end(), same_file) &&
         std::equal(manifest.tensors.begin(), manifest.tensors.end(), wanted.tensors.begin(),
                    wanted.tensors.end(),
                    [](const ManifestTensor& a, const std::string& b) { return a.name == b; }) &&
         std::all_of(manifest.tensors.begin(), manifest.tensors.end(), is_stored);
}

}  // namespace

ExtractReport extracted_before(const ExtractSettings& settings) {
  const OrganFilter filter(settings);
  const Manifest manifest = read_manifest(organ_folder_of(settings.output));
  WantedModel wanted;
  if (is_safetensors(settings.model)) {
    const input::ModelFiles model = input::open_model(
        settings.model, {.model_config = {}, .adapter = true, .stop = settings.stop});
    wanted = wanted_model(model.shards, model.tensors, filter);
  } else {
    const auto source = open_gguf(settings.model);
    wanted = wanted_model(source->files(), source->tensors(), filter);
  }
  if (!is_same(manifest, wanted, settings)) {
    throw OutputError("E-OUTPUT-NOT-EMPTY",
                      fmt::format("{} holds organs of another model, version or selection; name a "
                                  "new folder, or remove it first",
                                  printable(settings.output)));
  }
  ExtractReport report;
  report.tensors_total = manifest.tensors_total;
  count_tensors(manifest.tensors, report);
  return report;
}

}  // namespace vindex::organ
