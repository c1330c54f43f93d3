// Owns extracting from a safetensors model: which tensors a GGUF of one tensor can hold, and the
// others by reference.
#include "extract_safetensors.hpp"

#include "core/files/path_kind.hpp"
#include "core/json/json_document.hpp"
#include "input/model_files.hpp"
#include "input/open/open_model.hpp"
#include "organ/graft/source_facts.hpp"
#include "organ/source/tensor_pair.hpp"
#include "organ/writing/organ_file.hpp"
#include "organ/writing/write_organs.hpp"
#include "write/safetensors_writer.hpp"
#include <vindex/error.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <stop_token>
#include <utility>

namespace vindex::organ {
namespace {

constexpr std::size_t kMaxDimensions = 4;

/// Whether a GGUF file can hold it as it is.
bool fits_gguf(const input::StoredTensor& tensor) {
  const decode::ElementTypeRow& row = decode::element_type_row(tensor.type);
  return row.ggml_id >= 0 && tensor.shape.size() <= kMaxDimensions && !tensor.name.empty() &&
         tensor.name.size() <= kLongestTensorName;
}

/// `model_type` of the configuration; null where there is none.
const std::string* model_type(const input::ModelFiles& model) {
  const JsonValue* const type = model.config ? model.config->find("model_type") : nullptr;
  return type == nullptr ? nullptr : type->as_string();
}

Json source_json(const input::ModelFiles& model) {
  const auto file = [](const input::Shard& shard) {
    return Json{{"file", shard.file_name},
                {"path", absolute_path(shard.path)},
                {"bytes", shard.identity.bytes},
                {"version", shard.identity.version},
                {"header_sha256", shard.header_sha256},
                {"big_endian", false},
                {"bare_end", false}};
  };
  const std::string* const name = model_type(model);
  return {{"container", "safetensors"},
          {"files", Json::list(model.shards, file)},
          {"side_files", Json::list(model.side_files, absolute_path)},
          {"architecture", name == nullptr ? Json(nullptr) : Json(*name)}};
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
  const input::ModelFiles model = input::open_model(
      settings.model, {.model_config = {}, .adapter = true, .stop = settings.stop});
  report.warnings = model.warnings;
  report.tensors_total = model.tensors.size();
  OrganNames names;
  std::vector<ManifestTensor> tensors;
  for (const input::StoredTensor& tensor : model.tensors) {
    require_utf8_name(tensor.name, printable(settings.model));
    if (filter.wants(tensor.name)) {
      tensors.push_back(
          {placed(model, tensor), static_cast<std::size_t>(tensor.shard),
           names.path_of(tensor.name, fits_gguf(tensor) ? ".bin" : kSafetensorsSuffix)});
    }
  }
  require_some(tensors, settings, filter);
  count_tensors(tensors, report);

  write::OutputFolder folder(settings.output);
  folder.require_space(report.bytes);
  const std::string* const type = model_type(model);
  const OrganOrigin origin = {type == nullptr ? std::string() : *type,
                              file_name_of(absolute_path(settings.model))};
  for_each_tensor(tensors, settings.threads, settings.stop,
                  [&](ManifestTensor& tensor, write::RangeCopier& copier) {
                    const input::Shard& shard = model.shards[tensor.split];
                    return write_organ(folder.create(tensor.file), tensor, origin,
                                       {shard.file_name, shard.header_sha256, shard.source.get()},
                                       false, copier);
                  });
  // What names and layouts of the tensors mean, for who measures the folder.
  for (const auto& [name, json] : {std::pair{"config.json", &model.config},
                                   {"hf_quant_config.json", &model.quantisation},
                                   {"adapter_config.json", &model.adapter}}) {
    if (*json) {
      folder.write_text(name, Json::of(**json).dump(1) + "\n");
    }
  }
  write_manifest(manifest_document(context_of(settings, filter), model.tensors.size(),
                                   source_json(model), {}, tensors),
                 folder);
  for (const input::Shard& shard : model.shards) {
    input::require_unchanged(shard);
  }
  folder.publish();
}

}  // namespace vindex::organ
