// Owns the numbers that the plan of a shared chase and its kernel have in common, some of them with
// the chase in lock step.
#pragma once

#include "kernels/band/band_layout.hpp"

#include <cstddef>
#include <cstdint>

namespace vindex::kernels::chase_layout {

/// Two float64 sweeps and their ring fit into the 99 KiB of sm_86, sm_89 and sm_120.
inline constexpr int kMinSweeps = 2;
/// Each sweep has a barrier for its two warps, of which a block has 16. A seventh in float64 would
/// leave 96 registers a thread, which is not enough, and would find the pipe to shared memory
/// taken.
inline constexpr int kMaxSweeps = 6;
inline constexpr int kMaxSweeps32 = 14;
constexpr int max_sweeps(std::size_t element_bytes) {
  return element_bytes == sizeof(float) ? kMaxSweeps32 : kMaxSweeps;
}

/// Warps that read columns, and as many that write them.
constexpr int mover_warps(std::size_t element_bytes) {
  return element_bytes == sizeof(float) ? 1 : 2;
}
constexpr int threads_for(int sweeps, std::size_t element_bytes) {
  return 32 * (2 * sweeps + 2 * mover_warps(element_bytes));
}

/// Blocks of a ring in which sweeps that lie three half steps apart neither wait for columns nor
/// for room: from the one that the last sweep leaves to the one that the first will need next, such
/// that a block is written back before its place is filled again.
constexpr int ring_blocks_for(int sweeps) { return (3 * sweeps + 4) / 2 + 1; }

/// Flags of a block in its shared memory: of each sweep's two warps, the readers, the writers.
constexpr int flags_for(int sweeps) { return 2 * sweeps + 4; }

constexpr std::size_t shared_bytes_for(int sweeps, int ring_blocks, std::size_t element_bytes) {
  constexpr auto kBandElements = static_cast<std::size_t>(kBand);
  const auto ring = static_cast<std::size_t>(ring_blocks) * kBandElements * 2 * kBandElements;
  // Each sweep has room for what its warps pass to each other at two meetings.
  const auto scratch = static_cast<std::size_t>(sweeps) * 4 * kBandElements;
  return (ring + scratch) * element_bytes + static_cast<std::size_t>(flags_for(sweeps)) * 4;
}

/// Steps of a group whose first column is `first`: those in which its first sweep has something to
/// do, and one in which the others' last columns go.
VINDEX_HD constexpr std::int64_t steps_of_group(std::int64_t n, std::int64_t first) {
  return (n - first - 1 + kBand - 1) / kBand + 1;
}

}  // namespace vindex::kernels::chase_layout
