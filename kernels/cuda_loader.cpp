// Finds and loads the CUDA back end when it is first wanted. cuBLAS and cuSOLVER are 187 MB of
// libraries: a program that only inspects a file must not pay for them, so they hang on a module of
// their own.
#include "cuda_factory.hpp"

#include "core/files/companions.hpp"

#include <fmt/format.h>

#include <dlfcn.h>
#include <string>

namespace vindex::kernels {

namespace {

constexpr const char* kModule = "libvindex_cuda_module.so";
using Switch = void (*)();
template <typename Made>
using Factory = Made* (*)(std::int32_t device, std::string* why);

bool launches_are_to_be_awaited = false;

/// The module's `symbol`, or null with the reason.
void* load_symbol(const char* symbol, std::string& why) {
  const std::string path = find_companion(kModule);
  if (path.empty()) {
    why = fmt::format("the CUDA module {} is neither beside the program nor in ../lib/vindex",
                      kModule);
    return nullptr;
  }
  void* module = ::dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
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
  void* const found = ::dlsym(module, symbol);
  if (found == nullptr) {
    why = fmt::format("the CUDA module {} is not this program's: it has no {}", path, symbol);
  }
  return found;
}

/// What `symbol` of the module makes on `device`, or null with the reason.
template <typename Made>
std::unique_ptr<Made> make(const char* symbol, std::int32_t device, std::string& why) {
  // The driver's library is asked for first: it is small, and without it the large ones would be
  // loaded for nothing.
  void* driver = ::dlopen("libcuda.so.1", RTLD_LAZY | RTLD_LOCAL);
  if (driver == nullptr) {
    why = "no NVIDIA driver on this machine (libcuda.so.1 is not found)";
    return nullptr;
  }
  const auto factory = reinterpret_cast<Factory<Made>>(load_symbol(symbol, why));
  return std::unique_ptr<Made>(factory == nullptr ? nullptr : factory(device, &why));
}

}  // namespace

void await_cuda_launches() { launches_are_to_be_awaited = true; }

std::unique_ptr<Backend> make_cuda_backend(std::int32_t device, std::string& why) {
  return make<Backend>("vindex_make_cuda_backend", device, why);
}

std::unique_ptr<ForwardBackend> make_cuda_forward_backend(std::int32_t device, std::string& why) {
  return make<ForwardBackend>("vindex_make_cuda_forward", device, why);
}

}  // namespace vindex::kernels
