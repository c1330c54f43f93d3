// Owns the map of blocks, checks that keys agree, and arrays of layers in the new order.
#include "stack.hpp"

#include "gguf/values/encoded_value.hpp"
#include <vindex/error.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <set>

namespace vindex::organ {
namespace {

constexpr std::string_view kBlockCount = "block_count";
constexpr std::string_view kLeadingDense = "leading_dense_block_count";
constexpr std::string_view kNextToken = "nextn_predict_layers";

[[noreturn]] void refuse(const char* id, const std::string& why) {
  throw ConfigurationError(id, why);
}

/// May differ between models whose blocks work together.
bool may_differ(std::string_view name) {
  return name == kBlockCount || name == kLeadingDense || name == kNextToken ||
         name == "context_length" || name == "vocab_size" || name.starts_with("rope.scaling.");
}

/// Arrays that are not one element per block, whatever their length.
bool is_no_layer_array(std::string_view name) {
  return name.starts_with("rope.") || name.starts_with("classifier.");
}

std::vector<std::byte> encoded_key(const GgufSource& model, const gguf::Key& key) {
  const GgufSplit& split = model.splits().front();
  return gguf::encoded_value(key, split.header, *split.source);
}

void add_integer(const gguf::Key& key, std::uint64_t number, gguf::KeySection& keys) {
  const std::size_t width = gguf::number_bytes(key.type);
  expects(width > 0, "add_integer: a key of a number");
  std::vector<std::byte> value(width);
  std::memcpy(value.data(), &number, width);
  keys.add_encoded(key.name, key.type, value);
}

}  // namespace

Stack::Stack(const Recipe& recipe, const std::vector<std::unique_ptr<GgufSource>>& models)
    : host_(*models[recipe.host]), prefix_(host_.architecture() + ".") {
  constexpr std::size_t kMaxBlocks = 100'000;
  for (const RecipeLayers& layers : recipe.layers) {
    const GgufSource& model = *models[layers.donor];
    if (static_cast<std::uint64_t>(layers.last) >= model.block_count()) {
      refuse("E-RECIPE-LAYERS",
             fmt::format("{} has blocks 0 to {}; the recipe asks for {}",
                         printable(recipe.donors[layers.donor].second),
                         static_cast<std::int64_t>(model.block_count()) - 1, layers.last));
    }
    for (std::int32_t block = layers.first; block <= layers.last; ++block) {
      blocks_.push_back({&model, block});
    }
  }
  if (blocks_.size() > kMaxBlocks) {
    refuse("E-RECIPE-LAYERS", fmt::format("{} blocks are more than any model has", blocks_.size()));
  }
  std::set<const GgufSource*> seen = {&host_};
  for (const StackBlock& block : blocks_) {
    if (seen.insert(block.model).second) {
      require_same_keys(*block.model);
    }
  }
  count_special_blocks();
}

void Stack::require_same_keys(const GgufSource& donor) const {
  for (const gguf::Key& key : host_.keys()) {
    if (!key.name.starts_with(prefix_) || key.type == gguf::ValueType::kString ||
        may_differ(std::string_view(key.name).substr(prefix_.size())) || is_layer_array(key)) {
      continue;
    }
    const gguf::Key* other = donor.key(key.name);
    if (other == nullptr || other->type != key.type ||
        encoded_key(donor, *other) != encoded_key(host_, key)) {
      refuse("E-RECIPE-KEYS",
             fmt::format("{} {} {} than the host: their blocks do not work together",
                         printable(donor.path()),
                         other == nullptr ? "lacks" : "has another value or type of",
                         excerpt(key.name)));
    }
  }
}

void Stack::count_special_blocks() {
  const auto special = [&](const StackBlock& block, std::string_view key, bool leading) {
    const std::uint64_t count = block.model->number(prefix_ + std::string(key)).value_or(0);
    const auto at = static_cast<std::uint64_t>(block.block);
    return leading ? at < count : at + count >= block.model->block_count();
  };
  const bool counts_dense = host_.key(prefix_ + std::string(kLeadingDense)) != nullptr;
  for (std::size_t i = 0; i < blocks_.size(); ++i) {
    if (counts_dense && special(blocks_[i], kLeadingDense, true)) {
      if (leading_dense_ != i) {
        refuse("E-RECIPE-LAYERS",
               fmt::format("block {} of the result is dense and stands behind a routed one, which "
                           "{}{} cannot say",
                           i, prefix_, kLeadingDense));
      }
      ++leading_dense_;
    }
    if (special(blocks_[i], kNextToken, false)) {
      ++next_token_;
    } else if (next_token_ > 0) {
      refuse("E-RECIPE-LAYERS",
             fmt::format("block {} of the result stands behind a next-token block, which must be "
                         "the last",
                         i));
    }
  }
  const std::uint64_t before = host_.number(prefix_ + std::string(kNextToken)).value_or(0);
  if (next_token_ != before) {
    notes_.push_back(fmt::format("{} next-token blocks, the host had {}", next_token_, before));
  }
}

bool Stack::is_layer_array(const gguf::Key& key) const {
  return key.type == gguf::ValueType::kArray && key.name.starts_with(prefix_) &&
         key.array_count == host_.block_count() &&
         !is_no_layer_array(std::string_view(key.name).substr(prefix_.size()));
}

std::vector<std::byte> Stack::reindexed(const gguf::Key& key) const {
  constexpr std::size_t kHead = 12;  // element type, count
  std::vector<std::byte> out = gguf::reordered(gguf::read_array(encoded_key(host_, key)), {});
  for (const StackBlock& block : blocks_) {
    const gguf::Key* own = block.model->key(key.name);
    if (own == nullptr || own->type != key.type || own->element_type != key.element_type ||
        own->array_count != block.model->block_count()) {
      refuse("E-RECIPE-KEYS",
             fmt::format("{} has no {} with one element per block, as the host has",
                         printable(block.model->path()), excerpt(key.name)));
    }
    const std::vector<std::byte> value = encoded_key(*block.model, *own);
    const std::size_t index[] = {static_cast<std::size_t>(block.block)};
    const std::vector<std::byte> one = gguf::reordered(gguf::read_array(value), index);
    out.insert(out.end(), one.begin() + kHead, one.end());
  }
  const auto count = static_cast<std::uint64_t>(blocks_.size());
  std::memcpy(out.data() + 4, &count, sizeof count);
  return out;
}

bool Stack::edit(const gguf::Key& key, gguf::KeySection& keys) const {
  if (!key.name.starts_with(prefix_)) {
    return false;
  }
  const std::string_view name = std::string_view(key.name).substr(prefix_.size());
  if (key.type != gguf::ValueType::kArray && key.type != gguf::ValueType::kString) {
    if (name == kBlockCount) {
      add_integer(key, blocks_.size(), keys);
      return true;
    }
    if (name == kLeadingDense || name == kNextToken) {
      add_integer(key, name == kLeadingDense ? leading_dense_ : next_token_, keys);
      return true;
    }
  }
  if (is_layer_array(key)) {
    keys.add_encoded(key.name, key.type, reindexed(key));
    return true;
  }
  return false;
}

}  // namespace vindex::organ
