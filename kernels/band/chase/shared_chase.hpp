// Owns bulge chasing whose sweeps wait for one another and for nobody else: one block per matrix
// where there are matrices enough, several where there are few. Where Stored is Real the
// tridiagonal matrices are those of chase_bands() to the bit, whatever the plan; where it is not,
// those of its number of sweeps, for which chase_plan() then takes the most that fit.
#pragma once

#include "band_chase.hpp"

#include <cstddef>
#include <cstdint>

namespace vindex::kernels {

/// What of a device a plan is made for; 0 multiprocessors: not known.
struct ChaseDevice {
  std::size_t shared_bytes = 0;  ///< that a block may ask for
  int multiprocessors = 0;
};

/// Who works on a matrix.
struct ChasePlan {
  ChaseShape shape;  ///< of one block
  int blocks = 1;    ///< per matrix; more than one are all under way at a time
  /// Time that a batch is expected to take, in cycles of a multiprocessor, for comparisons.
  double cycles = 0.0;
};

/// The plan with the least time for `batch` matrices of order n. Pure. `stored_bytes` and
/// `element_bytes`: of Stored and Real of shared_chase().
///
/// Model     a half step of a sweep takes a fixed time, as each of its sums waits for the one
///           before, and a share of the multiprocessor's shared memory; sweeps of all blocks on it
///           take turns there. The next group of sweeps starts when the last sweep of this one is
///           some steps down and its columns are in global memory. Constants from records of an
///           H200 (bench/results/h200/stages.json), see shared_chase_plan.cpp.
/// Errors    UsageError where not even 2 sweeps fit into shared memory.
ChasePlan chase_plan(std::int64_t n, std::int64_t batch, std::size_t stored_bytes,
                     std::size_t element_bytes, const ChaseDevice& device);

/// The plan for just `sweeps` and `blocks`, for measurements. Errors: UsageError where it does not
/// fit.
ChasePlan chase_plan_of(std::int64_t n, std::int64_t batch, std::size_t element_bytes,
                        const ChaseDevice& device, int sweeps, int blocks);

/// Flags that `batch` matrices need in device memory; for all plans with that many blocks.
constexpr std::int64_t chase_flags(std::int64_t batch, int blocks) {
  constexpr std::int64_t kWriters = 2;
  return blocks > 1 ? batch * blocks * kWriters : 0;
}
/// The most that any plan of chase_plan() for this device needs.
constexpr std::int64_t most_chase_flags(const ChaseDevice& device) {
  return chase_flags(1, device.multiprocessors);
}

/// The longest wait for a flag: some seconds, since a block may wait as long as another takes.
inline constexpr long long kChasePatience = 1LL << 34U;

/// As chase_bands(), which says what bands, diagonals and types are. `flags`: chase_flags(batch,
/// plan.blocks) of them, set to zero here; not used, and may be null, where a matrix has one block.
/// Ordered on `stream`. A wait of more than `patience` cycles ends the kernel with an error and a
/// word in trap_report(). Errors: DeviceError where the blocks do not fit on the device together.
template <typename Stored, typename Real>
void shared_chase(Stored* bands, std::int64_t n, std::int64_t batch, const ChasePlan& plan,
                  int* flags, double* diagonal, double* off_diagonal, cudaStream_t stream,
                  long long patience = kChasePatience);

}  // namespace vindex::kernels
