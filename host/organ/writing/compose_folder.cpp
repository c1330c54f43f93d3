// Owns the keys of a model that lies in no file, and its organs, copied or made.
#include "compose_folder.hpp"

#include "write_organs.hpp"

#include "core/files/path_kind.hpp"
#include "core/process/stop.hpp"
#include "organ/opening/organ_folder.hpp"
#include <vindex/error.hpp>

#include <fmt/format.h>

#include <set>
#include <utility>

namespace vindex::organ {
namespace {

/// "organs-pure.gguf" of "out/organs-pure/".
std::string model_file_name(std::string folder) {
  while (folder.ends_with('/')) {
    folder.pop_back();
  }
  const std::string name = file_name_of(folder);
  return (name.empty() || name == "." || name == ".." ? "model" : name) + ".gguf";
}

/// The composed model as a source of keys and names; its bytes lie nowhere.
GgufSource source_of(const Composition& composition, const std::string& target) {
  GgufParts parts;
  parts.path = target;
  const std::string name = model_file_name(target);
  add_split(composition.files.front().keys, name, printable(target), parts);
  input::Shard& file = parts.files.emplace_back();
  file.file_name = name;
  for (const ComposedTensor& tensor : composition.tensors) {
    OrganTensor& own = parts.tensors.emplace_back();
    static_cast<gguf::TensorLayout&>(own) = tensor.layout;
    own.bytes = gguf::stored_bytes(tensor.layout);
  }
  parts.tensors_total = parts.tensors.size();
  return GgufSource(std::move(parts));
}

/// Writes the organs of one composition.
class FolderWriter {
 public:
  FolderWriter(const Composition& composition, const GgufSource& model, write::OutputFolder& folder)
      : composition_(composition), model_(model), folder_(folder), made_(organ_origin(model)) {}

  void write(ManifestTensor& tensor, std::size_t index, write::RangeCopier& copier) {
    const ComposedTensor& composed = composition_.tensors[index];
    AtomicFile& file = folder_.create(tensor.file);
    if (composed.make) {
      const std::string& name = model_.splits().front().file_name;
      return write_made_organ(file, tensor, made_, {.name = name, .header_sha256 = {}},
                              composed.make);
    }
    const GgufSource& source = *composed.source;
    const OrganTensor& from = source.tensors()[composed.tensor];
    const input::Shard& shard = source.files()[from.file];
    const auto opened = source.opened(from.file);
    tensor.offset = from.offset;
    if (!write_organ(file, tensor, organ_origin(source),
                     {source.splits()[from.split].file_name, shard.header_sha256, opened.get()},
                     false, copier)) {
      throw Stopped{};
    }
    if (!composed.sha256.empty() && tensor.sha256 != composed.sha256) {
      throw FormatError("E-ORGAN-DIGEST",
                        fmt::format("{}, tensor \"{}\"", printable(shard.path), excerpt(from.name)),
                        kOtherBytes);
    }
  }

 private:
  const Composition& composition_;
  const GgufSource& model_;
  write::OutputFolder& folder_;
  OrganOrigin made_;
};

void write_folder(const Composition& composition, const std::string& target,
                  const ComposeOptions& options, const ComposedFolder& about,
                  ComposeReport& report) {
  const GgufSource model = source_of(composition, target);
  std::vector<ManifestTensor> tensors;
  OrganNames names;
  std::set<const GgufSource*> sources;
  for (const ComposedTensor& composed : composition.tensors) {
    gguf::require_storable(composed.layout);
    require_utf8_name(composed.layout.name, printable(target));
    ManifestTensor& tensor = tensors.emplace_back();
    static_cast<gguf::TensorLayout&>(tensor) = composed.layout;
    tensor.bytes = gguf::stored_bytes(composed.layout);
    tensor.file = names.path_of(tensor.name, ".bin");
    report.bytes += tensor.bytes;
    if (composed.source != nullptr) {
      sources.insert(composed.source);
    }
  }
  write::OutputFolder folder(target);
  folder.require_space(report.bytes);
  FolderWriter writer(composition, model, folder);
  for_each_tensor(tensors, options.threads, options.stop,
                  [&](ManifestTensor& tensor, write::RangeCopier& copier) {
                    writer.write(tensor, static_cast<std::size_t>(&tensor - tensors.data()),
                                 copier);
                    return true;
                  });
  const ManifestContext context = {about.tool, utc_now(), about.selection, false};
  write_model_manifest(model, tensors, about.tensors_total, context, folder);
  for (const GgufSource* source : sources) {
    source->require_unchanged();
  }
  throw_if_stopped(options.stop);
  folder.publish();
  report.files = {target};
}

}  // namespace

bool means_organ_folder(const std::string& output, const GgufSource& host) {
  if (output.empty()) {
    return false;
  }
  return output.ends_with('/') || is_folder(output) ||
         (host.from_manifest() && !output.ends_with(".gguf"));
}

void require_free_organ_folder(const std::string& output, std::uint64_t shard_bytes) {
  if (shard_bytes != 0) {
    throw UsageError("E-ORGAN-SHARDS",
                     fmt::format("{}: a folder of organs has no shards; end the output in .gguf",
                                 printable(output)));
  }
  const write::OutputFolder probe(output);
}

ComposeReport compose_folder(const Composition& composition, const std::string& target,
                             const ComposeOptions& options, const ComposedFolder& about) {
  expects(composition.files.size() == 1, "compose_folder: a model of one file");
  ComposeReport report;
  try {
    write_folder(composition, target, options, about, report);
  } catch (const Stopped&) {
    report = {};
    report.stopped = true;
  }
  return report;
}

}  // namespace vindex::organ
