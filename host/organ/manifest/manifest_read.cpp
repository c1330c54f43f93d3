// Owns reading manifest.json: tensors, files and keys, with every path kept inside the folder.
#include "manifest_read.hpp"

#include "json_node.hpp"
#include "manifest_keys.hpp"

#include "core/files/path_kind.hpp"
#include "core/json/json_scanner.hpp"
#include "gguf/read_header.hpp"
#include "input/model_folder.hpp"
#include "input/stores/open_store.hpp"
#include <vindex/error.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <cerrno>
#include <filesystem>
#include <map>
#include <optional>
#include <string_view>
#include <sys/stat.h>
#include <utility>

namespace vindex::organ {
namespace {

namespace fs = std::filesystem;

constexpr std::size_t kMaxManifestValues = 8'000'000;
/// Of a member beside the tensors, all keys with their values, and of one tensor.
constexpr std::size_t kMaxInMember = 1'000'000;
constexpr std::size_t kMaxManifestTensorValues = 1'000;
constexpr std::size_t kMaxFiles = 65'535;

using Node = JsonNode;

decode::ElementType type_of(const Node& node) {
  for (const decode::ElementTypeRow& row : decode::element_type_rows()) {
    if (row.name == node.text()) {
      return row.type;
    }
  }
  node.fail(fmt::format("\"{}\" is not a type of weights", excerpt(node.text())));
}

/// Says whether paths lead out of a folder. Folders within it are asked once, what is no link is
/// not resolved, and below what is absent nothing is asked; only local ones have links.
class InnerPaths {
 public:
  explicit InnerPaths(const std::string& folder)
      : folder_(folder),
        is_local_(input::local_path(folder).has_value()),
        root_(is_local_ ? resolved(folder) : std::string()) {}

  /// A path within the folder. Errors: FormatError E-ORGAN-PATH for every other one.
  std::string path_of(const Node& node) {
    const std::string& text = node.text();
    if (!is_plain(text) || (is_local_ && !is_within(text))) {
      throw FormatError(
          "E-ORGAN-PATH", printable(folder_),
          fmt::format("\"{}\" leads out of the folder: organ files lie within it", excerpt(text)));
    }
    return text;
  }

 private:
  /// What is at a path: a folder (or file) of this folder, nothing, or what has to be resolved: a
  /// link, or what cannot be examined.
  enum class Place : std::uint8_t { kHere, kNothing, kElsewhere };

  /// Relative, of names alone. Not by std::filesystem::path, which takes as long as reading the
  /// tensor's entry.
  static bool is_plain(std::string_view text) {
    if (text.empty() || text.front() == '/' || text.find('\0') != std::string_view::npos) {
      return false;
    }
    for (std::size_t at = 0; at <= text.size();) {
      const std::size_t end = std::min(text.find('/', at), text.size());
      const std::string_view name = text.substr(at, end - at);
      if (name == "." || name == ".." || (name.empty() && end == text.size())) {
        return false;
      }
      at = end + 1;
    }
    return true;
  }
  static std::string resolved(const fs::path& wanted) {
    std::error_code error;
    const std::string real = fs::weakly_canonical(wanted, error).string();
    if (error && error != std::errc::too_many_symbolic_link_levels &&
        error != std::errc::filename_too_long) {
      throw SystemError("E-OPEN", error.value(), "cannot resolve " + printable(wanted.string()));
    }
    return real;
  }
  bool contains(const std::string& real) const {
    return real == root_ || real.starts_with(root_ == "/" ? root_ : root_ + "/");
  }
  std::string below_folder(std::string_view path) const {
    return std::string(folder_).append("/").append(path);
  }
  Place examined(std::string_view path) const {
    struct stat status = {};
    if (::lstat(below_folder(path).c_str(), &status) != 0) {
      return errno == ENOENT ? Place::kNothing : Place::kElsewhere;
    }
    return S_ISLNK(status.st_mode) ? Place::kElsewhere : Place::kHere;
  }
  /// Of the folders on the way to `parent`, the first that is not simply here decides.
  Place way_to(std::string_view parent) {
    for (std::size_t end = 0; end < parent.size();) {
      end = std::min(parent.find('/', end + 1), parent.size());
      const std::string_view folder = parent.substr(0, end);
      auto found = folders_.find(folder);
      if (found == folders_.end()) {
        found = folders_.emplace(folder, examined(folder)).first;
      }
      if (found->second != Place::kHere) {
        return found->second;
      }
    }
    return Place::kHere;
  }
  /// Resolved only where a link is on the way: that takes ten times as long, and a manifest may
  /// name a folder for every tensor.
  bool is_within(std::string_view path) {
    const std::size_t slash = path.rfind('/');
    const std::string_view parent = path.substr(0, slash == path.npos ? 0 : slash);
    const Place way = way_to(parent);
    if (way == Place::kNothing) {
      return true;  // its opening reports it
    }
    if (way == Place::kElsewhere) {
      auto found = resolved_.find(parent);
      if (found == resolved_.end()) {
        found = resolved_.emplace(parent, contains(resolved(below_folder(parent)))).first;
      }
      if (!found->second) {
        return false;
      }
    }
    struct stat status = {};
    const std::string whole = below_folder(path);
    if (::lstat(whole.c_str(), &status) != 0 || !S_ISLNK(status.st_mode)) {
      return true;  // what cannot be examined is reported by its opening
    }
    const std::string real = resolved(whole);
    return real != root_ && contains(real);
  }

  const std::string& folder_;
  bool is_local_;
  std::string root_;
  std::map<std::string, Place, std::less<>> folders_;
  std::map<std::string, bool, std::less<>> resolved_;  ///< whether each lies within
};

/// But for what depends on the rest of the document: its file and where that is.
ManifestTensor read_tensor(const Node& node, InnerPaths& paths) {
  ManifestTensor tensor;
  tensor.name = node["name"].text();
  tensor.type = type_of(node["type"]);
  for (const Node& dimension : node["ne"].list()) {
    tensor.dimensions.push_back(dimension.number());
  }
  tensor.bytes = node["bytes"].number();
  const std::uint64_t split = node["source_file"].number();
  if (split >= kMaxFiles) {
    node["source_file"].fail("there is no such file");
  }
  tensor.split = static_cast<std::size_t>(split);
  if (node.has("file")) {
    tensor.file = paths.path_of(node["file"]);
  }
  tensor.offset = node["offset"].number();
  if (!node.has("sha256")) {
    node["sha256"].fail("a digest is expected, or null where there is none");
  }
  if (const Node digest = node["sha256"]; digest.is_given()) {
    tensor.sha256 = digest.text();
    if (tensor.sha256.size() != 64 ||
        tensor.sha256.find_first_not_of("0123456789abcdef") != std::string::npos) {
      digest.fail("64 digits of lower-case hexadecimal are expected");
    }
  }
  return tensor;
}

ManifestFile read_file(const Node& node) {
  ManifestFile file;
  file.name = node["file"].text();
  if (file.name.empty() || file.name.find('/') != std::string::npos || file.name == ".." ||
      file.name == "." || file.name.find('\0') != std::string::npos) {
    node["file"].fail("a file name without a folder is expected");
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
gguf::KeySection read_keys(const Node& list, const std::string& folder, const std::string& name,
                           const std::string& where, Manifest& manifest) {
  std::optional<gguf::Header> header;
  KeySidecar sidecar{name, nullptr, nullptr};
  gguf::KeySection keys;
  for (const Node& entry : list.list()) {
    if (!header && entry["array_ref"].is_given()) {
      manifest.side_files.push_back(folder + "/" + name);
      manifest.key_sources.push_back(input::open_input(manifest.side_files.back()));
      header = gguf::read_header(*manifest.key_sources.back());
      sidecar.header = &*header;
      sidecar.source = manifest.key_sources.back().get();
    }
    add_key_entry(entry.json(), where, sidecar, keys);
  }
  return keys;
}

}  // namespace

namespace {

void require_schema(const Node& root, const std::string& where) {
  if (!root["schema"].is_given() || root["schema"].text() != kManifestSchema) {
    throw FormatError("E-ORGAN-SCHEMA", where,
                      fmt::format("its \"schema\" is not \"{}\"", kManifestSchema));
  }
}

/// Reads the document at `path`: tensors one by one into `list`, the rest as a tree. A tree of
/// all of it would take several times the memory of its text.
JsonValue read_document(const std::string& path, const std::string& folder,
                        const JsonDocument& document,
                        std::optional<std::vector<ManifestTensor>>& list) {
  std::string text = read_json_text(path, kLargestManifest, document);
  JsonLimits limits;
  limits.bytes = kLargestManifest;
  limits.values = kMaxManifestValues;
  JsonScanner scanner(text, document.where, limits);
  JsonValue::Object members;
  InnerPaths paths(folder);
  scanner.enter_object();
  while (const auto key = scanner.next_key()) {
    if (*key != "tensors" || scanner.peek() != JsonKind::kArray) {
      std::string name(*key);
      members.emplace_back(std::move(name), read_json_value(scanner, kMaxInMember));
      continue;
    }
    const JsonValue before{JsonValue::Storage(members)};
    if (before.find("schema") != nullptr) {
      require_schema(Node(&before, {}, document), document.where);
    }
    std::vector<ManifestTensor>& tensors = list.emplace();
    scanner.enter_array();
    while (scanner.next_element()) {
      if (tensors.size() == kMaxManifestTensors) {
        throw FormatError(document.error_id, document.where,
                          fmt::format("more than {} tensors", kMaxManifestTensors));
      }
      const JsonValue tensor = read_json_value(scanner, kMaxManifestTensorValues);
      tensors.push_back(
          read_tensor(Node(&tensor, fmt::format("tensors[{}]", tensors.size()), document), paths));
    }
  }
  scanner.finish();
  return JsonValue(JsonValue::Storage(std::move(members)));
}

/// What the rest of the document says of each tensor.
void settle_tensors(Manifest& manifest, bool by_reference, const Node& list) {
  for (std::size_t i = 0; i < manifest.tensors.size(); ++i) {
    ManifestTensor& tensor = manifest.tensors[i];
    const auto fail = [&](const char* why) { list.fail(fmt::format("tensor {}: {}", i, why)); };
    if (tensor.split >= manifest.files.size()) {
      fail("its source_file is none of the files");
    }
    if (i > 0 && tensor.split < manifest.tensors[i - 1].split) {
      fail("tensors stand in the order of their files");
    }
    if (by_reference) {
      tensor.file.clear();
    } else if (tensor.file.empty()) {
      fail("has no file");
    }
  }
}

}  // namespace

bool is_organ_folder(const std::string& path) {
  const auto store = input::open_store(path);
  if ((!store->file().empty() && store->file() != kManifestName) ||
      !input::member_exists(*store, kManifestName)) {
    return false;
  }
  const std::string manifest = store->location(kManifestName);
  const auto local = input::local_path(manifest);
  const bool is_file = !local || path_kind(*local) == PathKind::kFile;
  if (!is_file && store->file().empty()) {
    throw MissingInputError("E-FILE-KIND", fmt::format("{} is not a regular file: the folder's "
                                                       "manifest is gone, extract again",
                                                       printable(manifest)));
  }
  return is_file;
}

std::string organ_folder_of(const std::string& path) {
  return input::open_store(path)->location({});
}

Manifest read_manifest(const std::string& folder) {
  const std::string path = folder + "/" + kManifestName;
  const JsonDocument document{"E-ORGAN-MANIFEST", printable(path)};
  const std::string& where = document.where;
  Manifest manifest;
  std::optional<std::vector<ManifestTensor>> tensors;
  const JsonValue json = read_document(path, folder, document, tensors);
  const Node root(&json, {}, document);
  require_schema(root, where);
  if (!tensors) {
    root["tensors"].fail("a list is expected");
  }
  manifest.tensors = std::move(*tensors);
  manifest.side_files.push_back(path);
  manifest.partial = root["partial"].flag();
  manifest.tensors_total = root["tensors_total"].number();
  const Node source = root["source"];
  manifest.safetensors = source["container"].text() == "safetensors";
  if (!manifest.safetensors && source["container"].text() != "gguf") {
    source["container"].fail("gguf or safetensors is expected");
  }
  const bool by_reference = root["storage"].text() == "reference";
  if (!by_reference && root["storage"].text() != "files") {
    root["storage"].fail("files or reference is expected");
  }
  for (const Node& file : source["files"].list()) {
    const std::size_t index = manifest.files.size();
    if (index >= kMaxFiles) {
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
  settle_tensors(manifest, by_reference, root["tensors"]);
  if (manifest.tensors.size() != manifest.tensors_total && !manifest.partial) {
    root["tensors"].fail(fmt::format("{} tensors of {}: cut short", manifest.tensors.size(),
                                     manifest.tensors_total));
  }
  return manifest;
}

}  // namespace vindex::organ
