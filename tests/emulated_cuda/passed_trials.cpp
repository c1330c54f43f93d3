// Owns the list of trials that any route may ask for, all of them passed but those that a test
// leaves open.
#include "passed_trials.hpp"

#include "emulated_backend.hpp"

#include <algorithm>

namespace vindex::test {

kernels::TrialPlan passed_trials(const std::function<bool(const kernels::KernelTrial&)>& is_open) {
  constexpr kernels::DeviceTraits kDevice = {
      .major = 9, .minor = 0, .shared_bytes = 227U << 10U, .multiprocessors = 4};
  kernels::TrialPlan plan{.order = kEmulatedTrialOrder};
  for (const char* const route : {"auto", "two-stage"}) {
    for (const SpectrumMode mode :
         {SpectrumMode::kFast, SpectrumMode::kDefault, SpectrumMode::kStrict}) {
      for (const kernels::KernelTrial& trial :
           trials_wanted(kernels::parse_route(route), mode, kDevice)) {
        if ((!is_open || !is_open(trial)) &&
            std::none_of(plan.known.begin(), plan.known.end(),
                         [&](const kernels::SelfTest& one) { return one.trial == trial; })) {
          plan.known.push_back({.trial = trial, .passed = true});
        }
      }
    }
  }
  return plan;
}

}  // namespace vindex::test
