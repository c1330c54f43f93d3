// Owns writing manifest.json: what stands in it plainly and what goes to a file beside it.
#include "manifest_write.hpp"

#include "manifest_keys.hpp"

#include "core/digest.hpp"
#include "core/files/reading_bounds.hpp"
#include "core/json/json_document.hpp"
#include "core/text/secrets.hpp"
#include "core/text/utf8.hpp"
#include "gguf/values/encoded_value.hpp"
#include "input/stores/open_store.hpp"
#include "organ/source/file_type.hpp"
#include "organ/source/tensor_pair.hpp"
#include <vindex/error.hpp>

#include <fmt/format.h>

#include <array>
#include <filesystem>

namespace vindex::organ {
namespace {

/// The value of a scalar key as it reads best; null where there is none.
Json plain_value(const GgufSource& source, const std::string& name) {
  const gguf::Key* key = source.key(name);
  if (key == nullptr) {
    return nullptr;
  }
  if (key->type == gguf::ValueType::kArray) {
    return key->integers.empty() ? Json{{"array", key->array_count}} : Json(key->integers);
  }
  return std::visit(
      [](const auto& value) -> Json {
        using Value = std::decay_t<decltype(value)>;
        if constexpr (std::is_same_v<Value, std::string>) {
          return is_utf8(value) ? Json(value) : Json(nullptr);
        } else {
          return value;
        }
      },
      key->value);
}

Json vocabulary(const GgufSource& source) {
  const gguf::Key* tokens = source.key("tokenizer.ggml.tokens");
  if (tokens == nullptr || tokens->type != gguf::ValueType::kArray) {
    return nullptr;
  }
  const GgufSplit& split = source.splits().front();
  Sha256 digest;
  digest.update(gguf::encoded_value(*tokens, split.header, *split.source));
  return {{"size", tokens->array_count}, {"sha256_tokens", hex(digest.finish())}};
}

/// What a reader wants to know of the model without reading keys.
void add_summary(const GgufSource& source, Json& json) {
  const std::string arch = source.architecture();
  json["architecture"] = is_utf8(arch) ? Json(arch) : Json(nullptr);
  json["name"] = plain_value(source, "general.name");
  json["uuid"] = plain_value(source, "general.uuid");
  json["file_type"] = plain_value(source, "general.file_type");
  if (const auto type = source.number("general.file_type")) {
    json["file_type_name"] = file_type_name(*type);
  }
  constexpr std::array<std::array<const char*, 2>, 5> kSizes = {
      {{"block_count", "block_count"},
       {"embedding_length", "embedding_length"},
       {"feed_forward_length", "feed_forward_length"},
       {"head_count", "attention.head_count"},
       {"head_count_kv", "attention.head_count_kv"}}};
  for (const auto& [member, key] : kSizes) {
    json[member] = plain_value(source, fmt::format("{}.{}", arch, key));
  }
  json["vocab"] = vocabulary(source);
  json["rope"] = {{"dimension_count", plain_value(source, arch + ".rope.dimension_count")},
                  {"freq_base", plain_value(source, arch + ".rope.freq_base")},
                  {"scaling", plain_value(source, arch + ".rope.scaling.type")}};
}

std::string sidecar_name(std::size_t split) {
  return split == 0 ? "kv.gguf" : fmt::format("kv-{:05}.gguf", split + 1);
}

Json keys_json(const GgufSplit& split, const std::string& name, gguf::KeySection& sidecar) {
  return Json::list(split.header.keys, [&](const gguf::Key& key) {
    return key_entry(key, split.header, *split.source, sidecar, name);
  });
}

/// Of a file without tensors: it ends where its header does, not at the padding behind it.
bool has_bare_end(const GgufSplit& split, const input::Shard& file, std::uint64_t tensors) {
  return tensors == 0 && file.identity.bytes < split.header.data_offset;
}

}  // namespace

void require_utf8_name(const std::string& name, const std::string& where) {
  if (!is_utf8(name)) {
    throw FormatError("E-ORGAN-NAME", where,
                      fmt::format("tensor \"{}\": a name that is not UTF-8 cannot stand in a "
                                  "manifest",
                                  excerpt(name)));
  }
}

std::string absolute_path(const std::string& path) {
  const auto local = input::local_path(path);
  if (!local) {
    return without_secrets(path);
  }
  if (reading_is_bounded()) {
    return *local;  // who asked for the run is not told where this machine keeps its files
  }
  std::error_code error;
  const auto canonical = std::filesystem::weakly_canonical(*local, error);
  return error ? std::filesystem::absolute(*local).string() : canonical.string();
}

ClassCounts class_counts(const std::vector<ManifestTensor>& tensors) {
  ClassCounts counts = {};
  for (const ManifestTensor& tensor : tensors) {
    ClassCount& count = counts.at(static_cast<std::size_t>(classify(tensor.name).organ_class));
    ++count.tensors;
    count.params += element_count(tensor.dimensions);
    count.bytes += tensor.bytes;
  }
  return counts;
}

Json class_counts_json(const ClassCounts& counts) {
  Json classes = Json::object();
  for (std::size_t i = 0; i < kOrganClasses; ++i) {
    classes[class_name(static_cast<OrganClass>(i))] = {
        {"tensors", counts[i].tensors}, {"params", counts[i].params}, {"bytes", counts[i].bytes}};
  }
  return classes;
}

Json manifest_document(const ManifestContext& context, std::uint64_t total, Json source, Json keys,
                       const std::vector<ManifestTensor>& tensors) {
  const bool partial = tensors.size() < total;
  Json json = {{"schema", kManifestSchema},
               {"tool", context.tool},
               {"created", context.created},
               {"storage", context.by_reference ? "reference" : "files"},
               {"partial", partial},
               {"selection", partial ? Json(context.selection) : Json(nullptr)},
               {"tensors_total", total},
               {"source", std::move(source)}};
  if (!keys.is_null()) {
    json["kv"] = std::move(keys);
  }
  json["counts"] = class_counts_json(class_counts(tensors));
  Json list = Json::array();
  for (const ManifestTensor& tensor : tensors) {
    const OrganName name = classify(tensor.name);
    Json entry = {{"name", tensor.name},
                  {"class", class_name(name.organ_class)},
                  {"kind", name.is_bias ? "bias" : "weight"},
                  {"block", name.block},
                  {"ne", tensor.dimensions},
                  {"type", decode::element_type_row(tensor.type).name},
                  {"params", element_count(tensor.dimensions)},
                  {"bytes", tensor.bytes},
                  {"source_file", tensor.split}};
    if (!tensor.file.empty()) {
      entry["file"] = tensor.file;
    }
    entry["offset"] = tensor.offset;
    entry["sha256"] = Json::given(tensor.sha256);
    list.push_back(std::move(entry));
  }
  json["tensors"] = std::move(list);
  return json;
}

Json manifest_json(const GgufSource& source, const std::vector<ManifestTensor>& tensors,
                   std::uint64_t total, const ManifestContext& context,
                   std::vector<std::pair<std::string, gguf::KeySection>>& sidecars) {
  std::vector<std::uint64_t> counts(source.splits().size(), 0);
  for (const OrganTensor& tensor : source.tensors()) {
    ++counts[tensor.split];
  }
  Json files = Json::array();
  Json first_keys = Json::array();
  for (std::size_t i = 0; i < source.splits().size(); ++i) {
    const GgufSplit& split = source.splits()[i];
    const input::Shard& file = source.files()[i];
    gguf::KeySection sidecar;
    Json keys = keys_json(split, sidecar_name(i), sidecar);
    if (sidecar.count() > 0) {
      sidecars.emplace_back(sidecar_name(i), std::move(sidecar));
    }
    Json entry = {{"file", split.file_name},
                  {"path", file.path.empty() ? std::string() : absolute_path(file.path)},
                  {"bytes", file.identity.bytes},
                  {"version", file.identity.version},
                  {"header_bytes", split.header.data_offset},
                  {"header_sha256", file.header_sha256},
                  {"gguf_version", split.header.version},
                  {"big_endian", split.header.big_endian},
                  {"alignment", split.header.alignment},
                  {"tensors", counts[i]},
                  {"bare_end", has_bare_end(split, file, counts[i])}};
    if (i > 0) {
      entry["kv"] = std::move(keys);
    } else {
      first_keys = std::move(keys);
    }
    files.push_back(std::move(entry));
  }
  Json from = {{"container", "gguf"}, {"files", std::move(files)}};
  add_summary(source, from);
  return manifest_document(context, total, std::move(from), std::move(first_keys), tensors);
}

}  // namespace vindex::organ
