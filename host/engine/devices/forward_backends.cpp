// Owns the choice of the back end of forward passes.
#include "forward_backends.hpp"

#include "backends.hpp"

#include "cpu/forward/cpu_forward.hpp"
#include "kernels/cuda_factory.hpp"
#include <vindex/error.hpp>

#include <fmt/format.h>

namespace vindex::engine {

namespace {

/// Of the device that is asked for, or the first; null, and why, where there is none to be had. One
/// that gives wrong numbers is none where any back end will do.
std::unique_ptr<ForwardBackend> make_on_device(const RunSettings& settings, std::string& why) {
  const std::int32_t device = settings.devices.empty() ? 0 : settings.devices.front();
  try {
    return kernels::make_cuda_forward_backend(device, why);
  } catch (const DeviceError& error) {
    if (settings.backend == BackendChoice::kCuda) {
      throw;
    }
    why = error.what();
    return nullptr;
  }
}

}  // namespace

std::unique_ptr<ForwardBackend> open_forward(const RunSettings& settings, std::string& note) {
  std::string why;
  if (settings.backend != BackendChoice::kCpu) {
    if (auto backend = make_on_device(settings, why)) {
      note = fmt::format("back end: cuda ({})", backend->info().device);
      note += unset_variables_note(settings);
      return backend;
    }
    if (settings.backend == BackendChoice::kCuda) {
      throw DeviceError(
          "E-NO-GPU",
          fmt::format("--backend cuda: {}; use --backend cpu or auto to run without a GPU", why));
    }
  }
  auto backend = cpu::make_cpu_forward(settings.threads, settings.blas_core);
  const BackendInfo info = backend->info();
  note = fmt::format("back end: cpu ({}, {})", info.device, fmt::join(info.libraries, ", "));
  if (settings.backend == BackendChoice::kAuto) {
    note += fmt::format("; no GPU is used: {}", why);
  }
  for (const std::string& text : info.notes) {
    note += (text.starts_with("W-") ? "\nwarning " : "\nwarning: ") + text;
  }
  return backend;
}

}  // namespace vindex::engine
