// Owns which parts of which tensors are replaced, checked and put in order.
#pragma once

#include <vindex/write/rewrite_model.hpp>

#include <cstdint>
#include <vector>

namespace vindex::write {

/// A replaced part of one tensor, in bytes within it. One of `bytes` and `weights` is set.
struct EditPart {
  std::size_t tensor = 0;  ///< index into ModelFiles::tensors
  std::uint64_t begin = 0;
  std::uint64_t end = 0;
  const NewBytes* bytes = nullptr;
  const NewWeights* weights = nullptr;
};

/// A plainly stored tensor as rows of its last dimension.
struct TensorRows {
  std::int64_t rows = 0;
  std::int64_t cols = 0;
  std::uint64_t row_bytes = 0;
};
TensorRows rows_of(const shard::StoredTensor& tensor);

/// The parts by tensor and position. Errors: UsageError E-EDIT; ConfigurationError E-ENCODE-TYPE
/// for weights of a type that is not decoded.
std::vector<EditPart> plan_edit(const shard::ModelFiles& model, const ModelEdit& edit);

}  // namespace vindex::write
