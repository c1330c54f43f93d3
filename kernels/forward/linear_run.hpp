// Owns one call of linear() on a device: tiles of logical rows go through four stages, each on a
// stream of its own, two tiles at a time: the copy of their codes, decoding, the library's product,
// and the way back of what it gave.
#pragma once

#include "backend/forward_backend.hpp"
#include "kernels/decode/device_slab.hpp"
#include "kernels/device/handles.hpp"
#include "kernels/forward/forward_kernels.hpp"
#include "kernels/forward/forward_plan.hpp"

#include <cstdint>
#include <stop_token>

namespace vindex::kernels {

/// Where forward passes run.
struct ForwardStreams {
  Stream copies = make_stream(), decodes = make_stream(), products = make_stream(),
         returns = make_stream();
  BlasHandle blas = make_blas(products.get());  ///< works on `products`

  /// Until nothing runs any more, whatever happened.
  void wait() const noexcept;
};

/// `rows` rows of `width` floats, `to_stride` and `from_stride` floats from one to the next.
struct RowCopy {
  float* to = nullptr;
  std::int64_t to_stride = 0;
  const float* from = nullptr;
  std::int64_t from_stride = 0;
  std::int64_t width = 0, rows = 0;
};
/// Begins it on `stream`; rows without gaps are copied as one.
void copy_rows(const RowCopy& copy, cudaMemcpyKind kind, cudaStream_t stream);

class LinearRun {
 public:
  /// `arrays` are cut_linear()'s of `tile` for `shape`; everything must outlive the object.
  LinearRun(const ForwardStreams& streams, const ForwardKernels& kernels, const LinearCall& call,
            const LinearShape& shape, const LinearTile& tile, const LinearArrays& arrays);
  /// Waits: host memory may go.
  ~LinearRun() { streams_.wait(); }
  LinearRun(const LinearRun&) = delete;
  LinearRun& operator=(const LinearRun&) = delete;

  /// Errors: DeviceError, Stopped, those of reading the weight.
  void run(const std::stop_token& stop);

 private:
  /// Logical rows [first, first + rows) on the device.
  struct Fed {
    std::int64_t first = 0, rows = 0;
    const float* weights = nullptr;
    std::int64_t stride = 0;  ///< floats between rows, or, of columns, between components
  };

  void feed(std::int64_t tile);
  decode::EncodedMatrix read(std::int64_t first, std::int64_t rows, std::int64_t& skipped);
  void multiply(const Fed& fed, std::int64_t first_token, std::int64_t tokens, bool has_x,
                const Event& decoded);
  void give_back(const Fed& fed, std::int64_t first_token, std::int64_t tokens);
  std::size_t buffer() const { return static_cast<std::size_t>(products_ % 2); }

  const ForwardStreams& streams_;
  const ForwardKernels& kernels_;
  const LinearCall& call_;
  const LinearShape& shape_;
  LinearTile tile_;
  LinearArrays arrays_;
  CompanionCopies companions_{};
  Fed fed_[2];
  std::int64_t products_ = 0;  ///< begun; their results take turns
  // By buffer: what the stage of that name did last in it.
  Event decoded_[2], multiplied_[2], computed_[2], returned_[2], copied_[2];
};

}  // namespace vindex::kernels
