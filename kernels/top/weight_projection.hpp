// Owns the exact half of a subspace method on the device: one pass over the weights in float64
// gives the Ritz pairs of W^T W (short side) within given subspaces, their residuals, and on
// request the vectors of the other side. Errors of a float32 Gram do not enter. Host sibling:
// host/cpu/top/projection.hpp.
#pragma once

#include "dense_batch.hpp"

#include <array>
#include <cstdint>
#include <span>
#include <vector>

namespace vindex::kernels {

/// Shape of a batch; matrices tall (long_side x short_side), whatever they are stored as.
struct ProjectionShape {
  std::int64_t short_side = 0, long_side = 0;
  std::int64_t count = 0;  ///< columns per matrix
  std::int64_t batch = 0;
  bool with_image = false;
};

/// A piece of decoded weights on the device in float64, row-major as stored.
struct WeightSlab {
  const double* weights = nullptr;
  /// True: rows [first, first + length) of a tall matrix, `length` x short_side. False: as many
  /// columns of a wide one, short_side x `length`.
  bool over_rows = true;
  std::int64_t first = 0, length = 0;
  /// The same piece of so many matrices of the batch, one after the other, `stride` weights apart.
  std::int64_t matrices = 1, stride = 0;
};

/// Device bytes of each array that grows for itself.
using ProjectionBuffers = std::array<std::uint64_t, 5>;

/// In this order: start_*(), add() for every slab of every matrix, finish(). Keeps its device
/// memory between batches.
class WeightProjection {
 public:
  /// Takes so much memory at once. Errors: OutOfMemory.
  void reserve(const ProjectionBuffers& bytes);
  /// From float32 columns (SubspaceFinder), p x count each, on the device.
  void start(const LibraryHandles& handles, const ProjectionShape& shape,
             std::span<const float* const> columns);
  /// From float64 columns with `leading` and `stride`, such as eigenvectors.
  void start(const LibraryHandles& handles, const ProjectionShape& shape, const double* columns,
             std::int64_t leading, std::int64_t stride);
  /// A slab of `matrix` and of those behind it that it holds.
  void add(const LibraryHandles& handles, std::int64_t matrix, const WeightSlab& slab);
  /// Rotates everything to Ritz vectors. Waits for the stream.
  void finish(const LibraryHandles& handles);

  // Results, on the device, column-major and contiguous per matrix; columns by descending value.
  const ProjectionShape& shape() const { return shape_; }
  /// p x count, orthonormal.
  const double* basis(std::int64_t matrix) const;
  /// p x count: W^T W v - value v.
  const double* residual(std::int64_t matrix) const;
  /// n x count: W v.
  const double* image(std::int64_t matrix) const;
  const double* device_values(std::int64_t matrix) const;
  // Results, on the host.
  /// Ritz values of W^T W: lower bounds of its largest eigenvalues.
  std::span<const double> values(std::int64_t matrix) const;
  /// False where the columns were dependent or the small eigenvalue iteration failed.
  bool is_sound(std::int64_t matrix) const;

 private:
  void reserve(const ProjectionShape& shape);
  void orthonormalise_start(const LibraryHandles& handles);
  double* stacked_image(std::int64_t matrix) const;

  ProjectionShape shape_;
  double *start_ = nullptr, *sums_ = nullptr, *images_ = nullptr, *small_ = nullptr;
  double *values_ = nullptr, *basis_ = nullptr, *residual_ = nullptr, *turned_images_ = nullptr;
  int* info_ = nullptr;  ///< of the basis, of the eigenpairs
  std::vector<double> host_values_;
  std::vector<int> host_info_;
  DeviceBuffer start_buffer_{"orthonormal bases"};
  DeviceBuffer sums_buffer_{"weights times bases"};
  DeviceBuffer image_buffer_{"singular vectors"};
  DeviceBuffer small_buffer_{"projected matrices"};
  DeviceBuffer result_buffer_{"Ritz vectors"};
  DeviceBuffer pointer_buffer_{"addresses of a batch"};
  SmallEigen eigen_;
};

/// For `shape` and slabs of `length` of `at_once` matrices.
ProjectionBuffers projection_buffers(const ProjectionShape& shape, std::int64_t length,
                                     std::int64_t at_once);
/// Their sum.
std::uint64_t projection_bytes(const ProjectionShape& shape, std::int64_t length,
                               std::int64_t at_once);

}  // namespace vindex::kernels
