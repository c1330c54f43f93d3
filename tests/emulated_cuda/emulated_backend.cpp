#include "emulated_backend.hpp"

#include "kernels/route/self_test.hpp"

#include <stdexcept>
#include <string>

extern "C" vindex::Backend* vindex_make_cuda_backend(std::int32_t device, std::string* why);

namespace vindex::test {

namespace {
/// The order of the larger inputs of self-tests, which would take half a minute as on a device.
[[maybe_unused]] const std::int64_t kSmallTrials = kernels::trial_order = 161;
}  // namespace

std::unique_ptr<Backend> make_emulated_cuda_backend() {
  std::string why;
  std::unique_ptr<Backend> backend(vindex_make_cuda_backend(0, &why));
  if (backend == nullptr) {
    throw std::logic_error("the emulated device was refused: " + why);
  }
  return backend;
}

std::shared_ptr<Backend> emulated_cuda_backend() {
  static const std::shared_ptr<Backend> kBackend = make_emulated_cuda_backend();
  return kBackend;
}

}  // namespace vindex::test
