#include "json_node.hpp"
#include "manifest.hpp"
#include "manifest_keys.hpp"

#include <vindex/core/error.hpp>
#include <vindex/core/excerpt.hpp>
#include <vindex/core/path_kind.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <optional>
#include <utility>

namespace vindex::organ {
namespace {

namespace fs = std::filesystem;

/// 100,000 tensors take some 40 MB of text.
constexpr std::uint64_t kLargestManifest = std::uint64_t{512} << 20U;
constexpr std::size_t kMostValues = 32'000'000;
constexpr std::size_t kMostFiles = 65'535;

using Node = JsonNode;

decode::ElementType type_of(const Node& node) {
  for (const decode::ElementTypeRow& row : decode::element_type_rows()) {
    if (row.name == node.text()) {
      return row.type;
    }
  }
  node.fail(fmt::format("\"{}\" is no type of weights", excerpt(node.text())));
}

/// A path within the folder. Errors: FormatError E-ORGAN-PATH for every other one.
std::string inner_path(const Node& node, const std::string& folder) {
  const fs::path path = node.text();
  const bool plain = path.is_relative() && !path.empty() &&
                     node.text().find('\0') == std::string::npos &&
                     std::all_of(path.begin(), path.end(), [](const fs::path& part) {
                       return part != ".." && part != "." && !part.empty();
                     });
  const auto resolved = [&](const fs::path& wanted) {
    std::error_code error;
    const std::string real = fs::weakly_canonical(wanted, error).string();
    if (error && error != std::errc::too_many_symbolic_link_levels &&
        error != std::errc::filename_too_long) {
      throw SystemError("E-OPEN", error.value(), "cannot resolve " + printable(wanted.string()));
    }
    return real;
  };
  const std::string root = resolved(folder);
  const std::string real = plain ? resolved(fs::path(folder) / path) : std::string();
  if (!plain || !real.starts_with(root == "/" ? root : root + "/")) {
    throw FormatError("E-ORGAN-PATH", printable(folder),
                      fmt::format("\"{}\" leads out of the folder: organ files lie within it",
                                  excerpt(node.text())));
  }
  return path.string();
}

ManifestTensor read_tensor(const Node& node, const std::string& folder, std::size_t files,
                           bool by_reference) {
  ManifestTensor tensor;
  tensor.name = node["name"].text();
  tensor.type = type_of(node["type"]);
  for (const Node& dimension : node["ne"].list()) {
    tensor.dimensions.push_back(dimension.number());
  }
  tensor.bytes = node["bytes"].number();
  const std::uint64_t split = node["source_file"].number();
  if (split >= files) {
    node["source_file"].fail("there is no such file");
  }
  tensor.split = static_cast<std::size_t>(split);
  if (!by_reference) {
    tensor.file = inner_path(node["file"], folder);
  }
  tensor.offset = node["offset"].number();
  if (const Node digest = node["sha256"]; digest.is_given()) {
    tensor.sha256 = digest.text();
    if (tensor.sha256.size() != 64 ||
        tensor.sha256.find_first_not_of("0123456789abcdef") != std::string::npos) {
      digest.fail("64 digits of lower-case hexadecimal are wanted");
    }
  }
  return tensor;
}

ManifestFile read_file(const Node& node) {
  ManifestFile file;
  file.name = node["file"].text();
  if (file.name.empty() || file.name.find('/') != std::string::npos || file.name == ".." ||
      file.name == "." || file.name.find('\0') != std::string::npos) {
    node["file"].fail("a file name without a folder is wanted");
  }
  file.path = node["path"].text();
  file.bytes = node["bytes"].number();
  file.version = node["version"].text();
  file.header_sha256 = node["header_sha256"].text();
  file.big_endian = node["big_endian"].flag();
  file.bare_end = node["bare_end"].flag();
  return file;
}

/// The keys of one file; what they refer to is opened.
write::GgufKeys read_keys(const Node& list, const std::string& folder, const std::string& name,
                          const std::string& where, Manifest& manifest) {
  std::optional<shard::GgufHeader> header;
  KeySidecar sidecar{name, nullptr, nullptr};
  write::GgufKeys keys;
  for (const Node& entry : list.list()) {
    if (!header && entry["array_ref"].is_given()) {
      manifest.key_sources.push_back(shard::open_file_source(folder + "/" + name));
      header = shard::read_gguf_header(*manifest.key_sources.back());
      sidecar.header = &*header;
      sidecar.source = manifest.key_sources.back().get();
    }
    add_key_entry(entry.json(), where, sidecar, keys);
  }
  return keys;
}

}  // namespace

bool is_organ_folder(const std::string& path) {
  return path_kind(fs::path(path) / kManifestName) == PathKind::kFile ||
         (fs::path(path).filename() == kManifestName && path_kind(path) == PathKind::kFile);
}

std::string organ_folder_of(const std::string& path) {
  if (path_kind(path) != PathKind::kFile) {
    return path;
  }
  const fs::path parent = fs::path(path).parent_path();
  return parent.empty() ? "." : parent.string();
}

Manifest read_manifest(const std::string& folder) {
  const std::string path = folder + "/" + kManifestName;
  const JsonDocument document{"E-ORGAN-MANIFEST", printable(path)};
  const std::string& where = document.where;
  const JsonValue json = read_json_file(path, kLargestManifest, kMostValues, document);
  const Node root(&json, {}, document);
  if (!root["schema"].is_given() || root["schema"].text() != kManifestSchema) {
    throw FormatError("E-ORGAN-SCHEMA", where,
                      fmt::format("its \"schema\" is not \"{}\"", kManifestSchema));
  }
  Manifest manifest;
  manifest.partial = root["partial"].flag();
  manifest.tensors_total = root["tensors_total"].number();
  const Node source = root["source"];
  manifest.safetensors = source["container"].text() == "safetensors";
  if (!manifest.safetensors && source["container"].text() != "gguf") {
    source["container"].fail("gguf or safetensors is wanted");
  }
  const bool by_reference = root["storage"].text() == "reference";
  if (!by_reference && root["storage"].text() != "files") {
    root["storage"].fail("files or reference is wanted");
  }
  for (const Node& file : source["files"].list()) {
    const std::size_t index = manifest.files.size();
    if (index >= kMostFiles) {
      source["files"].fail("more files than a set can have");
    }
    manifest.files.push_back(read_file(file));
    if (!manifest.safetensors) {
      const std::string name = index == 0 ? "kv.gguf" : fmt::format("kv-{:05}.gguf", index + 1);
      manifest.keys.push_back(
          read_keys(index == 0 ? root["kv"] : file["kv"], folder, name, where, manifest));
    }
  }
  if (manifest.files.empty()) {
    source["files"].fail("a model has one file at least");
  }
  for (const Node& tensor : root["tensors"].list()) {
    manifest.tensors.push_back(read_tensor(tensor, folder, manifest.files.size(), by_reference));
    if (manifest.tensors.size() > 1 &&
        manifest.tensors.back().split < manifest.tensors[manifest.tensors.size() - 2].split) {
      tensor["source_file"].fail("tensors stand in the order of their files");
    }
  }
  if (manifest.tensors.size() != manifest.tensors_total && !manifest.partial) {
    root["tensors"].fail(fmt::format("{} tensors of {}: cut short", manifest.tensors.size(),
                                     manifest.tensors_total));
  }
  return manifest;
}

}  // namespace vindex::organ
