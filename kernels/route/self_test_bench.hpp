// Owns what the self-tests share: the device that is tried, ways to it and back, and the verdict.
#pragma once

#include "cuda_route.hpp"
#include "kernel_table.hpp"
#include "verdict.hpp"

#include "kernels/batch/library_solver.hpp"

#include <cstdint>
#include <vector>

namespace vindex::kernels {

/// Of float64 stages: a hundred times what they show on sound devices, relative to the largest
/// eigenvalue or diagonal element.
inline constexpr double kTolerance64 = 1e-12;

/// A trial of few microseconds that waits for seconds waits in vain.
inline constexpr std::uint64_t kTrialWaitCycles = std::uint64_t{1} << 33U;

/// The lane's device, and the kernels under test.
struct TestBench {
  SolverLane& lane;
  const KernelTable& kernels;
  const DeviceTraits& device;
  std::int64_t trial_order;  ///< of the larger inputs

  cudaStream_t stream() { return lane.stream.get(); }

  template <typename T>
  std::vector<T> fetched(const T* data, std::int64_t count) {
    std::vector<T> out(static_cast<std::size_t>(count));
    check(cudaMemcpyAsync(out.data(), data, out.size() * sizeof(T), cudaMemcpyDeviceToHost,
                          stream()));
    check(cudaStreamSynchronize(stream()));
    return out;
  }
  template <typename T>
  void send(const std::vector<T>& values, T* to) {
    check(cudaMemcpyAsync(to, values.data(), values.size() * sizeof(T), cudaMemcpyHostToDevice,
                          stream()));
    check(cudaStreamSynchronize(stream()));
  }
};

/// Gram matrices of a sample of `encoding` contracted both ways, and its sums. In
/// self_test_gram.cpp.
void try_gram(TestBench& bench, const decode::Encoding& encoding, ProductKernel product_kernel,
              Verdict& verdict);

/// The same of every operand by wgmma in clusters, of an order of which some clusters share
/// columns, some lie on the diagonal and the last ones have one block too many.
void try_gram_clusters(TestBench& bench, Verdict& verdict);

/// Operands and sums of block-scaled codes by the device's conversions: what follows from them is
/// right, and has the bits of what follows from the former kernel's.
void try_native_operands(TestBench& bench, Verdict& verdict);

/// Float64 Gram matrices by int8 products, both ways, of one slab and of two.
void try_sliced_gram(TestBench& bench, Verdict& verdict);

/// Float64 Gram matrices of E4M3 codes, both ways, of exact and of rounded scales, and their sums.
void try_code_grams(TestBench& bench, ProductKernel product, Verdict& verdict);
/// Bulge chasing by flags, for all precisions that fit on the device: many sweeps in one block, few
/// in several, the same bits by both. In self_test_chase.cpp.
void try_shared_chase(TestBench& bench, Verdict& verdict);
/// The reduction to a band with deferred updates, as many panels at a time as the device takes. In
/// self_test_deferred.cpp.
void try_deferred_band(TestBench& bench, Verdict& verdict);

/// What the smallest values of a spectrum are found again by: the factor that a reduction by
/// `route` keeps, products with it, factors of bands and solves with them, norms of columns; in
/// float32 and float64. In self_test_tail.cpp.
void try_tail(TestBench& bench, BandRoute route, Verdict& verdict);

/// Products with the factor of a reduction, 32 columns at a time, both ways. In
/// self_test_back_transform.cpp.
void try_wide_back_transform(TestBench& bench, Verdict& verdict);

}  // namespace vindex::kernels
