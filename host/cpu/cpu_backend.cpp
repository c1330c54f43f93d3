// Owns the CPU back end: one matrix per calling thread, a single-threaded BLAS underneath. A second
// thread inside one matrix gains little (half of the tridiagonal reduction is bound by memory),
// while matrices are plenty.
#include "cpu_backend.hpp"

#include "cpu_info.hpp"
#include "cpu_spectrum.hpp"

#include "backend/backend.hpp"
#include "blas/blas_library.hpp"
#include "core/process/parallel.hpp"
#include "cpu/gram/simd_gram_amx.hpp"
#include "cpu/inner/cpu_inner_products.hpp"
#include "cpu/plan/svd_plan.hpp"
#include "cpu/route/plan_svd.hpp"
#include "cpu/workspace/workspace.hpp"
#include "decode/decode_matrix.hpp"
#include "statistics/judgement/batch_inputs.hpp"
#include <vindex/error.hpp>

#include <string>
#include <utility>

namespace vindex::cpu {

namespace {

/// A matrix unit, or why there is none, and whether vector instructions multiply bfloat16 then.
struct Unit {
  TileProduct tiles = nullptr;
  std::string name = {};
  std::string note = {};
  bool bf16_by_vectors = gram_bf16_is_fast();
};

class CpuBackend final : public Backend {
 public:
  CpuBackend(std::int32_t threads, std::string_view blas_core, Unit unit)
      : threads_(threads > 0 ? threads : usable_cores()),
        blas_(blas::load_blas(blas_core)),
        unit_(std::move(unit)) {
    blas::reserve_buffers(threads_);
  }

  BackendInfo info() const override { return cpu_info(blas_, unit_.name, unit_.note); }
  BackendLimits limits() const override {
    return {.concurrent_calls = threads_, .uses_host_cores = true, .held_inputs = 1};
  }
  std::unique_ptr<StagingBuffer> make_staging(std::size_t bytes) override {
    return make_host_staging(bytes);
  }

  std::uint64_t workspace_bytes(const decode::Encoding& encoding, std::int64_t rows,
                                std::int64_t cols, const MeasureOptions& options,
                                InputBytes input) const override {
    const SvdPlan plan = plan_svd({.rows = rows,
                                   .cols = cols,
                                   .encoding = &encoding,
                                   .options = options,
                                   .in_memory = input == InputBytes::kHeld,
                                   .tiles = unit_.tiles,
                                   .bf16_by_vectors = unit_.bf16_by_vectors});
    return input == InputBytes::kStreamedLeast ? plan.min_workspace_bytes : plan.workspace_bytes;
  }

  void measure(std::span<MatrixInput* const> batch, const MeasureOptions& options,
               std::uint64_t workspace_limit, std::span<MatrixReport> out) override {
    expects(batch.size() == out.size(), "measure: one report per matrix");
    for (std::size_t i = 0; i < batch.size(); ++i) {
      MatrixInput& input = *batch[i];
      out[i] = {};
      if (!statistics::is_refused(input, out[i])) {
        const SvdPlan plan = plan_svd({.rows = input.rows(),
                                       .cols = input.cols(),
                                       .encoding = &input.encoding(),
                                       .options = options,
                                       .in_memory = input.in_memory(),
                                       .workspace_limit = workspace_limit,
                                       .tiles = unit_.tiles,
                                       .bf16_by_vectors = unit_.bf16_by_vectors});
        Workspace workspace(workspace_limit, options.stop);
        measure_on_cpu(input, plan, options, workspace, out[i]);
      }
      input.release();
    }
  }

  std::unique_ptr<InnerProducts> inner_products(const InnerProductShape& shape) override {
    return make_cpu_inner_products(shape);
  }
  InnerProductMemory inner_product_memory(const InnerProductShape& shape) const override {
    return cpu_inner_product_memory(shape);
  }

  void decode(const decode::EncodedMatrix& matrix, std::span<float> out) override {
    expects(static_cast<std::int64_t>(out.size()) == matrix.rows * matrix.cols,
            "decode: one float per weight");
    decode::decode_matrix(matrix, out.data(), matrix.cols);
  }

 private:
  std::int32_t threads_;
  const blas::BlasInfo& blas_;
  const Unit unit_;
};

Unit unit_of(MatrixUnitPreference preference) {
  MatrixUnitChoice choice = choose_matrix_unit(matrix_unit_facts(), preference);
  if (!choice.is_used) {
    return {.note = std::move(choice.note)};
  }
  return {.tiles = amx_tile_product(), .name = "AMX tiles (bfloat16)"};
}

}  // namespace

std::unique_ptr<Backend> make_cpu_backend(std::int32_t threads, std::string_view blas_core,
                                          MatrixUnitPreference unit) {
  expects(threads >= 0, "make_cpu_backend: a number of threads");
  return std::make_unique<CpuBackend>(threads, blas_core, unit_of(unit));
}

std::unique_ptr<Backend> make_cpu_backend_on(TileProduct tiles, std::string_view name,
                                             std::int32_t threads) {
  return std::make_unique<CpuBackend>(threads, std::string_view{},
                                      Unit{.tiles = tiles, .name = std::string(name)});
}

std::unique_ptr<Backend> make_cpu_backend_by_vectors(std::int32_t threads) {
  return std::make_unique<CpuBackend>(threads, std::string_view{}, Unit{.bf16_by_vectors = true});
}

}  // namespace vindex::cpu
