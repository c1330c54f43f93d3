// Finds and loads the CUDA back end when it is first wanted. cuBLAS and cuSOLVER are 187 MB of
// libraries: a program that only inspects a file must not pay for them, so they hang on a module of
// their own.
#include <vindex/kernels/cuda_backend.hpp>

#include <fmt/format.h>

#include <array>
#include <dlfcn.h>
#include <filesystem>
#include <system_error>

namespace vindex::kernels {

namespace {

constexpr const char* kModule = "libvindex_cuda_module.so";
using Switch = void (*)();
using Factory = measure::Backend* (*)(std::int32_t device, std::string* why);

bool launches_are_to_be_awaited = false;

/// Beside the program, or in lib/vindex below the folder above it (installations, apps/ of a build)
/// or the one above that (tests of a build).
std::array<std::filesystem::path, 3> module_candidates() {
  std::error_code ignored;
  const std::filesystem::path program =
      std::filesystem::read_symlink("/proc/self/exe", ignored).parent_path();
  const std::filesystem::path above = program.parent_path();
  return {program / kModule, above / "lib" / "vindex" / kModule,
          above.parent_path() / "lib" / "vindex" / kModule};
}

Factory load_factory(std::string& why) {
  for (const std::filesystem::path& candidate : module_candidates()) {
    std::error_code ignored;
    if (!std::filesystem::exists(candidate, ignored)) {
      continue;
    }
    void* module = ::dlopen(candidate.c_str(), RTLD_NOW | RTLD_LOCAL);
    if (module == nullptr) {
      why = fmt::format("the CUDA module cannot be loaded: {}", ::dlerror());
      return nullptr;
    }
    // The module stays for the life of the process: CUDA's own libraries do not survive being
    // unloaded.
    if (launches_are_to_be_awaited) {
      if (const auto wait = reinterpret_cast<Switch>(::dlsym(module, "vindex_await_launches"))) {
        wait();
      }
    }
    return reinterpret_cast<Factory>(::dlsym(module, "vindex_make_cuda_backend"));
  }
  why =
      fmt::format("the CUDA module {} is neither beside the program nor in ../lib/vindex", kModule);
  return nullptr;
}

}  // namespace

void await_cuda_launches() { launches_are_to_be_awaited = true; }

std::unique_ptr<measure::Backend> make_cuda_backend(std::int32_t device, std::string& why) {
  // The driver's library is asked for first: it is small, and without it the large ones would be
  // loaded for nothing.
  void* driver = ::dlopen("libcuda.so.1", RTLD_LAZY | RTLD_LOCAL);
  if (driver == nullptr) {
    why = "no NVIDIA driver on this machine (libcuda.so.1 is not found)";
    return nullptr;
  }
  const Factory factory = load_factory(why);
  return std::unique_ptr<measure::Backend>(factory == nullptr ? nullptr : factory(device, &why));
}

}  // namespace vindex::kernels
