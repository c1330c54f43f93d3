// The trial of the reduction to a band with deferred updates.
#include "host_reference.hpp"
#include "self_test_bench.hpp"
#include "self_test_inputs.hpp"

#include "kernels/band/deferred/deferred_band.hpp"

#include <algorithm>
#include <cmath>

namespace vindex::kernels {

namespace {

/// Two strips of 256 rows, ten panels in groups of up to four, and a rest.
constexpr std::int64_t kOrder = 300;
constexpr std::int64_t kBatch = 2;
/// Of the largest eigenvalue: about four times what the emulation shows.
constexpr double kTolerance = 7.5e-7;

std::size_t at(std::int64_t index) { return static_cast<std::size_t>(index); }

}  // namespace

void try_deferred_band(TestBench& bench, Verdict& verdict) {
  const std::int64_t order = band_order(kOrder);
  const BandPlan plan =
      plan_deferred_band(order, bench.device.shared_bytes,
                         deferred_panels(largest_band_order(), bench.device.shared_bytes));
  std::vector<double> dense = dense_samples(kOrder, kBatch);
  std::vector<float> padded(at(kBatch * order * order), 0.0F);
  for (std::int64_t i = 0; i < kBatch * kOrder * kOrder; ++i) {
    const std::int64_t row = i / kOrder;  // of all matrices
    float& value = padded[at((row / kOrder * order + row % kOrder) * order + i % kOrder)];
    value = static_cast<float>(dense[at(i)]);
    dense[at(i)] = static_cast<double>(value);
  }
  DeviceBuffer memory("self-test");
  const std::int64_t band_count = kBatch * band_elements(order);
  Arena counted(nullptr, 0);
  const auto allocate = [&](Arena& from) {
    return BandBatch<float>{
        from.take<float>(kBatch * order * order), kBatch, from.take<float>(band_count),
        from.take<std::int32_t>(kBatch),
        from.take<unsigned char>(kBatch *
                                 static_cast<std::int64_t>(plan.workspace_bytes_per_matrix))};
  };
  (void)allocate(counted);
  Arena real(memory.reserve(counted.used()), counted.used());
  const BandBatch<float> batch = allocate(real);
  bench.send(padded, batch.matrices);
  bench.kernels.deferred_band(plan, batch, bench.stream());
  const std::vector<float> bands = bench.fetched(batch.band, band_count);
  const std::vector<std::int32_t> exponents = bench.fetched(batch.exponents, kBatch);
  std::vector<double> reduced = dense_of_bands(bands, kOrder, kBatch, kBand);
  for (std::int64_t i = 0; i < kBatch * kOrder * kOrder; ++i) {
    reduced[at(i)] = std::ldexp(reduced[at(i)], exponents[at(i / (kOrder * kOrder))]);
  }
  const std::vector<double> got = reference_values(reduced, kOrder, kBatch);
  const std::vector<double> wanted = reference_values(dense, kOrder, kBatch);
  for (std::int64_t b = 0; b < kBatch; ++b) {
    const std::span<const double> one(wanted.data() + b * kOrder, at(kOrder));
    const double scale = std::max(std::abs(one.front()), std::abs(one.back()));
    verdict.compare({got.data() + b * kOrder, at(kOrder)}, one, scale, kTolerance);
  }
}

}  // namespace vindex::kernels
