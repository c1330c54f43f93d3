// The CUDA factory of a build without CUDA: present, and a refusal with a reason.
#include "cuda_factory.hpp"

namespace vindex::kernels {

namespace {

constexpr const char* kReason =
    "this build has no CUDA back end (configure with the preset `cuda`)";

}  // namespace

std::unique_ptr<Backend> make_cuda_backend(std::int32_t /*device*/, std::string& why) {
  why = kReason;
  return nullptr;
}

std::unique_ptr<ForwardBackend> make_cuda_forward_backend(std::int32_t /*device*/,
                                                          std::string& why) {
  why = kReason;
  return nullptr;
}

void await_cuda_launches() {}

}  // namespace vindex::kernels
