// Owns reading a manifest into parts, with sources and organ files checked.
#include "organ_folder.hpp"

#include "core/files/atomic_file.hpp"
#include "core/files/path_kind.hpp"
#include "gguf/read_header.hpp"
#include "input/gguf/gguf_set.hpp"
#include "input/stores/open_store.hpp"
#include "organ/manifest/manifest.hpp"
#include "organ/manifest/manifest_read.hpp"
#include "organ/source/organ_source.hpp"
#include <vindex/error.hpp>

#include <fmt/format.h>

#include <span>
#include <unordered_map>
#include <utility>

namespace vindex::organ {
namespace {

/// A GGUF file of keys alone, in memory.
std::unique_ptr<std::string> file_of_keys(const gguf::KeySection& keys) {
  auto file = std::make_unique<std::string>("GGUF");
  const auto append = [&](const auto number) {
    const auto bytes = std::as_bytes(std::span(&number, 1));
    file->append(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  };
  append(std::uint32_t{3});
  append(std::uint64_t{0});
  append(keys.count());
  for (const gguf::KeySection::ByteRun& run : keys.runs()) {
    file->append(reinterpret_cast<const char*>(run.bytes.data()), run.bytes.size());
    const std::size_t at = file->size();
    file->resize(at + static_cast<std::size_t>(run.count));
    if (run.source != nullptr) {
      run.source->read(run.offset, std::as_writable_bytes(std::span(*file).subspan(at)));
    }
  }
  return file;
}

void add_splits(const Manifest& manifest, const std::string& where, GgufParts& parts) {
  for (std::size_t i = 0; i < manifest.files.size(); ++i) {
    GgufSplit& split = add_split(manifest.keys[i], manifest.files[i].name, where, parts);
    split.bare_end = manifest.files[i].bare_end;
  }
}

class FolderReader {
 public:
  FolderReader(const Manifest& manifest, const std::string& folder, bool accept_changed)
      : manifest_(manifest), folder_(folder), accept_changed_(accept_changed) {}

  GgufParts run() {
    if (!manifest_.tensors.empty() && manifest_.tensors.front().file.empty()) {
      open_source();
    }
    for (const ManifestTensor& tensor : manifest_.tensors) {
      tensor.file.empty() ? add_reference(tensor) : add_organ(tensor);
    }
    return std::move(parts_);
  }

 private:
  void open_source();
  void judge_source(const input::GgufFile& file, std::size_t index);
  void add_organ(const ManifestTensor& wanted);
  void add_reference(const ManifestTensor& wanted);
  void add(gguf::Tensor found, const ManifestTensor& wanted, std::size_t file);

  const Manifest& manifest_;
  const std::string& folder_;
  bool accept_changed_;
  std::shared_ptr<OpenOrgans> open_ = std::make_shared<OpenOrgans>();
  GgufParts parts_;
  std::vector<std::unordered_map<std::string, gguf::Tensor>> referred_;  ///< of each file
};

void FolderReader::open_source() {
  const std::string& path = manifest_.files.front().path;
  std::vector<input::GgufFile> set =
      input::open_gguf_set(*input::open_store(path), parts_.warnings);
  if (set.size() != manifest_.files.size()) {
    throw FormatError("E-ORGAN-SOURCE", printable(path),
                      fmt::format("{} files now, {} when it was extracted by reference", set.size(),
                                  manifest_.files.size()));
  }
  for (std::size_t i = 0; i < set.size(); ++i) {
    judge_source(set[i], i);
    parts_.files.push_back(std::move(set[i].shard));
    auto& tensors = referred_.emplace_back();
    for (gguf::Tensor& tensor : set[i].header.tensors) {
      std::string name = tensor.name;
      tensors.emplace(std::move(name), std::move(tensor));
    }
  }
}

/// Without digests the file must be the very one; with them their agreement is enough.
void FolderReader::judge_source(const input::GgufFile& file, std::size_t index) {
  const ManifestFile& then = manifest_.files[index];
  bool digested = true;
  for (const ManifestTensor& tensor : manifest_.tensors) {
    digested = digested && (tensor.split != index || !tensor.sha256.empty());
  }
  const bool same_header =
      file.header.header_sha256 == then.header_sha256 && file.shard.identity.bytes == then.bytes;
  if (same_header && (digested || file.shard.identity.version == then.version)) {
    return;
  }
  if (!accept_changed_) {
    throw FormatError("E-ORGAN-SOURCE", printable(file.shard.path),
                      "is not the file that was extracted by reference: changed or replaced since; "
                      "extract again, or give --accept-changed");
  }
  parts_.changed = true;
}

void FolderReader::add_reference(const ManifestTensor& wanted) {
  const auto found = referred_[wanted.split].find(wanted.name);
  if (found == referred_[wanted.split].end()) {
    throw FormatError("E-ORGAN-SOURCE", printable(parts_.files[wanted.split].path),
                      fmt::format("holds no tensor \"{}\" any more", excerpt(wanted.name)));
  }
  add(found->second, wanted, wanted.split);
}

void FolderReader::add_organ(const ManifestTensor& wanted) {
  input::Shard& file = parts_.files.emplace_back();
  file.path = folder_ + "/" + wanted.file;
  file.file_name = file_name_of(wanted.file);
  file.source = std::make_unique<OrganSource>(file.path, open_);
  file.identity = file.source->identity_at_opening();
  add(only_tensor(file, wanted.name), wanted, parts_.files.size() - 1);
}

void FolderReader::add(gguf::Tensor found, const ManifestTensor& wanted, std::size_t file) {
  if (found.type != wanted.type || found.dimensions != wanted.dimensions) {
    if (!accept_changed_) {
      throw FormatError(
          "E-ORGAN-CHANGED",
          fmt::format("{}, tensor \"{}\"", printable(parts_.files[file].path),
                      excerpt(wanted.name)),
          fmt::format("is {} [{}], {} [{}] when it was extracted; give --accept-changed to take it "
                      "as it is",
                      decode::element_type_row(found.type).name, fmt::join(found.dimensions, ", "),
                      decode::element_type_row(wanted.type).name,
                      fmt::join(wanted.dimensions, ", ")));
    }
    parts_.changed = true;
  }
  parts_.tensors.push_back({std::move(found), wanted.split, file, wanted.sha256});
}

}  // namespace

gguf::Tensor only_tensor(input::Shard& file, const std::string& name) {
  gguf::Header header = gguf::read_header(*file.source);
  file.source->header_is_read();
  if (header.big_endian || header.tensors.size() != 1 || header.tensors.front().name != name) {
    throw FormatError(
        "E-ORGAN-FILE", printable(file.path),
        fmt::format("is not a little-endian GGUF file of the one tensor \"{}\", as the "
                    "manifest says",
                    excerpt(name)));
  }
  file.header_sha256 = header.header_sha256;
  return std::move(header.tensors.front());
}

GgufSplit& add_split(const gguf::KeySection& keys, const std::string& file_name,
                     const std::string& where, GgufParts& parts) {
  parts.key_bytes.push_back(file_of_keys(keys));
  parts.key_sources.push_back(
      input::make_memory_source(where, std::as_bytes(std::span(*parts.key_bytes.back()))));
  GgufSplit& split = parts.splits.emplace_back();
  split.file_name = file_name;
  split.source = parts.key_sources.back().get();
  split.header = gguf::read_header(*split.source);
  return split;
}

GgufParts parts_of_organ_folder(const std::string& path, const OpenGgufOptions& options) {
  const std::string folder = organ_folder_of(path);
  const Manifest manifest = read_manifest(folder);
  if (manifest.safetensors) {
    throw ConfigurationError(
        "E-ORGAN-SAFETENSORS",
        fmt::format("{}: organs of a safetensors model: tensor names, layouts and keys of a GGUF "
                    "model are made by a converter; convert the model and extract that",
                    printable(folder)));
  }
  GgufParts parts = FolderReader(manifest, folder, options.accept_changed).run();
  parts.path = path;
  parts.from_manifest = true;
  parts.side_files = manifest.side_files;
  parts.tensors_total = manifest.tensors_total;
  add_splits(manifest, printable(folder + "/" + kManifestName), parts);
  return parts;
}

}  // namespace vindex::organ
