// Owns the Rayleigh-Ritz step on W^T W with float64 products for a batch, slab by slab:
//
//   Y = W X and Z += W^T Y of each slab;   X^T Z = P diag(t) P^T;   V = X P,   R = Z P - V diag(t)
//
// as host/cpu/top/projection.cpp. For the smallest values t are squares, so their bounds add what
// that rounds.
#include "weight_projection.hpp"

#include "core/integers.hpp"
#include "kernels/device/check.hpp"
#include "kernels/device/launch.hpp"

#include <algorithm>
#include <cmath>
#include <numeric>

namespace vindex::kernels {

namespace {

constexpr int kThreads = 256;
constexpr std::int64_t kMaxBlocks = 1024;

std::size_t as_size(std::int64_t value) { return static_cast<std::size_t>(value); }

// Grids: x over the elements of a block, y over matrices.
dim3 element_grid(std::int64_t elements, std::int64_t batch) {
  return dim3(static_cast<unsigned int>(
                  std::clamp<std::int64_t>(ceil_divide(elements, kThreads), 1, kMaxBlocks)),
              static_cast<unsigned int>(batch));
}

// Grid: up to 1,024 blocks, which take elements in turn, x matrices. Block: 256. Shared: none.
// Bound by: memory.
__global__ void stack_kernel(const double* from, std::int64_t leading, std::int64_t stride,
                             double* stacked, std::int64_t p, std::int64_t count) {
  const double* source = from + static_cast<std::int64_t>(blockIdx.y) * stride;
  double* to = stacked + static_cast<std::int64_t>(blockIdx.y) * (p + count) * count;
  for (std::int64_t i = static_cast<std::int64_t>(blockIdx.x) * blockDim.x + threadIdx.x;
       i < p * count; i += static_cast<std::int64_t>(gridDim.x) * blockDim.x) {
    to[i / p * (p + count) + count + i % p] = source[i / p * leading + i % p];
  }
}

// residual -= value * basis, by column.
// Grid: up to 1,024 blocks, which take elements in turn, x matrices. Block: 256. Shared: none.
// Bound by: memory.
__global__ void residual_kernel(double* residual, const double* basis, const double* values,
                                std::int64_t p, std::int64_t count) {
  const std::int64_t matrix = blockIdx.y;
  for (std::int64_t i = static_cast<std::int64_t>(blockIdx.x) * blockDim.x + threadIdx.x;
       i < p * count; i += static_cast<std::int64_t>(gridDim.x) * blockDim.x) {
    const std::int64_t at = matrix * p * count + i;
    residual[at] = fma(-values[matrix * count + i / p], basis[at], residual[at]);
  }
}

}  // namespace

void WeightProjection::reserve(const ProjectionBuffers& bytes) {
  DeviceBuffer* const buffers[] = {&start_buffer_, &sums_buffer_, &result_buffer_, &small_buffer_,
                                   &image_buffer_};
  for (std::size_t i = 0; i < bytes.size(); ++i) {
    (void)buffers[i]->reserve(bytes[i]);
  }
}

void WeightProjection::reserve(const ProjectionShape& shape) {
  shape_ = shape;
  const std::int64_t block = shape.short_side * shape.count;
  const StackedBlock stacked = {shape.short_side, shape.count};
  const std::int64_t image = shape.with_image ? shape.long_side * shape.count : 0;
  start_ = start_buffer_.reserve_array<double>(as_size(shape.batch * stacked.elements()));
  sums_ = sums_buffer_.reserve_array<double>(as_size(shape.batch * block));
  basis_ = result_buffer_.reserve_array<double>(as_size(2 * shape.batch * block));
  residual_ = basis_ + shape.batch * block;
  small_ = small_buffer_.reserve_array<double>(
      as_size(shape.batch * (shape.count * shape.count + shape.count + 2)));
  values_ = small_ + shape.batch * shape.count * shape.count;
  info_ = reinterpret_cast<int*>(values_ + shape.batch * shape.count);
  if (shape.with_image) {
    images_ = image_buffer_.reserve_array<double>(as_size(2 * shape.batch * image));
    turned_images_ = images_ + shape.batch * image;
  }
}

void WeightProjection::orthonormalise_start(const LibraryHandles& handles) {
  const StackedBlock stacked = {shape_.short_side, shape_.count};
  orthonormalise(handles, stacked, start_, shape_.batch, true, info_);
  check(cudaMemsetAsync(sums_, 0,
                        as_size(shape_.batch * shape_.short_side * shape_.count) * sizeof(double),
                        handles.stream));
}

void WeightProjection::start(const LibraryHandles& handles, const ProjectionShape& shape,
                             std::span<const float* const> columns) {
  expects(static_cast<std::int64_t>(columns.size()) == shape.batch, "a start for every matrix");
  reserve(shape);
  auto* pointers = pointer_buffer_.reserve_array<const float*>(columns.size());
  check(cudaMemcpyAsync(pointers, columns.data(), columns.size() * sizeof(const float*),
                        cudaMemcpyHostToDevice, handles.stream));
  widen_blocks(pointers, {shape.short_side, shape.count}, start_, shape.batch, handles.stream);
  orthonormalise_start(handles);
}

void WeightProjection::start(const LibraryHandles& handles, const ProjectionShape& shape,
                             const double* columns, std::int64_t leading, std::int64_t stride) {
  reserve(shape);
  launch(stack_kernel, element_grid(shape.short_side * shape.count, shape.batch), dim3(kThreads), 0,
         handles.stream, columns, leading, stride, start_, shape.short_side, shape.count);
  orthonormalise_start(handles);
}

double* WeightProjection::stacked_image(std::int64_t matrix) const {
  return images_ + matrix * shape_.long_side * shape_.count;
}

void WeightProjection::add(const LibraryHandles& handles, std::int64_t matrix,
                           const WeightSlab& slab) {
  expects(matrix >= 0 && slab.matrices >= 1 && matrix + slab.matrices <= shape_.batch &&
              slab.first >= 0 && slab.first + slab.length <= shape_.long_side,
          "a slab of the batch");
  const StackedBlock stacked = {shape_.short_side, shape_.count};
  const double* basis = stacked.block(start_ + matrix * stacked.elements());
  double* product = nullptr;
  std::int64_t product_leading = slab.length;
  if (shape_.with_image) {
    product = stacked_image(matrix) + slab.first;
    product_leading = shape_.long_side;
  } else {
    product =
        image_buffer_.reserve_array<double>(as_size(slab.matrices * slab.length * shape_.count));
  }
  const std::int64_t product_stride = product_leading * shape_.count;
  const std::int64_t sums_stride = shape_.short_side * shape_.count;
  // Row-major is the transpose in the column-major order of the library.
  const std::int64_t width = slab.over_rows ? shape_.short_side : slab.length;
  const double one = 1.0;
  const double zero = 0.0;
  check(cublasDgemmStridedBatched(
      handles.blas, slab.over_rows ? CUBLAS_OP_T : CUBLAS_OP_N, CUBLAS_OP_N, blas_int(slab.length),
      blas_int(shape_.count), blas_int(shape_.short_side), &one, slab.weights, blas_int(width),
      slab.stride, basis, blas_int(stacked.leading()), stacked.elements(), &zero, product,
      blas_int(product_leading), product_stride, blas_int(slab.matrices)));
  check(cublasDgemmStridedBatched(handles.blas, slab.over_rows ? CUBLAS_OP_N : CUBLAS_OP_T,
                                  CUBLAS_OP_N, blas_int(shape_.short_side), blas_int(shape_.count),
                                  blas_int(slab.length), &one, slab.weights, blas_int(width),
                                  slab.stride, product, blas_int(product_leading), product_stride,
                                  &one, sums_ + matrix * sums_stride, blas_int(shape_.short_side),
                                  sums_stride, blas_int(slab.matrices)));
}

void WeightProjection::finish(const LibraryHandles& handles) {
  const std::int64_t p = shape_.short_side;
  const std::int64_t count = shape_.count;
  const std::int64_t batch = shape_.batch;
  const StackedBlock stacked = {p, count};
  Operand basis = {stacked.block(start_), stacked.leading(), stacked.elements(), true};
  const Operand sums = {sums_, p, p * count, false};
  multiply_batch(handles, count, count, p, basis, sums, small_, count, count * count, batch);
  basis.transposed = false;
  eigen_.solve(handles, small_, count, batch, true, values_, info_ + batch);
  const Operand turn = {small_, count, count * count, false};
  multiply_batch(handles, p, count, count, basis, turn, basis_, p, p * count, batch);
  multiply_batch(handles, p, count, count, sums, turn, residual_, p, p * count, batch);
  if (shape_.with_image) {
    const std::int64_t n = shape_.long_side;
    multiply_batch(handles, n, count, count, {images_, n, n * count, false}, turn, turned_images_,
                   n, n * count, batch);
  }
  launch(residual_kernel, element_grid(p * count, batch), dim3(kThreads), 0, handles.stream,
         residual_, basis_, values_, p, count);
  host_values_.resize(as_size(batch * count));
  host_info_.resize(as_size(2 * batch));
  check(cudaMemcpyAsync(host_values_.data(), values_, host_values_.size() * sizeof(double),
                        cudaMemcpyDeviceToHost, handles.stream));
  check(cudaMemcpyAsync(host_info_.data(), info_, host_info_.size() * sizeof(int),
                        cudaMemcpyDeviceToHost, handles.stream));
  check(cudaStreamSynchronize(handles.stream));
}

const double* WeightProjection::basis(std::int64_t matrix) const {
  return basis_ + matrix * shape_.short_side * shape_.count;
}
const double* WeightProjection::residual(std::int64_t matrix) const {
  return residual_ + matrix * shape_.short_side * shape_.count;
}
const double* WeightProjection::image(std::int64_t matrix) const {
  expects(shape_.with_image, "images are there where they were asked for");
  return turned_images_ + matrix * shape_.long_side * shape_.count;
}
const double* WeightProjection::device_values(std::int64_t matrix) const {
  return values_ + matrix * shape_.count;
}
std::span<const double> WeightProjection::values(std::int64_t matrix) const {
  return std::span(host_values_).subspan(as_size(matrix * shape_.count), as_size(shape_.count));
}
bool WeightProjection::is_sound(std::int64_t matrix) const {
  const std::span<const double> own = values(matrix);
  return host_info_[as_size(matrix)] == 0 && host_info_[as_size(shape_.batch + matrix)] == 0 &&
         std::all_of(own.begin(), own.end(), [](double value) { return std::isfinite(value); });
}

ProjectionBuffers projection_buffers(const ProjectionShape& shape, std::int64_t length,
                                     std::int64_t at_once) {
  const StackedBlock stacked = {shape.short_side, shape.count};
  const std::int64_t block = shape.short_side * shape.count;
  const std::int64_t image = shape.with_image ? shape.batch * 2 * shape.long_side * shape.count
                                              : at_once * length * shape.count;
  const auto bytes = [](std::int64_t elements) {
    return static_cast<std::uint64_t>(elements) * sizeof(double);
  };
  return {bytes(shape.batch * stacked.elements()), bytes(shape.batch * block),
          bytes(shape.batch * 2 * block),
          bytes(shape.batch * (shape.count * (shape.count + 1) + 2)), bytes(image)};
}

std::uint64_t projection_bytes(const ProjectionShape& shape, std::int64_t length,
                               std::int64_t at_once) {
  const ProjectionBuffers buffers = projection_buffers(shape, length, at_once);
  return std::accumulate(buffers.begin(), buffers.end(), std::uint64_t{0});
}

}  // namespace vindex::kernels
