// Owns choosing back ends.
#include "backends.hpp"

#include "blas/blas_library.hpp"
#include "core/files/path_kind.hpp"
#include "core/process/parallel.hpp"
#include "cpu/cpu_backend.hpp"
#include "kernels/cuda_factory.hpp"
#include <vindex/error.hpp>

#include <fmt/format.h>

#include <utility>

namespace vindex::engine {

namespace {

/// Devices looked for with `--device all`.
constexpr std::int32_t kMaxDevices = 64;

}  // namespace

std::optional<BackendChoice> backend_choice(std::string_view name) {
  return name == "auto"   ? std::optional(BackendChoice::kAuto)
         : name == "cpu"  ? std::optional(BackendChoice::kCpu)
         : name == "cuda" ? std::optional(BackendChoice::kCuda)
                          : std::nullopt;
}

std::string unset_variables_note(const RunSettings& settings) {
  std::string note;
  for (const std::string& variable : settings.provenance.unset_variables) {
    note += fmt::format(
        "\nwarning W-ENVIRONMENT: {} would change the arithmetic of the device's libraries: unset "
        "for this run",
        printable(variable));
  }
  return note;
}

void await_launches() { kernels::await_cuda_launches(); }

OpenedDevices open_devices(const RunSettings& settings) {
  OpenedDevices opened;
  if (settings.backend == BackendChoice::kCpu) {
    return opened;
  }
  if (settings.devices.empty()) {
    for (std::int32_t device = 0; device < kMaxDevices; ++device) {
      std::string reason;
      auto backend = kernels::make_cuda_backend(device, reason);
      if (backend == nullptr) {
        opened.why = device == 0 ? reason : opened.why;
        break;
      }
      opened.backends.push_back(std::move(backend));
    }
  } else {
    for (const std::int32_t device : settings.devices) {
      auto backend = kernels::make_cuda_backend(device, opened.why);
      if (backend == nullptr) {
        opened.backends.clear();
        break;
      }
      opened.backends.push_back(std::move(backend));
    }
  }
  for (const auto& backend : opened.backends) {
    backend->prepare(settings.options);
  }
  return opened;
}

std::vector<std::unique_ptr<Backend>> open_backends(const RunSettings& settings,
                                                    std::string& note) {
  return open_backends(settings, open_devices(settings), note);
}

std::vector<std::unique_ptr<Backend>> open_backends(const RunSettings& settings,
                                                    OpenedDevices devices, std::string& note) {
  std::vector<std::unique_ptr<Backend>> backends = std::move(devices.backends);
  const std::string& why = devices.why;
  if (backends.empty() && settings.backend == BackendChoice::kCuda) {
    throw DeviceError(
        "E-NO-GPU",
        fmt::format("--backend cuda: {}; use --backend cpu or auto to run without a GPU", why));
  }
  if (backends.empty()) {
    backends.push_back(cpu::make_cpu_backend(settings.threads, settings.blas_core,
                                             settings.matrix_unit
                                                 ? cpu::MatrixUnitPreference::kBest
                                                 : cpu::MatrixUnitPreference::kNone));
    const BackendInfo info = backends.front()->info();
    note =
        fmt::format("back end: cpu ({}, {} workers, {})", info.device,
                    backends.front()->limits().concurrent_calls, fmt::join(info.libraries, ", "));
    if (settings.backend == BackendChoice::kAuto) {
      note += fmt::format("; no GPU is used: {}", why);
    }
  } else {
    note = "back end: cuda (";
    for (std::size_t i = 0; i < backends.size(); ++i) {
      note += (i == 0 ? "" : ", ") + backends[i]->info().device;
    }
    note += ")";
    note += unset_variables_note(settings);
  }
  for (const auto& backend : backends) {
    backend->prepare(settings.options);  // of a device it was done
    for (const std::string& text : backend->info().notes) {
      note += (text.starts_with("W-") ? "\nwarning " : "\nwarning: ") + text;
    }
  }
  return backends;
}

}  // namespace vindex::engine
