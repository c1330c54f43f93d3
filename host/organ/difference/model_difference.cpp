// Owns pairing keys and tensors by name and comparing each pair.
#include "model_difference.hpp"

#include "core/process/parallel.hpp"
#include "engine/run/matrix_pass.hpp"
#include "input/model_files.hpp"
#include "input/model_folder.hpp"
#include "input/open/open_model.hpp"
#include "input/stores/open_store.hpp"
#include "organ/manifest/manifest.hpp"
#include "organ/manifest/manifest_read.hpp"
#include "organ/opening/open_gguf.hpp"
#include "organ/opening/organ_model.hpp"
#include "organ/source/gguf_source.hpp"
#include "organ/source/tensor_pair.hpp"
#include "organ/writing/compose.hpp"
#include <vindex/error.hpp>

#include <algorithm>
#include <cerrno>
#include <memory>
#include <optional>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

namespace vindex::organ {

namespace {

class OpenedSide {
 public:
  /// A GGUF file, a folder of splits or of organs, or a safetensors model.
  explicit OpenedSide(const std::string& path);

  const std::vector<PlacedTensor>& tensors() const { return tensors_; }
  /// Without split.*; none of a safetensors model.
  const std::vector<const gguf::Key*>& keys() const { return keys_; }
  gguf::Value value(const gguf::Key& key) const;
  DiffSide summary() const;
  /// Errors: SystemError E-INPUT-CHANGED (74).
  void require_unchanged() const;

 private:
  void take_gguf();
  void take_safetensors();

  std::string path_;
  std::unique_ptr<GgufSource> gguf_;
  std::optional<input::ModelFiles> files_;
  std::vector<PlacedTensor> tensors_;
  std::vector<const gguf::Key*> keys_;
};

/// Whether the path is for the readers of GGUF: they name what is wrong with everything else.
bool is_gguf(const std::string& path) {
  const auto store = input::open_store(path);
  if (!store->file().empty()) {
    return !store->file().ends_with(".safetensors");
  }
  if (input::member_exists(*store, kManifestName)) {
    return !is_organ_folder(path) || !read_manifest(organ_folder_of(path)).safetensors;
  }
  const std::vector<input::StoreMember> members = store->list();
  return std::any_of(members.begin(), members.end(),
                     [](const auto& member) { return member.name.ends_with(".gguf"); });
}

OpenedSide::OpenedSide(const std::string& path) : path_(path) {
  if (is_gguf(path)) {
    take_gguf();
  } else {
    take_safetensors();
  }
}

void OpenedSide::take_gguf() {
  gguf_ = open_gguf(path_);
  for (std::size_t i = 0; i < gguf_->tensors().size(); ++i) {
    tensors_.push_back(placed(*gguf_, i));
  }
  for (const gguf::Key& key : gguf_->keys()) {
    if (!is_split_key(key.name)) {
      keys_.push_back(&key);
    }
  }
}

void OpenedSide::take_safetensors() {
  files_ = is_organ_folder(path_) ? open_organ_model(path_) : input::open_model(path_);
  for (const input::StoredTensor& tensor : files_->tensors) {
    tensors_.push_back(placed(*files_, tensor));
  }
}

gguf::Value OpenedSide::value(const gguf::Key& key) const {
  const GgufSplit& first = gguf_->splits().front();
  return {key, first.header, *first.source};
}

DiffSide OpenedSide::summary() const {
  DiffSide side = {.path = path_,
                   .format = gguf_ ? "GGUF" : "safetensors",
                   .architecture = gguf_ ? gguf_->architecture() : "",
                   .tensors = tensors_.size(),
                   .keys = keys_.size()};
  for (const PlacedTensor& tensor : tensors_) {
    side.bytes += tensor.bytes;
  }
  return side;
}

void OpenedSide::require_unchanged() const {
  if (gguf_) {
    gguf_->require_unchanged();
    return;
  }
  for (const input::Shard& shard : files_->shards) {
    if (shard.source->identity() != shard.identity) {
      throw SystemError("E-INPUT-CHANGED", EIO,
                        printable(shard.path) + " changed while it was read; run again");
    }
  }
}

/// Slabs of both tensors, encoded and decoded.
constexpr std::uint64_t kComparisonBytes = std::uint64_t{24} << 20U;

KeyValue value_of_key(const gguf::Value& value) {
  KeyValue out = {.type = gguf::type_text(value.key().type, value.key().element_type),
                  .text = value.text(),
                  .count = {},
                  .digest = value.digest()};
  if (value.is_array()) {
    out.count = value.key().array_count;
  }
  return out;
}

void compare_keys(const OpenedSide& a, const OpenedSide& b, ModelDifference& out) {
  std::unordered_map<std::string_view, const gguf::Key*> in_b;
  for (const gguf::Key* key : b.keys()) {
    in_b.emplace(key->name, key);
  }
  for (const gguf::Key* key : a.keys()) {
    const gguf::Value left = a.value(*key);
    KeyDifference difference = {.name = key->name, .a = value_of_key(left), .b = {}, .first = {}};
    const auto found = in_b.find(key->name);
    if (found != in_b.end()) {
      const gguf::Value right = b.value(*found->second);
      difference.b = value_of_key(right);
      in_b.erase(found);
      if (difference.a->digest == difference.b->digest) {
        ++out.same_keys;
        continue;
      }
      if (left.is_array() && right.is_array() &&
          left.key().element_type == right.key().element_type) {
        difference.first = gguf::first_difference(left, right);
      }
    }
    out.keys.push_back(std::move(difference));
  }
  for (const gguf::Key* key : b.keys()) {
    if (in_b.contains(key->name)) {
      out.keys.push_back(
          {.name = key->name, .a = {}, .b = value_of_key(b.value(*key)), .first = {}});
    }
  }
}

TensorDifference compare(const PlacedTensor& a, const PlacedTensor& b) {
  TensorDifference out = {.name = a.name,
                          .organ = classify(a.name),
                          .a = a,
                          .b = b,
                          .state = TensorState::kShape,
                          .report = {}};
  if (!same_shape(a.dimensions, b.dimensions)) {
    return out;
  }
  if (same_bytes(a, b)) {
    out.state = TensorState::kSameBytes;
    out.report.status = MatrixStatus::kMeasured;
    out.report.same_bits = true;
    out.report.cosine = 1.0;
    out.report.relative_error = 0.0;
    out.report.max_abs_difference = 0.0;
    return out;
  }
  out.report = compare_tensors(a, b).report;
  switch (out.report.status) {
    case MatrixStatus::kMeasured:
      out.state = out.report.same_bits ? TensorState::kSameValues : TensorState::kDifferent;
      break;
    case MatrixStatus::kNotFinite:
      out.state = out.report.same_bits ? TensorState::kSameValues : TensorState::kNotFinite;
      break;
    default:
      out.state = TensorState::kUnsupported;
  }
  return out;
}

/// Tensors of both sides that the pattern wants, paired by name.
class Pairing {
 public:
  Pairing(const OpenedSide& a, const OpenedSide& b, const std::string& pattern)
      : selection_(model::parse_selection("", "", "", pattern)) {
    std::unordered_map<std::string_view, std::size_t> in_b;
    for (std::size_t i = 0; i < b.tensors().size(); ++i) {
      if (is_selected(b.tensors()[i])) {
        in_b.emplace(b.tensors()[i].name, i);
      }
    }
    std::size_t last = 0;
    for (const PlacedTensor& tensor : a.tensors()) {
      if (!is_selected(tensor)) {
        continue;
      }
      const auto found = in_b.find(tensor.name);
      if (found == in_b.end()) {
        only_a.push_back({tensor, classify(tensor.name)});
        continue;
      }
      same_order = same_order && found->second >= last;
      last = found->second;
      pairs.emplace_back(&tensor, &b.tensors()[found->second]);
      in_b.erase(found);
    }
    for (const PlacedTensor& tensor : b.tensors()) {
      if (in_b.contains(tensor.name)) {
        only_b.push_back({tensor, classify(tensor.name)});
      }
    }
  }

  std::vector<std::pair<const PlacedTensor*, const PlacedTensor*>> pairs;
  std::vector<LoneTensor> only_a, only_b;
  bool same_order = true;

 private:
  bool is_selected(const PlacedTensor& tensor) const {
    return selection_.tensors == nullptr || name_matches(*selection_.tensors, tensor.name);
  }

  model::Selection selection_;
};

}  // namespace

std::string_view state_name(TensorState state) {
  constexpr std::string_view kNames[] = {"same-bytes", "same-values", "different",
                                         "shape",      "not-finite",  "unsupported"};
  return kNames[static_cast<std::size_t>(state)];
}

bool ModelDifference::is_same() const {
  return keys.empty() && only_a.empty() && only_b.empty() &&
         std::all_of(tensors.begin(), tensors.end(), [](const TensorDifference& tensor) {
           return tensor.state == TensorState::kSameBytes;
         });
}

ModelDifference diff_models(const DiffSettings& settings) {
  const OpenedSide a(settings.a);
  const OpenedSide b(settings.b);
  ModelDifference out;
  out.a = a.summary();
  out.b = b.summary();
  compare_keys(a, b, out);
  Pairing pairing(a, b, settings.tensors);
  if (!settings.tensors.empty() && pairing.pairs.empty() && pairing.only_a.empty() &&
      pairing.only_b.empty()) {
    throw UsageError("E-SELECTION", "--tensors: '" + printable(settings.tensors) +
                                        "' is the whole name of no tensor of either model");
  }
  out.only_a = std::move(pairing.only_a);
  out.only_b = std::move(pairing.only_b);
  out.same_order = pairing.same_order;
  out.tensors.resize(pairing.pairs.size());
  std::vector<engine::RowWork> works;
  for (const auto& pair : pairing.pairs) {
    works.push_back({.row = std::ssize(works),
                     .name = pair.first->name,
                     .reading = engine::Reading::kPieces,
                     .workspace = kComparisonBytes});
  }
  const std::size_t threads = thread_count(kComparisonBytes, settings.threads);
  const engine::RunOutcome pass = engine::pass_over(
      {}, works,
      {.threads = static_cast<std::int32_t>(threads), .ram_budget = 2 * threads * kComparisonBytes},
      [&](std::size_t i, engine::UnitStream& /*unit*/) {
        out.tensors[i] = compare(*pairing.pairs[i].first, *pairing.pairs[i].second);
      },
      {.stop = settings.stop});
  a.require_unchanged();
  b.require_unchanged();
  if (pass.stopped) {
    ModelDifference none;
    none.stopped = true;
    return none;
  }
  return out;
}

}  // namespace vindex::organ
