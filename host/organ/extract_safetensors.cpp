// Owns extracting from a safetensors model: which tensors a GGUF of one tensor can hold, and the
// others by reference.
#include "extraction.hpp"
#include "organ_file.hpp"

#include "core/json_document.hpp"
#include "input/model_files.hpp"
#include "write/safetensors_writer.hpp"
#include <vindex/error.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <stop_token>
#include <utility>

namespace vindex::organ {
namespace {

constexpr std::uint64_t kExtractBufferBytes = std::uint64_t{256} << 10U;
constexpr std::size_t kMaxDimensions = 4;

/// Whether a GGUF file can hold it as it is.
bool fits_gguf(const input::StoredTensor& tensor) {
  const decode::ElementTypeRow& row = decode::element_type_row(tensor.type);
  return row.ggml_id >= 0 && tensor.shape.size() <= kMaxDimensions && !tensor.name.empty() &&
         tensor.name.size() <= kLongestTensorName;
}

/// What GGUF has no place for: a safetensors file of the one tensor.
bool write_single(AtomicFile& file, const input::StoredTensor& tensor, ByteSource& source,
                  const std::stop_token& stop, ManifestTensor& entry) {
  write::SafetensorsWriter writer(file, {{tensor.name, tensor.type, tensor.shape}}, {},
                                  write::TensorOrder::kAsGiven);
  Sha256 digest;
  std::vector<std::byte> buffer(
      static_cast<std::size_t>(std::min(kExtractBufferBytes, tensor.bytes)));
  for (std::uint64_t done = 0; done < tensor.bytes;) {
    if (stop.stop_requested()) {
      return false;
    }
    const std::uint64_t now = std::min<std::uint64_t>(kExtractBufferBytes, tensor.bytes - done);
    const std::span<std::byte> bytes = std::span(buffer).first(static_cast<std::size_t>(now));
    source.read(tensor.offset + done, bytes);
    digest.update(std::span<const std::byte>(bytes));
    writer.write(0, done, bytes);
    done += now;
  }
  writer.finish();
  entry.offset = writer.data_offset();
  entry.sha256 = hex(digest.finish());
  file.flush();
  return true;
}

/// `model_type` of the configuration; null where there is none.
const std::string* model_type(const input::ModelFiles& model) {
  const JsonValue* const type = model.config ? model.config->find("model_type") : nullptr;
  return type == nullptr ? nullptr : type->as_string();
}

Json source_json(const input::ModelFiles& model) {
  Json files = Json::array();
  for (const input::Shard& shard : model.shards) {
    files.push_back({{"file", shard.file_name},
                     {"path", absolute_path(shard.path)},
                     {"bytes", shard.identity.bytes},
                     {"version", shard.identity.version},
                     {"header_sha256", shard.header_sha256},
                     {"big_endian", false},
                     {"bare_end", false}});
  }
  Json sides = Json::array();
  for (const std::string& path : model.side_files) {
    sides.push_back(absolute_path(path));
  }
  const std::string* const name = model_type(model);
  return {{"container", "safetensors"},
          {"files", std::move(files)},
          {"side_files", std::move(sides)},
          {"architecture", name == nullptr ? Json(nullptr) : Json(*name)}};
}

void require_unchanged(const input::ModelFiles& model) {
  for (const input::Shard& shard : model.shards) {
    if (shard.source->identity() != shard.identity) {
      throw SystemError("E-INPUT-CHANGED", 0,
                        fmt::format("{}: the file was changed, replaced or removed while it was "
                                    "read; nothing was written",
                                    printable(shard.path)));
    }
  }
}

}  // namespace

void extract_safetensors(const ExtractSettings& settings, const OrganFilter& filter,
                         ExtractReport& report) {
  if (settings.by_reference) {
    throw ConfigurationError(
        "E-ORGAN-REFERENCE",
        fmt::format("{}: a safetensors model is not extracted by reference, since nothing could be "
                    "assembled from it",
                    printable(settings.model)));
  }
  input::OpenOptions options;
  options.adapter = true;
  const input::ModelFiles model = input::open_model(settings.model, options);
  report.warnings = model.warnings;
  report.tensors_total = model.tensors.size();
  OrganNames names;
  std::vector<ManifestTensor> tensors;
  std::vector<const input::StoredTensor*> stored;
  for (const input::StoredTensor& tensor : model.tensors) {
    require_utf8_name(tensor.name, printable(settings.model));
    if (!filter.wants(tensor.name)) {
      continue;
    }
    ManifestTensor& entry = tensors.emplace_back();
    entry.name = tensor.name;
    entry.type = tensor.type;
    entry.dimensions.assign(tensor.shape.rbegin(), tensor.shape.rend());
    entry.bytes = tensor.bytes;
    entry.split = static_cast<std::size_t>(tensor.shard);
    entry.file = names.path_of(tensor.name, fits_gguf(tensor) ? ".bin" : ".safetensors");
    stored.push_back(&tensor);
  }
  require_some(tensors, settings, filter);
  count_tensors(tensors, report);

  write::OutputFolder folder(settings.output);
  folder.require_space(report.bytes);
  write::CopyTally tally;
  std::vector<write::RangeCopier> copiers(extraction_threads(settings),
                                          write::RangeCopier(tally, settings.stop));
  const Json from = source_json(model);
  OrganOrigin origin;
  if (const std::string* const name = model_type(model)) {
    origin.architecture = *name;
  }
  origin.name = file_name_of(absolute_path(settings.model));
  for_each_tensor(tensors.size(), copiers.size(), settings, [&](std::size_t worker, std::size_t i) {
    ManifestTensor& entry = tensors[i];
    const input::Shard& shard = model.shards[entry.split];
    AtomicFile& file = folder.create(entry.file);
    if (!fits_gguf(*stored[i])) {
      return write_single(file, *stored[i], *shard.source, settings.stop, entry);
    }
    OrganOrigin here = origin;
    here.file = shard.file_name;
    here.header_sha256 = shard.header_sha256;
    const auto written = write_organ(file, {entry.name, entry.type, entry.dimensions},
                                     {shard.source.get(), stored[i]->offset, entry.bytes}, here,
                                     false, copiers[worker]);
    if (written) {
      entry.offset = written->offset;
      entry.sha256 = written->sha256;
    }
    return written.has_value();
  });
  const ManifestContext context = context_of(settings, filter);
  const bool partial = tensors.size() < model.tensors.size();
  Json json = {{"schema", kManifestSchema},
               {"tool", context.tool},
               {"created", context.created},
               {"storage", "files"},
               {"partial", partial},
               {"selection", partial ? Json(context.selection) : Json(nullptr)},
               {"tensors_total", model.tensors.size()},
               {"source", from}};
  add_tensor_lists(json, tensors);
  write_manifest(json, folder);
  require_unchanged(model);
  folder.publish();
}

}  // namespace vindex::organ
