// Owns the trial of every hand-written kernel, and of the library's eigenvalues, on the device at
// hand, before any result rests on it: fixed seeded inputs, results against arithmetic on the host
// (host_reference.hpp) and against analytic values where there are such. The judge shares nothing
// with what is judged, the libraries on the device included. A kernel that fails is not used;
// nothing is hidden.
#pragma once

#include "cuda_route.hpp"
#include "kernel_table.hpp"

#include "kernels/batch/library_solver.hpp"

#include <functional>
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace vindex::kernels {

/// Order of the larger inputs of band reductions and chases: several strips of any device, panels
/// and a rest.
inline constexpr std::int64_t kTrialOrder = 545;

/// One verdict, with the worst error found and what was allowed.
struct SelfTest {
  KernelTrial trial;
  bool passed = false;
  std::string detail = {};
};

/// What of the self-tests a back end need not make as they are.
struct TrialPlan {
  std::int64_t order = kTrialOrder;  ///< of the larger inputs
  std::vector<SelfTest> known = {};  ///< verdicts that stand: these trials are not made again
};

/// Makes the trials in their order on the lane's device, well under a second for all, and tells
/// each verdict as soon as it is known, so that it outlives what a later kernel does to the device.
/// A kernel whose call throws, memory apart, has failed. Waits for the stream. `trial_order` is
/// that of the larger inputs: tests on the emulation, where kTrialOrder takes seconds, ask for
/// less. Returns the verdict after which nothing runs any more on this device in this process (an
/// illegal address, a trap); trials behind it were not made. Errors: OutOfMemory.
[[nodiscard]] std::optional<SelfTest> run_self_tests(
    SolverLane& lane, const KernelTable& kernels, const DeviceTraits& device,
    std::span<const KernelTrial> wanted, const std::function<void(const SelfTest&)>& tell,
    std::int64_t trial_order = kTrialOrder);

}  // namespace vindex::kernels
