// Owns choosing where matrices are measured: on the processor or on CUDA devices, as the settings
// ask, with one line for the user that says which it is and why.
#pragma once

#include "backend/backend.hpp"
#include "engine/run_settings.hpp"

#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace vindex::engine {

/// Of "auto", "cpu", "cuda".
std::optional<BackendChoice> backend_choice(std::string_view name);

/// The CUDA devices that the settings ask for or allow, prepared (Backend::prepare()); none where
/// there are none, with the reason.
struct OpenedDevices {
  std::vector<std::unique_ptr<Backend>> backends;
  std::string why;
};
/// Errors: those of Backend::prepare().
OpenedDevices open_devices(const RunSettings& settings);

/// The back ends chosen, one object per device. `note` receives one line on what was chosen and
/// why. Errors: DeviceError E-NO-GPU (70) where CUDA is demanded and absent; those of
/// Backend::prepare().
std::vector<std::unique_ptr<Backend>> open_backends(const RunSettings& settings, std::string& note);
/// The same with what open_devices() gave.
std::vector<std::unique_ptr<Backend>> open_backends(const RunSettings& settings,
                                                    OpenedDevices devices, std::string& note);

/// Lines for a note on variables that were taken out of the environment, each after a line break:
/// what a device's libraries would have made of them.
std::string unset_variables_note(const RunSettings& settings);

/// Back ends that are opened from now on wait for every kernel they launch, so that a fault names
/// the kernel that caused it. Slow; for looking for a fault. Nothing where there is no
/// device. Call it before there are threads.
void await_launches();

}  // namespace vindex::engine
