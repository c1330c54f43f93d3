// Owns what a kernel leaves behind when it ends itself. The runtime calls every such end, and every
// fault, "unspecified launch failure"; a word in host memory outlives the context and says which it
// was.
#pragma once

#include <cstdint>
#include <string>

namespace vindex::kernels {

/// Written by one thread, just before the trap; all zero: nothing was.
struct alignas(16) TrapReport {
  std::uint32_t code = 0;  ///< trap_code()
  std::uint32_t block_x = 0, block_z = 0;
  std::uint32_t thread = 0;
};

/// Where a kernel may end itself.
enum class TrapSite : std::uint32_t {
  kNone = 0,
  kFullStage,   ///< a stage of operands that does not come
  kEmptyStage,  ///< a stage that is not given back
  kNorms,       ///< the shares of a norm
  kAlignment,   ///< operands where the swizzle cannot be
  kChaseFlag,   ///< a flag of a chase; in place of a stage, who waits (shared_chase.cu)
};

/// How long a kernel waits for what another thread of its block owes it before it ends itself, in
/// cycles: half a minute, of which a sound one needs microseconds.
inline constexpr std::uint64_t kWaitCycles = std::uint64_t{1} << 36U;

/// The first word of a report: site, stage of the ring, parity of the phase waited for.
constexpr std::uint32_t trap_code(TrapSite site, std::uint32_t stage, std::uint32_t parity) {
  return static_cast<std::uint32_t>(site) | stage << 8U | parity << 16U;
}

/// Of this process, in host memory that every device writes to; null where there is none to be had.
/// Kernels get it as an argument. Never given back: a broken context could not.
TrapReport* trap_report();

/// "a kernel ended itself: ..." of what stands in the report, or "".
std::string trap_text();

/// Forgets what stands there.
void clear_trap_report();

}  // namespace vindex::kernels
