// Owns the four stages of a tile and the events between them.
#include "linear_run.hpp"

#include "core/integers.hpp"
#include "core/process/stop.hpp"
#include "decode/encoding/code_layout.hpp"
#include "kernels/decode/decode_matrix.hpp"

#include <algorithm>

namespace vindex::kernels {

void ForwardStreams::wait() const noexcept {
  for (const Stream* stream : {&copies, &decodes, &products, &returns}) {
    (void)cudaStreamSynchronize(stream->get());
  }
}

void copy_rows(const RowCopy& copy, cudaMemcpyKind kind, cudaStream_t stream) {
  const auto bytes = [](std::int64_t floats) {
    return static_cast<std::size_t>(floats) * sizeof(float);
  };
  if (copy.width <= 0 || copy.rows <= 0) {
    return;
  }
  if (copy.rows == 1 || (copy.to_stride == copy.width && copy.from_stride == copy.width)) {
    check(cudaMemcpyAsync(copy.to, copy.from, bytes(copy.width * copy.rows), kind, stream));
  } else {
    check(cudaMemcpy2DAsync(copy.to, bytes(copy.to_stride), copy.from, bytes(copy.from_stride),
                            bytes(copy.width), static_cast<std::size_t>(copy.rows), kind, stream));
  }
}

LinearRun::LinearRun(const ForwardStreams& streams, const ForwardKernels& kernels,
                     const LinearCall& call, const LinearShape& shape, const LinearTile& tile,
                     const LinearArrays& arrays)
    : streams_(streams),
      kernels_(kernels),
      call_(call),
      shape_(shape),
      tile_(tile),
      arrays_(arrays) {
  for (auto* events : {&decoded_, &multiplied_, &computed_, &returned_, &copied_}) {
    for (Event& event : *events) {
      event = make_event(false);
    }
  }
}

void LinearRun::run(const std::stop_token& stop) {
  cudaStream_t products = streams_.products.get();
  if (call_.bias != nullptr) {
    copy_rows({.to = arrays_.bias, .from = call_.bias, .width = shape_.count, .rows = 1},
              cudaMemcpyHostToDevice, products);
  }
  const std::int64_t tiles = ceil_divide(shape_.count, tile_.rows);
  throw_if_stopped(stop);
  feed(0);
  for (std::int64_t tile = 0; tile < tiles; ++tile) {
    for (std::int64_t token = 0; token < shape_.tokens; token += tile_.tokens) {
      throw_if_stopped(stop);
      const Fed& fed = fed_[tile % 2];
      const std::int64_t tokens = std::min(tile_.tokens, shape_.tokens - token);
      multiply(fed, token, tokens, tile > 0 && tile_.tokens >= shape_.tokens, decoded_[tile % 2]);
      check(cudaEventRecord(multiplied_[tile % 2].get(), products));
      // The next tile is asked for while this one is multiplied, and before its result, whose copy
      // to pageable memory would be waited for.
      if (token == 0 && tile + 1 < tiles) {
        feed(tile + 1);
      }
      give_back(fed, token, tokens);
      ++products_;
    }
  }
  check(cudaStreamSynchronize(streams_.returns.get()));
}

/// The slab that holds logical rows [first, first + rows); `skipped`: of its columns, before them.
decode::EncodedMatrix LinearRun::read(std::int64_t first, std::int64_t rows,
                                      std::int64_t& skipped) {
  MatrixInput& weight = *call_.weight;
  const std::int64_t stored = call_.first + first * shape_.step;
  const std::int64_t span = shape_.span(rows);
  skipped = 0;
  if (!shape_.columns) {
    return weight.row_slab(stored, span);
  }
  const std::int64_t unit = decode::column_granularity(*shape_.encoding);
  const std::int64_t begin = stored / unit * unit;
  const std::int64_t end = std::min(weight.cols(), ceil_divide(stored + span, unit) * unit);
  skipped = stored - begin;
  return weight.column_slab(begin, end - begin);
}

/// Begins to copy and to decode a tile.
void LinearRun::feed(std::int64_t tile) {
  const auto b = static_cast<std::size_t>(tile % 2);
  cudaStream_t copies = streams_.copies.get();
  cudaStream_t decodes = streams_.decodes.get();
  Fed& fed = fed_[b];
  fed.first = tile * tile_.rows;
  fed.rows = std::min(tile_.rows, shape_.count - fed.first);
  std::int64_t skipped = 0;
  const decode::EncodedMatrix slab = read(fed.first, fed.rows, skipped);
  const decode::CodeWindow window = decode::code_window(slab);
  expects(static_cast<std::uint64_t>(window.width) * static_cast<std::uint64_t>(window.height) <=
              code_room(shape_, tile_.rows),
          "a slab within the memory planned for it");
  if (tile == 0) {
    companions_ = copy_companions(slab, arrays_.companions, copies);
  }
  check(cudaStreamWaitEvent(copies, decoded_[b].get(), 0));  // of the codes that lay there
  const decode::EncodedMatrix copied = copy_codes(slab, arrays_.encoded[b], copies);
  check(cudaEventRecord(copied_[b].get(), copies));
  if (!call_.weight->in_memory()) {
    check(cudaEventSynchronize(copied_[b].get()));  // the next slab takes this one's memory
  }

  check(cudaStreamWaitEvent(decodes, copied_[b].get(), 0));
  check(cudaStreamWaitEvent(decodes, multiplied_[b].get(), 0));
  float* const decoded = shape_.gathers() ? arrays_.wide : arrays_.weights[b];
  decode_matrix(*shape_.encoding, device_view(copied, companions_), decoded, copied.cols, decodes);
  if (shape_.gathers()) {
    kernels_.gather(decoded + skipped, shape_.depth, copied.cols, shape_.step, fed.rows,
                    arrays_.weights[b], decodes);
    fed.weights = arrays_.weights[b];
    fed.stride = fed.rows;
  } else {
    fed.weights = decoded + skipped;
    fed.stride = shape_.columns  ? copied.cols
                 : fed.rows == 1 ? shape_.depth
                                 : shape_.step * shape_.depth;
  }
  check(cudaEventRecord(decoded_[b].get(), decodes));
}

/// Begins the product of a tile with some tokens. `has_x`: they are on the device.
void LinearRun::multiply(const Fed& fed, std::int64_t first_token, std::int64_t tokens, bool has_x,
                         const Event& decoded) {
  cudaStream_t products = streams_.products.get();
  if (!has_x) {
    copy_rows({.to = arrays_.x,
               .to_stride = shape_.depth,
               .from = call_.x + first_token * call_.x_stride,
               .from_stride = call_.x_stride,
               .width = shape_.depth,
               .rows = tokens},
              cudaMemcpyHostToDevice, products);
  }
  const std::size_t b = buffer();
  check(cudaStreamWaitEvent(products, decoded.get(), 0));
  check(cudaStreamWaitEvent(products, returned_[b].get(), 0));
  const float one = 1.0F;
  const float zero = 0.0F;
  // Column-major, as the library takes it: y^T = W x^T.
  check(cublasSgemm(streams_.blas.get(), shape_.columns ? CUBLAS_OP_N : CUBLAS_OP_T, CUBLAS_OP_N,
                    blas_int(fed.rows), blas_int(tokens), blas_int(shape_.depth), &one, fed.weights,
                    blas_int(fed.stride), arrays_.x, blas_int(shape_.depth), &zero, arrays_.y[b],
                    blas_int(fed.rows)));
  if (call_.bias != nullptr) {
    kernels_.bias(arrays_.bias + fed.first, tokens, fed.rows, arrays_.y[b], products);
  }
  check(cudaEventRecord(computed_[b].get(), products));
}

/// Begins to copy a result to where the caller wants it.
void LinearRun::give_back(const Fed& fed, std::int64_t first_token, std::int64_t tokens) {
  cudaStream_t returns = streams_.returns.get();
  const std::size_t b = buffer();
  check(cudaStreamWaitEvent(returns, computed_[b].get(), 0));
  copy_rows({.to = call_.y + first_token * call_.y_stride + fed.first,
             .to_stride = call_.y_stride,
             .from = arrays_.y[b],
             .from_stride = fed.rows,
             .width = fed.rows,
             .rows = tokens},
            cudaMemcpyDeviceToHost, returns);
  check(cudaEventRecord(returned_[b].get(), returns));
}

}  // namespace vindex::kernels
