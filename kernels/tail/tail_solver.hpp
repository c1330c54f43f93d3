// Owns the search for the few smallest singular values that Gram matrices of a batch have lost, on
// the device: eigenvectors of the smallest eigenvalues of the bands that the reduction left, by
// inverse iteration of a block; turned back by the factor that it kept; Ritz pairs of W^T W by one
// pass over the weights in float64; corrections where those are not exact enough. Why that is
// enough stands in statistics/judgement/judgement.hpp, and the host sibling is host/cpu/tail.
//
// Nothing here is certain before the residuals of a pass say so: a kernel that is a little wrong
// costs the float64 spectrum that it was to save. One that hangs, faults or harms the reduction
// would cost more, so all are tried first (route/self_test_tail.cpp).
//
// Bits of a matrix do not depend on its neighbours: cuBLAS and cuSOLVER are always called for as
// many matrices as there are slots, and slots follow from shape and device; our own kernels take
// the slots in use.
#pragma once

#include "kernels/route/kernel_table.hpp"
#include "kernels/top/weight_projection.hpp"

#include <cstdint>
#include <span>
#include <utility>
#include <vector>

namespace vindex::kernels {

/// What the reduction of a batch left on the device.
struct KeptReduction {
  const void* matrices = nullptr;  ///< of band_order(p) squared, with their factors
  const void* bands = nullptr;
  bool is_float32 = false;  ///< both float, else double
  int wide_warps = 0;       ///< of wide_back_transform(), of float; 0: back_transform()
};

/// One matrix of it.
struct TailMember {
  std::int64_t position = 0;  ///< in the batch
  std::int32_t exponent = 0;  ///< W^T W is 2^exponent Q B Q^T
  double shift = 0.0;         ///< that makes the band positive definite
};

/// How matrices of one shape that lost about as many values are worked on together.
struct TailShape {
  std::int64_t p = 0, n = 0;
  std::int64_t width = 0;  ///< columns carried for a matrix
  std::int64_t slots = 0;  ///< matrices at a time
  friend bool operator==(const TailShape&, const TailShape&) = default;
};
/// `lost` at least 1; `multiprocessors` 0: not known.
TailShape tail_shape(std::int64_t p, std::int64_t n, std::int64_t lost, int multiprocessors);
/// The most values that are looked for again: p / 16, 0 where p is too small for that.
std::int64_t max_tail_values(std::int64_t p);
/// Of the columns, how many are as exact as the `lost` wanted ones; the others guard them.
std::int64_t settled_columns(const TailShape& shape, std::int64_t lost);

/// In this order: start(), then add() for every slab of every matrix, finish(), and as often as
/// wanted correct(), add() and finish() again. Keeps its device memory between batches.
class TailSolver {
 public:
  /// Takes the memory that device_bytes() counts at once, so that growing does not hold up what the
  /// device does, and running out of it costs nothing that was read. Errors: OutOfMemory.
  void reserve(std::int64_t p, std::int64_t n, std::int64_t slab_length, int multiprocessors);
  /// `members`: at most shape.slots; `kept` and `kernels` must stay. Waits for the stream.
  void start(const LibraryHandles& handles, const KernelTable& kernels, const KeptReduction& kept,
             const TailShape& shape, std::span<const TailMember> members);
  void add(const LibraryHandles& handles, std::int64_t member, const WeightSlab& slab) {
    projection_.add(handles, member, slab);
  }
  /// Waits for the stream.
  void finish(const LibraryHandles& handles);
  /// Every Ritz vector v becomes v - (Q B Q^T)^-1 r with its residual r. A member without slabs
  /// since then means nothing any more.
  void correct(const LibraryHandles& handles);

  // Results, descending.
  /// Squares of singular values of W on the basis.
  std::span<const double> squares(std::int64_t member) const { return projection_.values(member); }
  std::span<const double> residuals(std::int64_t member) const;
  /// False where a band, a basis or a small eigenproblem failed.
  bool is_sound(std::int64_t member) const;

  /// Device bytes for matrices that lose up to max_tail_values(p) values, slabs of `slab_length`
  /// being added.
  static std::uint64_t device_bytes(std::int64_t p, std::int64_t n, std::int64_t slab_length,
                                    int multiprocessors);

 private:
  struct Arrays;
  static std::pair<std::uint64_t, ProjectionBuffers> max_bytes(std::int64_t p, std::int64_t n,
                                                               std::int64_t slab_length,
                                                               int multiprocessors);
  Arrays arrays();
  template <typename Real>
  void search(const LibraryHandles& handles, std::span<const TailMember> members);
  void turn(const LibraryHandles& handles, bool transposed, const double* from, double* to);

  const KernelTable* kernels_ = nullptr;
  KeptReduction kept_;
  TailShape shape_;
  std::int64_t used_ = 0;
  WeightProjection projection_;
  DeviceBuffer memory_{"the smallest singular vectors"};
  std::vector<double> host_norms_;
  std::vector<int> host_info_;
};

}  // namespace vindex::kernels
