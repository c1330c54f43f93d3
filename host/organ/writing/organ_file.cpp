// Owns unique file names, and writing one such file.
#include "organ_file.hpp"

#include "core/integers.hpp"
#include "decode/encoding/element_type.hpp"
#include "input/local/positional_read.hpp"
#include "organ/source/organ_class.hpp"
#include "write/safetensors_writer.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <span>
#include <unistd.h>
#include <vector>

namespace vindex::organ {
namespace {

/// Leaves room for a number and what temporary names add.
constexpr std::size_t kLongestStem = 160;
constexpr std::size_t kDigestDigits = 64;
constexpr std::uint64_t kBlockBytes = 4096;
constexpr std::uint64_t kAlignment = 32;

std::string stem_of(const std::string& tensor) {
  constexpr std::string_view kWeight = ".weight";
  std::string stem = tensor.ends_with(kWeight) && tensor.size() > kWeight.size()
                         ? tensor.substr(0, tensor.size() - kWeight.size())
                         : tensor;
  for (char& c : stem) {
    const bool plain = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
                       c == '_' || c == '-';
    c = plain ? c : '_';
  }
  return stem.substr(0, kLongestStem);
}

std::uint64_t bytes_of(const gguf::KeySection& keys) {
  std::uint64_t bytes = 0;
  for (const gguf::KeySection::ByteRun& run : keys.runs()) {
    bytes += run.bytes.size() + run.count;
  }
  return bytes;
}

/// Magic, version and counts; then keys; then the one entry of the table.
constexpr std::uint64_t kPrefixBytes = 4 + 4 + 8 + 8;
std::uint64_t entry_bytes(const gguf::TensorLayout& layout) {
  return 8 + layout.name.size() + 4 + 8 * layout.dimensions.size() + 4 + 8;
}

/// Puts the data of a file with these keys at `wanted` modulo the size of a block.
void add_padding(gguf::KeySection& keys, const gguf::TensorLayout& layout, std::uint64_t wanted) {
  constexpr std::string_view kName = "organ.padding";
  constexpr std::uint64_t kKeyBytes = 8 + kName.size() + 4 + 8;
  constexpr std::uint64_t kDigestKeyBytes = 8 + 19 + 4 + 8 + kDigestDigits;  // organ.tensor.sha256
  const std::uint64_t end =
      kPrefixBytes + bytes_of(keys) + kKeyBytes + kDigestKeyBytes + entry_bytes(layout);
  const std::uint64_t data = *checked_round_up(end, kAlignment);
  const std::uint64_t missing =
      (wanted % kBlockBytes + kBlockBytes - data % kBlockBytes) % kBlockBytes;
  keys.add_string(kName, std::string(static_cast<std::size_t>(missing), ' '));
}

}  // namespace

std::string OrganNames::path_of(const std::string& tensor, std::string_view suffix) {
  const std::string stem =
      fmt::format("{}/{}", class_folder(classify(tensor).organ_class), stem_of(tensor));
  std::string path = fmt::format("{}{}", stem, suffix);
  for (int number = 2; !taken_.insert(path).second; ++number) {
    path = fmt::format("{}_{}{}", stem, number, suffix);
  }
  return path;
}

namespace {

/// Of a file that is open for reading and writing.
std::string digest_of(const AtomicFile& file, std::uint64_t offset, std::uint64_t bytes) {
  constexpr std::uint64_t kPiece = std::uint64_t{1} << 20U;
  const auto call = [&](void* into, std::size_t count, std::uint64_t at) {
    return ::pread(file.descriptor(), into, count, static_cast<off_t>(at));
  };
  std::vector<std::byte> buffer(std::min(bytes, kPiece));
  Sha256 digest;
  for (std::uint64_t at = 0; at < bytes; at += buffer.size()) {
    buffer.resize(std::min(kPiece, bytes - at));
    input::read_fully(call, file.path(), offset + at, buffer);
    digest.update(buffer);
  }
  return hex(digest.finish());
}

/// Header and table of a GGUF file of `tensor`; `fill` gives the bytes, sets the digest, and
/// returns false where it was stopped.
template <typename Fill>
bool write_gguf_organ(AtomicFile& file, ManifestTensor& tensor, const OrganOrigin& origin,
                      const OriginFile& from, bool share_blocks, Fill fill) {
  const OrganName name = classify(tensor.name);
  gguf::KeySection keys;
  if (!origin.architecture.empty()) {
    keys.add_string("general.architecture", origin.architecture);
  }
  if (decode::element_type_row(tensor.type).block_elements > 1) {
    keys.add<std::uint32_t>("general.quantization_version", kQuantizationVersion);
  }
  keys.add<std::uint32_t>("organ.version", kOrganVersion);
  keys.add_string("organ.class", class_name(name.organ_class));
  keys.add<std::int32_t>("organ.block", name.block);
  keys.add_string("organ.source.name", origin.name);
  if (!origin.uuid.empty()) {
    keys.add_string("organ.source.uuid", origin.uuid);
  }
  keys.add_string("organ.source.file", from.name);
  keys.add_string("organ.source.header_sha256", from.header_sha256);
  if (share_blocks && tensor.offset % kAlignment == 0) {
    add_padding(keys, tensor, tensor.offset);
  }
  // The last key: its digits are known after the bytes have passed, and take their place then.
  keys.add_string("organ.tensor.sha256", std::string(kDigestDigits, '0'));
  const std::uint64_t digits_at = kPrefixBytes + bytes_of(keys) - kDigestDigits;

  gguf::Writer writer(file, keys, {tensor});
  if (!fill(writer)) {
    return false;
  }
  file.write(digits_at, std::as_bytes(std::span(tensor.sha256)));
  file.flush();
  return true;
}

}  // namespace

bool write_organ(AtomicFile& file, ManifestTensor& tensor, const OrganOrigin& origin,
                 const OriginFile& from, bool share_blocks, write::RangeCopier& copier) {
  Sha256 digest;
  const auto copy = [&](auto& writer) {
    const std::uint64_t place = writer.place(0, 0, tensor.bytes);
    if (!copier.run({from.source, tensor.offset, &file, place, tensor.bytes}, &digest)) {
      return false;
    }
    writer.finish();
    tensor.offset = place;
    tensor.sha256 = hex(digest.finish());
    return true;
  };
  if (tensor.file.ends_with(kSafetensorsSuffix)) {
    write::SafetensorsWriter writer(
        file, {{tensor.name, tensor.type, {tensor.dimensions.rbegin(), tensor.dimensions.rend()}}},
        {}, write::TensorOrder::kAsGiven);
    const bool copied = copy(writer);
    file.flush();
    return copied;
  }
  return write_gguf_organ(file, tensor, origin, from, share_blocks, copy);
}

void write_made_organ(AtomicFile& file, ManifestTensor& tensor, const OrganOrigin& origin,
                      const OriginFile& from,
                      const std::function<void(const TensorSink& sink)>& make) {
  write_gguf_organ(file, tensor, origin, from, false, [&](gguf::Writer& writer) {
    make([&](std::uint64_t offset, std::span<const std::byte> bytes) {
      writer.write(0, offset, bytes);
    });
    writer.finish();
    tensor.offset = writer.place(0, 0, 0);
    tensor.sha256 = digest_of(file, tensor.offset, tensor.bytes);
    return true;
  });
}

}  // namespace vindex::organ
