// Owns the search for the dominant eigenvectors of a batch of float32 Gram matrices on the device:
// a block filtered by Chebyshev polynomials, Rayleigh-Ritz, repeated until the residuals are small
// enough. Host sibling: host/cpu/top/chebyshev.hpp.
#pragma once

#include "dense_batch.hpp"

#include <cstdint>
#include <functional>
#include <span>
#include <vector>

namespace vindex::kernels {

/// One Gram matrix on the device: symmetric, both triangles, column-major.
struct GramView {
  const float* data = nullptr;
  std::int64_t leading = 0;
  double trace = 0.0;      ///< of the matrix in memory
  double frobenius = 0.0;  ///< its norm; more than 0
};

/// What was found for one matrix; estimates, in the scale of the matrix in memory. What is certain
/// is taken from the weights themselves afterwards (weight_projection.hpp).
struct TopSubspace {
  bool converged = true;          ///< false: a library iteration failed; nothing else is set
  std::vector<double> values;     ///< [width] Ritz values, descending
  std::vector<double> residuals;  ///< [width] |G v - value v|
  std::int32_t rounds = 0;
  /// Device, p x width, orthonormal to float32; until the next find().
  const float* basis = nullptr;
};

/// Keeps its device memory between calls.
class SubspaceFinder {
 public:
  /// Says of matrix `index` whether values and residuals will do.
  using Enough = std::function<bool(std::size_t index, std::span<const double> values,
                                    std::span<const double> residuals)>;

  /// `width` <= p columns, more than are wanted: the rest guards. At most 8 rounds; a matrix that
  /// is done takes no further part, so its values do not depend on its neighbours. Waits for the
  /// stream once per round. Deterministic: the start is a fixed pseudo-random block. The filter of
  /// a matrix runs in tf32 while its residuals are far above what that can resolve, and in float32
  /// after that; values and residuals are always taken in float32 and float64.
  /// Source: Zhou, Saad, Tiago, Chelikowsky 2006 (scaled recurrence); degree capped so that the
  /// filter's range stays within float32.
  std::vector<TopSubspace> find(const LibraryHandles& handles, std::span<const GramView> grams,
                                std::int64_t p, std::int64_t width, const Enough& enough);

 private:
  struct Member;
  void filter(const LibraryHandles& handles, std::span<Member*> members, std::int64_t p,
              std::int64_t width, bool rough);
  void rayleigh_ritz(const LibraryHandles& handles, std::span<Member*> members, std::int64_t p,
                     std::int64_t width);

  DeviceBuffer blocks_{"filtered blocks"};
  DeviceBuffer products_{"filtered blocks"};
  DeviceBuffer pointers_{"addresses of a batch"};
  DeviceBuffer stacked_{"orthonormal bases"};
  DeviceBuffer images_{"bases times Gram matrices"};
  DeviceBuffer rotated_{"Ritz vectors"};
  DeviceBuffer small_{"projected matrices"};
  SmallEigen eigen_;
};

/// Device bytes that find() takes for `batch` matrices.
std::uint64_t subspace_bytes(std::int64_t p, std::int64_t width, std::int64_t batch);

}  // namespace vindex::kernels
