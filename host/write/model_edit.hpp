// Owns what is to be replaced of a model: bytes or weights of its tensors.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace vindex::write {

/// Bytes that take the place of a stored tensor's from `offset` (within it) on.
struct NewBytes {
  std::string tensor;  ///< as stored: raw bytes of its name
  std::uint64_t offset = 0;
  std::span<const std::byte> bytes;
};

/// Weights that take the place of a stored tensor's, seen as rows of its last dimension, from
/// `first_row` on: whole rows. They are encoded by decode::rewrite_matrix(). Of a tensor that is
/// stored plainly; codes whose scales are another tensor are NewBytes, both of them.
struct NewWeights {
  std::string tensor;
  std::int64_t first_row = 0;
  std::span<const float> values;
};

/// What changes. Spans must outlive the call.
struct ModelEdit {
  std::vector<NewBytes> bytes;
  std::vector<NewWeights> weights;
};

}  // namespace vindex::write
