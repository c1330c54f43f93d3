// Owns which parts of which tensors are replaced, checked and put in order, and the way of one
// tensor from its source to a writer: copied, or replaced part by part.
#pragma once

#include "model_edit.hpp"

#include "core/process/stop.hpp"
#include "decode/encode/rewrite_matrix.hpp"
#include "input/model_files.hpp"
#include <vindex/error.hpp>

#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <stop_token>
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
TensorRows rows_of(const input::StoredTensor& tensor);

/// The parts by tensor and position. Errors: UsageError E-EDIT; ConfigurationError E-ENCODE-TYPE
/// for weights of a type that is not decoded.
std::vector<EditPart> plan_edit(const input::ModelFiles& model, const ModelEdit& edit);

/// Takes bytes of a tensor from `offset` (within it) on.
using TensorSink = std::function<void(std::uint64_t offset, std::span<const std::byte> bytes)>;

/// One pass over a model's tensors; its buffers are kept from one to the next.
class TensorCopy {
 public:
  /// All must outlive this.
  TensorCopy(const input::ModelFiles& model, const std::vector<EditPart>& parts,
             std::stop_token stop = {});

  /// Gives all bytes of tensor `index` of the model to `to`, in order. Throws Stopped.
  void run(std::size_t index, const TensorSink& to);
  const decode::RewriteCounts& counts() const { return counts_; }

 private:
  void stream(const input::StoredTensor& tensor, std::uint64_t begin, std::uint64_t end,
              const TensorSink& sink);
  void encode(const input::StoredTensor& tensor, const NewWeights& weights, const TensorSink& sink);

  const input::ModelFiles& model_;
  const std::vector<EditPart>& parts_;
  std::stop_token stop_;
  std::vector<std::byte> buffer_;
  std::vector<std::byte> encoded_;
  decode::RewriteCounts counts_;
};

/// Gives bytes [0, source.size()) to `sink`, in order.
void copy_source(ByteSource& source, const TensorSink& sink);

}  // namespace vindex::write
