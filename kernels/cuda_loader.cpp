// Finds and loads the CUDA back end when it is first wanted. cuBLAS and cuSOLVER are 187 MB of
// libraries: a program that only inspects a file must not pay for them, so they hang on a module of
// their own.
#include "cuda_factory.hpp"

#include <fmt/format.h>

#include <dlfcn.h>
#include <filesystem>
#include <system_error>
#include <vector>

namespace vindex::kernels {

namespace {

constexpr const char* kModule = "libvindex_cuda_module.so";
using Switch = void (*)();
using Factory = measure::Backend* (*)(std::int32_t device, std::string* why);

bool launches_are_to_be_awaited = false;

/// The folder of the library that this code is part of, where it is part of one, and the program's.
std::vector<std::filesystem::path> own_folders() {
  std::error_code ignored;
  std::vector<std::filesystem::path> folders;
  Dl_info self{};
  // Of a program the loader knows no more than argv[0].
  if (::dladdr(reinterpret_cast<const void*>(&own_folders), &self) != 0 && *self.dli_fname == '/') {
    folders.push_back(std::filesystem::canonical(self.dli_fname, ignored).parent_path());
  }
  folders.push_back(std::filesystem::read_symlink("/proc/self/exe", ignored).parent_path());
  return folders;
}

/// Beside the library or the program, or in lib/vindex below the folder above it (installations,
/// apps/ of a build) or the one above that (tests and host/ of a build).
std::vector<std::filesystem::path> module_candidates() {
  std::vector<std::filesystem::path> candidates;
  for (const std::filesystem::path& folder : own_folders()) {
    const std::filesystem::path above = folder.parent_path();
    candidates.insert(candidates.end(), {folder / kModule, above / "lib" / "vindex" / kModule,
                                         above.parent_path() / "lib" / "vindex" / kModule});
  }
  return candidates;
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
