// kernels_bench: the CPU back end's own kernels against the OpenBLAS routines they replace, stage
// by stage, on one thread: Gram matrix, tridiagonal form, its eigenvalues. Samples of all cases are
// interleaved, so that a noisy neighbour hits all of them, and timed in thread CPU time. Output:
// a table, or "vindex-bench/1" (command-line contract) with --json.
#include "apps/process/arithmetic_environment.hpp"
#include "backend/backend.hpp"
#include "blas/blas.hpp"
#include "cpu/cpu_backend.hpp"
#include "cpu/gram/simd_gram_bf16.hpp"
#include "cpu/tridiagonal/simd_bisection.hpp"
#include "cpu/tridiagonal/simd_tridiagonal.hpp"
#include "decode/decode_matrix.hpp"
#include "engine/run/version.hpp"
#include "throughput/encoded_weights.hpp"
#include "throughput/report.hpp"
#include "throughput/sampling.hpp"

#include <CLI/CLI.hpp>
#include <fmt/format.h>

#include <algorithm>
#include <functional>
#include <memory>
#include <string>
#include <vector>

namespace {

using namespace vindex;

struct Case {
  std::string name;      // of the stage
  std::string encoding;  // of its input
  std::string peer;      // OpenBLAS routine, empty for ours
  std::int64_t rows = 0;
  std::int64_t cols = 0;
  std::function<void()> prepare;  // not timed
  std::function<void()> run;
};

// 64-byte aligned array whose pages are in place before anything is timed.
template <typename T>
class Array {
 public:
  explicit Array(std::int64_t count)
      : count_(static_cast<std::size_t>(count)),
        values_(static_cast<T*>(std::aligned_alloc(64, (count_ * sizeof(T) + 63) / 64 * 64)),
                &std::free) {
    if (values_ == nullptr) {
      throw std::bad_alloc();
    }
    std::fill_n(values_.get(), count_, T{});
  }
  T* data() const { return values_.get(); }
  std::span<T> span() const { return {values_.get(), count_}; }

 private:
  std::size_t count_;
  std::unique_ptr<T, decltype(&std::free)> values_;
};

lapack_int as_lapack(std::int64_t value) { return static_cast<lapack_int>(value); }

void add_gram_cases(std::int64_t rows, std::int64_t cols, std::vector<Case>& cases) {
  const bool contract_rows = rows >= cols;
  const std::int64_t n = std::min(rows, cols);
  const std::int64_t depth = std::max(rows, cols);
  const auto gram = std::make_shared<Array<float>>(n * n);
  const auto workspace = std::make_shared<Array<std::byte>>(
      static_cast<std::int64_t>(cpu::gram_bf16_workspace_bytes(n)));
  const auto clear = [gram] { std::fill(gram->span().begin(), gram->span().end(), 0.0F); };
  for (const std::string label : {"BF16", "F8_E4M3/128x128"}) {
    const auto weights =
        std::make_shared<throughput::EncodedWeights>(throughput::encoding_of(label), rows, cols, 1);
    const auto values = std::make_shared<Array<float>>(rows * cols);
    decode::decode_matrix(weights->matrix(), values->data(), cols);
    cases.push_back({"gram", label, "", rows, cols, clear, [=] {
                       cpu::gram_bf16(weights->matrix(), contract_rows, 1.0F, gram->data(), n,
                                      workspace->span());
                     }});
    cases.push_back({"gram", label, "openblas.ssyrk", rows, cols, clear, [=] {
                       blas::blas().cblas_ssyrk(
                           CblasColMajor, CblasUpper, contract_rows ? CblasNoTrans : CblasTrans,
                           as_lapack(n), as_lapack(depth), 1.0F, values->data(), as_lapack(cols),
                           1.0F, gram->data(), as_lapack(n));
                     }});
  }
}

// Gram matrix of n x 2n noise: a spectrum without clusters.
template <typename T>
std::shared_ptr<Array<T>> noise_gram(std::int64_t n) {
  const std::vector<float> weights = throughput::noise(2 * n * n, 2);
  const Array<float> gram(n * n);
  blas::blas().cblas_ssyrk(CblasColMajor, CblasUpper, CblasNoTrans, as_lapack(n), as_lapack(2 * n),
                           1.0F, weights.data(), as_lapack(n), 0.0F, gram.data(), as_lapack(n));
  auto result = std::make_shared<Array<T>>(n * n);
  std::copy(gram.span().begin(), gram.span().end(), result->data());
  return result;
}

void library_sytrd(std::int64_t n, float* a, float* d, float* e, float* tau, float* work,
                   lapack_int work_size) {
  const lapack_int order = as_lapack(n);
  lapack_int info = 0;
  blas::blas().LAPACK_ssytrd("U", &order, a, &order, d, e, tau, work, &work_size, &info);
}

void library_sytrd(std::int64_t n, double* a, double* d, double* e, double* tau, double* work,
                   lapack_int work_size) {
  const lapack_int order = as_lapack(n);
  lapack_int info = 0;
  blas::blas().LAPACK_dsytrd("U", &order, a, &order, d, e, tau, work, &work_size, &info);
}

template <typename T>
void add_tridiagonal_cases(std::int64_t n, std::vector<Case>& cases) {
  const std::string type = sizeof(T) == 4 ? "F32" : "F64";
  const auto source = noise_gram<T>(n);
  const auto workspace = std::make_shared<Array<std::byte>>(
      static_cast<std::int64_t>(cpu::tridiagonalise_workspace_bytes(n, sizeof(T))));
  const auto diagonals = std::make_shared<Array<double>>(2 * n);
  const auto count = static_cast<std::size_t>(n);
  cases.push_back({"probe.tridiagonal", type, "", n, n, [] {},
                   [=] {
                     cpu::tridiagonalise(source->data(), n, n, diagonals->span().subspan(0, count),
                                         diagonals->span().subspan(count, count),
                                         workspace->span());
                   }});
  const auto copy = std::make_shared<Array<T>>(n * n);
  constexpr lapack_int kBlock = 32;
  const auto small = std::make_shared<Array<T>>(3 * n + kBlock * n);
  cases.push_back(
      {"probe.tridiagonal", type, sizeof(T) == 4 ? "openblas.ssytrd" : "openblas.dsytrd", n, n,
       [=] { std::copy(source->span().begin(), source->span().end(), copy->data()); },
       [=] {
         T* const d = small->data();
         library_sytrd(n, copy->data(), d, d + n, d + 2 * n, d + 3 * n, as_lapack(n) * kBlock);
       }});
}

void add_eigenvalue_cases(std::int64_t n, std::vector<Case>& cases) {
  const auto gram = noise_gram<float>(n);
  const auto form = std::make_shared<Array<double>>(2 * n);
  const auto count = static_cast<std::size_t>(n);
  const Array<std::byte> workspace(
      static_cast<std::int64_t>(cpu::tridiagonalise_workspace_bytes(n, sizeof(float))));
  cpu::tridiagonalise(gram->data(), n, n, form->span().subspan(0, count),
                      form->span().subspan(count, count), workspace.span());
  const auto values = std::make_shared<Array<double>>(n);
  const auto copy = std::make_shared<Array<double>>(2 * n);
  cases.push_back({"probe.eigenvalues", "F64", "", n, n, [] {},
                   [=] {
                     cpu::tridiagonal_eigenvalues(form->span().subspan(0, count),
                                                  form->span().subspan(count, count),
                                                  values->span());
                   }});
  cases.push_back({"probe.eigenvalues", "F64", "openblas.dsterf", n, n,
                   [=] { std::copy(form->span().begin(), form->span().end(), copy->data()); },
                   [=] {
                     const lapack_int order = as_lapack(n);
                     lapack_int info = 0;
                     blas::blas().LAPACK_dsterf(&order, copy->data(), copy->data() + n, &info);
                   }});
}

throughput::Row row_of(const Case& item) {
  return {.name = item.name,
          .route = item.peer.empty() ? "simd" : "library",
          .rows = item.rows,
          .cols = item.cols,
          .encoding = item.encoding,
          .unit = "ms_per_matrix",
          .peer = item.peer};
}

}  // namespace

int main(int argc, char** argv) {
  CLI::App app{"kernels_bench: our kernels and OpenBLAS, ms per matrix on one thread"};
  std::int64_t rows = 7168;
  std::int64_t cols = 2048;
  int repeats = 5;
  bool json = false;
  app.add_option("--rows", rows, "rows of the weights")->check(CLI::Range(2, 1 << 20));
  app.add_option("--cols", cols, "columns of the weights")->check(CLI::Range(2, 1 << 20));
  app.add_option("--repeats", repeats, "samples per case")->check(CLI::PositiveNumber);
  app.add_flag("--json", json, "print vindex-bench/1 with all samples");
  CLI11_PARSE(app, argc, argv);

  const auto backend = cpu::make_cpu_backend(1, apps::blas_core_wish());
  const BackendInfo info = backend->info();
  const std::int64_t n = std::min(rows, cols);
  std::vector<Case> cases;
  add_gram_cases(rows, cols, cases);
  add_gram_cases(cols, rows, cases);
  add_tridiagonal_cases<float>(n, cases);
  add_tridiagonal_cases<double>(n, cases);
  add_eigenvalue_cases(n, cases);

  throughput::Report report{.commit = engine::program_commit(),
                            .command = throughput::command_text({argv, argv + argc}),
                            .host = throughput::host_facts(info.libraries.at(0))};
  for (const Case& item : cases) {
    report.rows.push_back(row_of(item));
  }
  for (int repeat = 0; repeat < repeats; ++repeat) {
    for (std::size_t i = 0; i < cases.size(); ++i) {
      cases[i].prepare();
      const double start = throughput::thread_seconds();
      cases[i].run();
      report.rows[i].samples.push_back(1e3 * (throughput::thread_seconds() - start));
    }
  }
  // Ours and its peer are neighbours: the peer's best time is what ours is held against.
  for (std::size_t i = 0; i + 1 < cases.size(); i += 2) {
    report.rows[i].limit = throughput::best_of(report.rows[i + 1]);
  }
  fmt::print("{}", json ? throughput::report_json(report) : throughput::report_table(report));
  return 0;
}
