// Owns the distribution of tensors over files: split keys and sizes.
#include "composition.hpp"

#include <vindex/error.hpp>

#include <fmt/format.h>

#include <limits>
#include <utility>

namespace vindex::organ {
namespace {

constexpr const char* kNumber = "split.no";
constexpr const char* kCount = "split.count";
constexpr const char* kTensors = "split.tensors.count";

void add_split_keys(gguf::KeySection& keys, std::size_t number, std::size_t count,
                    std::size_t tensors) {
  keys.add<std::uint16_t>(kNumber, static_cast<std::uint16_t>(number));
  keys.add<std::uint16_t>(kCount, static_cast<std::uint16_t>(count));
  keys.add<std::int32_t>(kTensors, static_cast<std::int32_t>(tensors));
}

}  // namespace

bool is_split_key(std::string_view name) {
  return name == kNumber || name == kCount || name == kTensors;
}

ComposedTensor passed_through(const GgufSource& source, std::size_t tensor) {
  const OrganTensor& own = source.tensors()[tensor];
  return {.layout = own, .source = &source, .tensor = tensor, .sha256 = own.sha256};
}

std::vector<ComposedTensor> passed_through(const GgufSource& source) {
  std::vector<ComposedTensor> tensors;
  for (std::size_t i = 0; i < source.tensors().size(); ++i) {
    tensors.push_back(passed_through(source, i));
  }
  return tensors;
}

Composition single_file(gguf::KeySection keys, std::vector<ComposedTensor> tensors) {
  Composition composition;
  ComposedFile& file = composition.files.emplace_back();
  file.keys = std::move(keys);
  file.tensor_count = tensors.size();
  composition.tensors = std::move(tensors);
  return composition;
}

Composition split_by_size(gguf::KeySection keys, std::vector<ComposedTensor> tensors,
                          std::uint64_t shard_bytes) {
  std::vector<std::size_t> counts = {0};
  std::uint64_t shard_size = 0;
  for (const ComposedTensor& tensor : tensors) {
    const std::uint64_t bytes = gguf::stored_bytes(tensor.layout);
    if (shard_bytes > 0 && counts.back() > 0 &&
        (bytes > shard_bytes || shard_size > shard_bytes - bytes)) {
      counts.push_back(0);
      shard_size = 0;
    }
    ++counts.back();
    shard_size += bytes;
  }
  if (counts.size() == 1) {
    return single_file(std::move(keys), std::move(tensors));
  }
  if (counts.size() > std::numeric_limits<std::uint16_t>::max() ||
      tensors.size() > static_cast<std::size_t>(std::numeric_limits<std::int32_t>::max())) {
    throw UsageError("E-SHARDS",
                     fmt::format("{} files: split.count holds 65535 at most; give larger shards",
                                 counts.size()));
  }
  const std::uint64_t alignment = keys.alignment();
  Composition composition;
  for (std::size_t i = 0; i < counts.size(); ++i) {
    ComposedFile& file = composition.files.emplace_back();
    file.tensor_count = counts[i];
    if (i == 0) {
      file.keys = std::move(keys);
    }
    add_split_keys(file.keys, i, counts.size(), tensors.size());
    constexpr std::uint64_t kDefaultAlignment = 32;
    if (i > 0 && alignment != kDefaultAlignment) {
      file.keys.add<std::uint32_t>("general.alignment", static_cast<std::uint32_t>(alignment));
    }
  }
  composition.tensors = std::move(tensors);
  return composition;
}

}  // namespace vindex::organ
