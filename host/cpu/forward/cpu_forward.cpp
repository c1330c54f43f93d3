// Owns the host's back end of forward passes: threads each take tiles of a product or heads of an
// attention and call a BLAS of one thread. Not the BLAS's own threads: they would wait while
// weights are decoded. Not its products of bfloat16 either: they round activations to 8 bits, and
// logits are promised to 1e-3.
#include "cpu_forward.hpp"

#include "attention.hpp"
#include "linear.hpp"

#include "backend/backend.hpp"
#include "blas/blas_library.hpp"
#include "core/process/parallel.hpp"
#include "cpu/cpu_info.hpp"
#include <vindex/error.hpp>

namespace vindex::cpu {

namespace {

class CpuForward final : public ForwardBackend {
 public:
  CpuForward(std::int32_t threads, std::string_view blas_core)
      : threads_(threads > 0 ? threads : usable_cores()), blas_(blas::load_blas(blas_core)) {
    blas::reserve_buffers(threads_);
  }

  BackendInfo info() const override { return cpu_info(blas_); }
  std::unique_ptr<StagingBuffer> make_staging(std::size_t bytes) override {
    return make_host_staging(bytes);
  }
  std::uint64_t linear_bytes(std::int64_t rows, std::int64_t cols) const override {
    return cpu::linear_bytes(rows, cols, threads_);
  }
  std::uint64_t attention_bytes(const AttentionCall& call) const override {
    return cpu::attention_bytes(call, threads_);
  }
  void linear(const LinearCall& call, const std::stop_token& stop) override {
    multiply_linear(call, threads_, stop);
  }
  void attention(const AttentionCall& call, const std::stop_token& stop) override {
    attend_causally(call, threads_, stop);
  }

 private:
  std::int32_t threads_;
  const blas::BlasInfo& blas_;
};

}  // namespace

std::unique_ptr<ForwardBackend> make_cpu_forward(std::int32_t threads, std::string_view blas_core) {
  expects(threads >= 0, "make_cpu_forward: a number of threads");
  return std::make_unique<CpuForward>(threads, blas_core);
}

}  // namespace vindex::cpu
