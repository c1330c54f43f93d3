#include "shape_values.hpp"

#include <algorithm>
#include <cstddef>
#include <cstring>
#include <span>

namespace vindex::model {

namespace {

using decode::ElementType;
using shard::StoredTensor;

// A page: reading across a smaller gap costs less than a second request.
constexpr std::uint64_t kLargestGap = 4096;
constexpr std::size_t kLargestRun = 1U << 20U;

struct Run {
  std::uint64_t offset = 0;
  std::vector<std::byte> bytes;
};

bool is_readable(const StoredTensor& tensor) {
  const std::uint64_t width = tensor.type == ElementType::kI64   ? 8
                              : tensor.type == ElementType::kI32 ? 4
                                                                 : 0;
  return width != 0 && tensor.shape.size() == 1 && tensor.shape[0] == 2 &&
         tensor.bytes == 2 * width;
}

std::array<std::int64_t, 2> numbers(const std::byte* bytes, ElementType type) {
  if (type == ElementType::kI64) {
    std::array<std::int64_t, 2> out{};
    std::memcpy(out.data(), bytes, sizeof(out));
    return out;
  }
  std::array<std::int32_t, 2> out{};
  std::memcpy(out.data(), bytes, sizeof(out));
  return {out[0], out[1]};
}

}  // namespace

std::optional<std::array<std::int64_t, 2>> ShapeValues::find(std::int32_t tensor) const {
  const auto found = values_.find(tensor);
  return found == values_.end() ? std::nullopt : std::optional(found->second);
}

ShapeValues read_shape_values(const shard::ModelFiles& files, std::vector<std::int32_t> tensors) {
  const auto stored = [&](std::int32_t i) -> const StoredTensor& {
    return files.tensors[static_cast<std::size_t>(i)];
  };
  std::erase_if(tensors, [&](std::int32_t i) { return !is_readable(stored(i)); });
  std::sort(tensors.begin(), tensors.end(), [&](std::int32_t a, std::int32_t b) {
    return stored(a).shard != stored(b).shard ? stored(a).shard < stored(b).shard
                                              : stored(a).offset < stored(b).offset;
  });

  ShapeValues values;
  for (std::size_t begin = 0; begin < tensors.size();) {
    const std::int32_t shard = stored(tensors[begin]).shard;
    std::size_t end = begin;
    std::vector<Run> runs;
    std::vector<std::size_t> run_of;
    for (; end < tensors.size() && stored(tensors[end]).shard == shard; ++end) {
      const StoredTensor& tensor = stored(tensors[end]);
      const bool joins =
          !runs.empty() &&
          tensor.offset - runs.back().offset <= runs.back().bytes.size() + kLargestGap &&
          tensor.offset - runs.back().offset + tensor.bytes <= kLargestRun;
      if (!joins) {
        runs.push_back({tensor.offset, {}});
      }
      Run& run = runs.back();
      run.bytes.resize(std::max(
          run.bytes.size(), static_cast<std::size_t>(tensor.offset - run.offset + tensor.bytes)));
      run_of.push_back(runs.size() - 1);
    }
    const auto& source = files.shards[static_cast<std::size_t>(shard)].source;
    if (source != nullptr) {
      std::vector<shard::ReadRequest> requests;
      requests.reserve(runs.size());
      for (Run& run : runs) {
        requests.push_back({run.offset, run.bytes});
      }
      source->read_many(requests);
      for (std::size_t k = begin; k < end; ++k) {
        const Run& run = runs[run_of[k - begin]];
        const StoredTensor& tensor = stored(tensors[k]);
        values.insert(tensors[k],
                      numbers(run.bytes.data() + (tensor.offset - run.offset), tensor.type));
      }
    }
    begin = end;
  }
  return values;
}

}  // namespace vindex::model
