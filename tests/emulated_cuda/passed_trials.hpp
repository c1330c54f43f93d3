// Owns the verdicts that tests of what lies behind the self-tests begin with: those take seconds in
// the emulation, and are tested by themselves (tests/kernels/route/self_test_test.cpp).
#pragma once

#include "kernels/route/self_test.hpp"

#include <functional>

namespace vindex::test {

/// Every trial that `auto` and `two-stage` want on the emulated device, in any mode, as passed, but
/// those for which `is_open` is true: a back end makes these.
kernels::TrialPlan passed_trials(
    const std::function<bool(const kernels::KernelTrial&)>& is_open = {});

}  // namespace vindex::test
