// Owns reading the few bytes of a model, beside its headers, that say what its weights' shapes are:
// `weight_shape`, HQQ's `shape`, `nbits` and `group_size`, bitsandbytes' `quant_state`.
#pragma once

#include <vindex/shard/model_files.hpp>

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

namespace vindex::model {

/// Values of small stored tensors.
class SmallValues {
 public:
  SmallValues() = default;
  /// Reads those of `tensors` (indices into `files.tensors`) that hold 1 to 4096 bytes. Neighbours
  /// within a page share one read, and `threads` (as in IndexOptions) read: on a network store each
  /// is a trip. Errors: those of the sources, the first in the order of shards and offsets.
  SmallValues(const shard::ModelFiles& files, std::vector<std::int32_t> tensors,
              std::int32_t threads);

  /// The bytes of `tensor`; empty where it is -1 or was not read.
  std::span<const std::byte> bytes(std::int32_t tensor) const;
  /// The first number in `tensor`, of I32, I64 or U8.
  std::optional<std::int64_t> number(std::int32_t tensor) const;
  /// The number in `tensor`, of F32.
  std::optional<float> real(std::int32_t tensor) const;
  /// The numbers in `tensor`, where it is a vector of at most four elements of those; else none.
  std::vector<std::int64_t> numbers(std::int32_t tensor) const;
  /// The two numbers in `tensor`, where it is a vector of two elements of those.
  std::optional<std::array<std::int64_t, 2>> pair(std::int32_t tensor) const;

 private:
  struct Place {
    std::int32_t tensor = -1;
    std::size_t begin = 0;  ///< in `bytes_`
    std::size_t size = 0;
  };
  std::optional<std::int64_t> element(std::int32_t tensor, std::size_t index) const;

  const shard::ModelFiles* files_ = nullptr;
  std::vector<Place> places_;  ///< by tensor
  std::vector<std::byte> bytes_;
};

}  // namespace vindex::model
