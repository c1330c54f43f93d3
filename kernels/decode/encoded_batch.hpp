// Owns encoded matrices of one encoding and shape on a device: the way there, and decoding them
// there piece by piece, with the signs of a draw where asked for. Knows nothing of what is computed
// from the weights.
#pragma once

#include "encoded_upload.hpp"

#include "backend/backend.hpp"

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

namespace vindex::kernels {

/// A draw of the sign-flip null; without one the weights are taken as they are. A type of its own,
/// so that no number and no bool becomes a draw by itself.
struct DrawNumber {
  std::uint64_t value;
};
using SignDraw = std::optional<DrawNumber>;

class EncodedBatch {
 public:
  /// Room in `memory` for `most` matrices. Weights are decoded on `stream`, copies go on `copies`;
  /// all of them must outlive the object. Errors: OutOfMemory.
  EncodedBatch(cudaStream_t stream, cudaStream_t copies, DeviceBuffer& memory,
               const SlotLayout& layout, std::int64_t most);

  /// Takes inputs of one kind (statistics::is_same_kind), at most as many as there is room for;
  /// those before are forgotten. Nothing is read yet. `slab_bytes`: see Uploader.
  void begin(std::span<MatrixInput* const> inputs, std::uint64_t slab_bytes = kSlabBytes);
  /// True where the copies of the first `count` have begun.
  bool has_copied(std::size_t count) const { return matrices_.size() >= count; }
  /// Begins the copies of the first `count`. Errors: as upload().
  void copy(std::size_t count);
  /// Sees that the first `count` are on the device before what comes next on the stream. Inputs are
  /// released as their copies end. Errors: DeviceError; read errors of the inputs.
  void upload(std::size_t count);
  /// Waits for the copies that have begun and releases their inputs, so that host memory is the
  /// next batch's while this one is computed. Nothing where there are none.
  void settle();
  /// Waits for the copies and releases every input; no upload comes after it.
  void finish();

  std::size_t size() const { return inputs_.size(); }
  const decode::Encoding& encoding() const { return inputs_.front()->encoding(); }
  /// One that was uploaded.
  const DeviceMatrix& operator[](std::size_t index) const { return matrices_[index]; }

  /// Rows [first, first + count) as float32, row-major without gaps. Does not wait.
  void decode_rows(std::size_t index, SignDraw flip, std::int64_t first, std::int64_t count,
                   float* decoded) const;
  /// The same by way of `decoded`, as float64.
  void decode_rows(std::size_t index, SignDraw flip, std::int64_t first, std::int64_t count,
                   float* decoded, double* wide) const;

 private:
  cudaStream_t stream_;
  cudaStream_t copies_;
  SlotLayout layout_;
  std::int64_t most_;
  std::uint8_t* slots_;
  std::span<MatrixInput* const> inputs_;
  std::vector<DeviceMatrix> matrices_;  ///< those whose copies have begun
  std::size_t ordered_ = 0;             ///< of these, those that the stream waits for
  std::optional<Uploader> uploader_;
};

}  // namespace vindex::kernels
