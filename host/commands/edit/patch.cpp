// Owns reading and writing patches: factors, digests and keys in a safetensors file.
#include "patch.hpp"

#include "core/digest.hpp"
#include "core/json/json.hpp"
#include "core/json/json_document.hpp"
#include "core/text/text_parts.hpp"
#include "decode/decode_matrix.hpp"
#include "input/safetensors/safetensors.hpp"
#include "input/stores/open_store.hpp"
#include "write/safetensors_writer.hpp"
#include <vindex/error.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <string_view>
#include <utility>

namespace vindex::edit {
namespace {

constexpr std::string_view kFormat = "vindex-patch/1";

using Stored = std::map<std::string, const input::SafetensorsTensor*, std::less<>>;

std::string_view value_of(const write::SafetensorsMetadata& metadata, std::string_view key) {
  for (const auto& [name, value] : metadata) {
    if (name == key) {
      return value;
    }
  }
  return {};
}

void require_factor(const ByteSource& source, const input::SafetensorsTensor& tensor) {
  const bool is_number =
      tensor.type == decode::ElementType::kF32 || tensor.type == decode::ElementType::kF16 ||
      tensor.type == decode::ElementType::kBF16 || tensor.type == decode::ElementType::kF64;
  if (!is_number || tensor.shape.size() != 2 || tensor.shape[0] == 0 || tensor.shape[1] == 0) {
    throw FormatError(
        "E-PATCH-FORMAT", source.name(),
        fmt::format("{} is not a matrix of F32, F16, BF16 or F64", excerpt(tensor.name)));
  }
}

std::vector<float> factor(ByteSource& source, const input::SafetensorsTensor& tensor) {
  const decode::Encoding encoding = decode::plain_encoding(tensor.type);
  std::vector<std::byte> bytes(tensor.bytes);
  source.read(tensor.offset, bytes);
  decode::EncodedMatrix view;
  view.encoding = &encoding;
  view.rows = tensor.shape[0];
  view.cols = tensor.shape[1];
  view.codes = bytes.data();
  view.row_stride_bytes = static_cast<std::int64_t>(tensor.bytes) / view.rows;
  std::vector<float> values(static_cast<std::size_t>(view.rows * view.cols));
  decode::decode_matrix(view, values.data(), view.cols);
  if (!all_finite(values)) {
    throw FormatError("E-PATCH-FORMAT", source.name(),
                      fmt::format("{} holds numbers that are not finite", excerpt(tensor.name)));
  }
  return values;
}

/// NAME#I apart.
void read_key(const std::string& key, PatchEntry& entry) {
  const std::size_t at = key.rfind('#');
  const std::int32_t slice =
      at == std::string::npos ? -1 : whole_number<std::int32_t>(key.substr(at + 1)).value_or(-1);
  entry.tensor = slice < 0 ? key : key.substr(0, at);
  entry.slice = std::max(slice, -1);
}

void read_digests(std::string_view text, const std::string& where, std::vector<PatchEntry>& all) {
  if (text.empty()) {
    return;
  }
  const JsonValue digests = parse_json(text, where, {});
  for (PatchEntry& entry : all) {
    const JsonValue* of = digests.find(entry.key());
    for (auto [name, digest] : {std::pair{"before", &entry.before}, {"after", &entry.after}}) {
      const JsonValue* value = of == nullptr ? nullptr : of->find(name);
      if (value != nullptr && value->as_string() != nullptr) {
        *digest = *value->as_string();
      }
    }
  }
}

/// A file of this program's own format.
class OwnPatch final : public PatchFile {
 public:
  OwnPatch(std::unique_ptr<ByteSource> source, input::SafetensorsHeader header,
           const write::SafetensorsMetadata& metadata)
      : source_(std::move(source)), header_(std::move(header)) {
    outline_.kind = kFormat;
    outline_.knows_base = true;
    Stored stored;
    for (const input::SafetensorsTensor& tensor : header_.tensors) {
      stored.emplace(tensor.name, &tensor);
    }
    for (const auto& [name, tensor] : stored) {
      add(stored, name, *tensor);
    }
    if (outline_.entries.empty()) {
      throw FormatError("E-PATCH-FORMAT", source_->name(), "the patch holds no factors");
    }
    read_digests(value_of(metadata, "digests"), source_->name(), outline_.entries);
  }

  Patch read() override {
    Patch patch = outline_;
    for (std::size_t i = 0; i < factors_.size(); ++i) {
      patch.entries[i].edit.a = factor(*source_, *factors_[i].a);
      patch.entries[i].edit.b = factor(*source_, *factors_[i].b);
    }
    return patch;
  }

 private:
  struct Factors {
    const input::SafetensorsTensor* a = nullptr;
    const input::SafetensorsTensor* b = nullptr;
  };

  void add(const Stored& stored, const std::string& name, const input::SafetensorsTensor& a) {
    const std::string key = name.size() > 2 ? name.substr(0, name.size() - 2) : std::string();
    const auto other = stored.find(key + (name.ends_with(".a") ? ".b" : ".a"));
    if (key.empty() || !(name.ends_with(".a") || name.ends_with(".b")) || other == stored.end()) {
      throw FormatError("E-PATCH-FORMAT", source_->name(),
                        fmt::format("{} is no NAME.a beside a NAME.b", excerpt(name)));
    }
    if (name.ends_with(".b")) {
      return;
    }
    const input::SafetensorsTensor& b = *other->second;
    require_factor(*source_, a);
    require_factor(*source_, b);
    PatchEntry entry;
    read_key(key, entry);
    entry.edit.rank = a.shape[0];
    entry.edit.cols = a.shape[1];
    entry.edit.rows = b.shape[0];
    if (b.shape[1] != entry.edit.rank) {
      throw FormatError("E-PATCH-FORMAT", source_->name(),
                        fmt::format("{}: a is {} x {}, b is {} x {}", excerpt(key), entry.edit.rank,
                                    entry.edit.cols, entry.edit.rows, b.shape[1]));
    }
    factors_.push_back({&a, &b});
    outline_.entries.push_back(std::move(entry));
  }

  std::unique_ptr<ByteSource> source_;
  input::SafetensorsHeader header_;
  std::vector<Factors> factors_;  ///< beside the outline's entries
};

}  // namespace

std::string PatchEntry::key() const {
  return slice < 0 ? tensor : fmt::format("{}#{}", tensor, slice);
}

std::unique_ptr<PatchFile> open_patch(const std::string& path, bool force, const PatchBase* base) {
  const std::shared_ptr<input::ModelStore> store = input::open_store(path);
  if (store->file().ends_with(".safetensors")) {
    auto source = store->open(store->file());
    input::SafetensorsHeader header = input::read_safetensors_header(*source);
    const write::SafetensorsMetadata metadata = write::read_safetensors_metadata(*source);
    source->header_is_read();
    const std::string_view format = value_of(metadata, "format");
    if (format == kFormat) {
      return std::make_unique<OwnPatch>(std::move(source), std::move(header), metadata);
    }
    if (format.starts_with("vindex-patch/")) {
      throw FormatError(
          "E-PATCH-FORMAT", source->name(),
          fmt::format("is of {}; this program reads {}", excerpt(std::string(format)), kFormat));
    }
  }
  return open_adapter(path, force, base);
}

Patch read_patch(const std::string& path, bool force, const PatchBase* base) {
  return open_patch(path, force, base)->read();
}

void write_patch(AtomicFile& file, const std::vector<PatchEntry>& entries,
                 const std::string& program) {
  std::map<std::string, const PatchEntry*> sorted;
  for (const PatchEntry& entry : entries) {
    sorted.emplace(entry.key(), &entry);
  }
  Json digests = Json::object();
  Sha256 base;
  std::vector<write::SafetensorsTensor> layout;
  for (const auto& [key, entry] : sorted) {
    base.update(key + " " + entry->before + "\n");
    digests[key]["before"] = entry->before;
    if (!entry->after.empty()) {
      digests[key]["after"] = entry->after;
    }
    const LowRankEdit& edit = entry->edit;
    layout.push_back({key + ".a", decode::ElementType::kF32, {edit.rank, edit.cols}});
    layout.push_back({key + ".b", decode::ElementType::kF32, {edit.rows, edit.rank}});
  }
  const write::SafetensorsMetadata metadata = {{"format", std::string(kFormat)},
                                               {"base_model_digest", hex(base.finish())},
                                               {"digests", digests.dump()},
                                               {"program", program}};
  write::SafetensorsWriter writer(file, std::move(layout), metadata, write::TensorOrder::kAsGiven);
  std::size_t index = 0;
  for (const auto& [key, entry] : sorted) {
    writer.write(index++, 0, std::as_bytes(std::span(entry->edit.a)));
    writer.write(index++, 0, std::as_bytes(std::span(entry->edit.b)));
  }
  writer.finish();
  file.flush();
}

}  // namespace vindex::edit
