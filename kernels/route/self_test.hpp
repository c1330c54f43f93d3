// Owns the trial of every hand-written kernel on the device at hand, before any result rests on it:
// fixed seeded inputs, results against the numerical libraries on the same device (and against
// analytic values where there are such). A kernel that fails is not used; nothing is hidden.
#pragma once

#include "batch/library_solver.hpp"
#include "route/cuda_route.hpp"
#include "route/kernel_table.hpp"

#include <span>
#include <string>
#include <vector>

namespace vindex::kernels {

/// One verdict, with the worst error found and what was allowed; of both variants where there are
/// two (TestVerdicts).
struct SelfTest {
  KernelUnderTest kernel;
  bool passed = false;
  bool plain_passed = false;
  std::string detail;
};

/// Tries the kernels `wanted` on the lane's device; takes well under a second. Order of the result
/// as in `wanted`. A kernel that throws a DeviceError has failed; waits for the stream.
/// Errors: OutOfMemory; DeviceError where a kernel left the device unusable for this process.
std::vector<SelfTest> run_self_tests(SolverLane& lane, const KernelTable& kernels,
                                     const DeviceTraits& device,
                                     std::span<const KernelUnderTest> wanted);

}  // namespace vindex::kernels
