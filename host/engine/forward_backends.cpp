// Choosing the back end of forward passes.
#include "forward_backends.hpp"

#include "cpu/forward/cpu_forward.hpp"
#include "kernels/cuda_factory.hpp"
#include <vindex/error.hpp>

#include <fmt/format.h>

namespace vindex::engine {

std::unique_ptr<measure::ForwardBackend> open_forward(const RunSettings& settings,
                                                      std::string& note) {
  std::string why;
  if (settings.backend != BackendChoice::kCpu) {
    const std::int32_t device = settings.devices.empty() ? 0 : settings.devices.front();
    if (auto backend = kernels::make_cuda_forward_backend(device, why)) {
      note = fmt::format("back end: cuda ({})", backend->info().device);
      return backend;
    }
    if (settings.backend == BackendChoice::kCuda) {
      throw DeviceError(
          "E-NO-GPU",
          fmt::format("--backend cuda: {}; use --backend cpu or auto to run without a GPU", why));
    }
  }
  auto backend = cpu::make_cpu_forward(settings.threads, settings.blas_core);
  const measure::BackendInfo info = backend->info();
  note = fmt::format("back end: cpu ({}, {})", info.device, fmt::join(info.libraries, ", "));
  for (const std::string& text : info.notes) {
    note += (text.starts_with("W-") ? "\nwarning " : "\nwarning: ") + text;
  }
  return backend;
}

}  // namespace vindex::engine
