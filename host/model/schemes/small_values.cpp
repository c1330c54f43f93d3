// Owns reading those tensors within bounds, and their numbers.
#include "schemes.hpp"

#include "core/integers.hpp"
#include "core/process/parallel.hpp"

#include <algorithm>
#include <cstring>

namespace vindex::model {

namespace {

using decode::ElementType;
using input::StoredTensor;

// A page: reading across a smaller gap costs less than a second request.
constexpr std::uint64_t kLargestGap = 4096;
constexpr std::uint64_t kLargestValue = 4096;
constexpr std::uint64_t kLargestRun = 1U << 20U;
constexpr std::size_t kRunsPerPiece = 256;

}  // namespace

SmallValues::SmallValues(const input::ModelFiles& files, std::vector<std::int32_t> tensors,
                         std::int32_t threads)
    : files_(&files) {
  const auto stored = [&](std::int32_t i) -> const StoredTensor& {
    return files.tensors[static_cast<std::size_t>(i)];
  };
  std::erase_if(tensors, [&](std::int32_t i) {
    const StoredTensor& tensor = stored(i);
    return tensor.bytes == 0 || tensor.bytes > kLargestValue ||
           files.shards[static_cast<std::size_t>(tensor.shard)].source == nullptr;
  });
  std::sort(tensors.begin(), tensors.end(), [&](std::int32_t a, std::int32_t b) {
    return stored(a).shard != stored(b).shard ? stored(a).shard < stored(b).shard
                                              : stored(a).offset < stored(b).offset;
  });

  // Where each value lies in its run, and the runs one behind the other in one block of memory.
  struct Run {
    std::int32_t shard = -1;
    std::uint64_t offset = 0;
    std::size_t begin = 0;
    std::size_t size = 0;
  };
  std::vector<Run> runs;
  places_.reserve(tensors.size());
  std::size_t total = 0;
  for (const std::int32_t i : tensors) {
    const StoredTensor& tensor = stored(i);
    const std::uint64_t distance =
        runs.empty() || runs.back().shard != tensor.shard ? 0 : tensor.offset - runs.back().offset;
    if (runs.empty() || runs.back().shard != tensor.shard ||
        distance > runs.back().size + kLargestGap || distance + tensor.bytes > kLargestRun) {
      runs.push_back({tensor.shard, tensor.offset, total, 0});
    }
    Run& run = runs.back();
    const auto at = static_cast<std::size_t>(tensor.offset - run.offset);
    const auto size = static_cast<std::size_t>(tensor.bytes);
    run.size = std::max(run.size, at + size);
    total = run.begin + run.size;
    places_.push_back({i, run.begin + at, size});
  }
  bytes_.resize(total);
  const std::size_t pieces = ceil_divide(runs.size(), kRunsPerPiece);
  for_each_index(
      pieces, thread_count(kLargestRun, threads), [&](std::size_t /*worker*/, std::size_t piece) {
        std::vector<ReadRequest> requests;
        const std::size_t end = std::min(runs.size(), (piece + 1) * kRunsPerPiece);
        for (std::size_t i = piece * kRunsPerPiece; i < end; ++i) {
          requests.push_back(
              {runs[i].offset, std::span(bytes_).subspan(runs[i].begin, runs[i].size)});
          if (i + 1 == end || runs[i + 1].shard != runs[i].shard) {
            files.shards[static_cast<std::size_t>(runs[i].shard)].source->read_many(requests);
            requests.clear();
          }
        }
      });
  std::sort(places_.begin(), places_.end(),
            [](const Place& a, const Place& b) { return a.tensor < b.tensor; });
}

std::span<const std::byte> SmallValues::bytes(std::int32_t tensor) const {
  const auto found = std::lower_bound(
      places_.begin(), places_.end(), tensor,
      [](const Place& place, std::int32_t wanted) { return place.tensor < wanted; });
  if (tensor < 0 || found == places_.end() || found->tensor != tensor) {
    return {};
  }
  return std::span(bytes_).subspan(found->begin, found->size);
}

std::optional<std::int64_t> SmallValues::element(std::int32_t tensor, std::size_t index) const {
  const std::span<const std::byte> data = bytes(tensor);
  if (data.empty()) {
    return std::nullopt;
  }
  const ElementType type = files_->tensors[static_cast<std::size_t>(tensor)].type;
  if (type == ElementType::kI64 && data.size() >= 8 * (index + 1)) {
    std::int64_t value = 0;
    std::memcpy(&value, data.data() + 8 * index, 8);
    return value;
  }
  if (type == ElementType::kI32 && data.size() >= 4 * (index + 1)) {
    std::int32_t value = 0;
    std::memcpy(&value, data.data() + 4 * index, 4);
    return value;
  }
  if (type == ElementType::kU8 && data.size() >= index + 1) {
    return static_cast<std::int64_t>(data[index]);
  }
  return std::nullopt;
}

std::optional<std::int64_t> SmallValues::number(std::int32_t tensor) const {
  return element(tensor, 0);
}

std::optional<float> SmallValues::real(std::int32_t tensor) const {
  const std::span<const std::byte> data = bytes(tensor);
  if (data.size() != sizeof(float) ||
      files_->tensors[static_cast<std::size_t>(tensor)].type != ElementType::kF32) {
    return std::nullopt;
  }
  float value = 0.0F;
  std::memcpy(&value, data.data(), sizeof(value));
  return value;
}

std::vector<std::int64_t> SmallValues::numbers(std::int32_t tensor) const {
  std::vector<std::int64_t> values;
  if (tensor < 0 || files_ == nullptr) {
    return values;
  }
  const std::vector<std::int64_t>& shape = files_->tensors[static_cast<std::size_t>(tensor)].shape;
  if (shape.size() != 1 || shape[0] > 4) {
    return values;
  }
  for (std::size_t i = 0; i < static_cast<std::size_t>(shape[0]); ++i) {
    const auto value = element(tensor, i);
    if (!value) {
      return {};
    }
    values.push_back(*value);
  }
  return values;
}

std::optional<std::array<std::int64_t, 2>> SmallValues::pair(std::int32_t tensor) const {
  const std::vector<std::int64_t> values = numbers(tensor);
  return values.size() == 2 ? std::optional(std::array<std::int64_t, 2>{values[0], values[1]})
                            : std::nullopt;
}

}  // namespace vindex::model
