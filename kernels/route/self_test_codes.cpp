// The trial of float64 Gram matrices of E4M3 codes.
#include "host_reference.hpp"
#include "self_test_bench.hpp"
#include "self_test_inputs.hpp"

#include <algorithm>
#include <cmath>

namespace vindex::kernels {

namespace {

/// Relative to the largest element: four times what the emulation shows of scales that round
/// nothing and of others.
constexpr double kExactTolerance = 4e-15;
constexpr double kRoundedTolerance = 2.5e-14;

void try_one(TestBench& bench, ProductKernel product, bool tall, CodeScales scales,
             Verdict& verdict) {
  const bool is_rounded = scales == CodeScales::kRounded;
  const decode::Encoding encoding = decode::fp8_block_encoding(128, 128);
  const EncodedSample sample(encoding, tall ? 200 : 160, tall ? 160 : 200,
                             is_rounded ? decode::ElementType::kF32 : decode::ElementType::kBF16);
  const GramShape shape = {.rows = sample.rows(), .cols = sample.cols()};
  const std::int64_t p = shape.short_side();
  DeviceBuffer codes_memory("self-test");
  auto* codes = static_cast<std::uint8_t*>(codes_memory.reserve(sample.bytes()));
  const decode::DecodeView view = sample.send(codes, bench.stream());
  struct Arrays {
    unsigned char* workspace;
    double* gram;
    RawMoments* moments;
  };
  const auto allocate = [&](Arena& from) {
    return Arrays{from.take<unsigned char>(static_cast<std::int64_t>(code_gram_bytes(shape, 1))),
                  from.take<double>(p * p), from.take<RawMoments>(2)};
  };
  DeviceBuffer memory("self-test");
  Arena counted(nullptr, 0);
  (void)allocate(counted);
  Arena real(memory.reserve(counted.used()), counted.used());
  const Arrays arrays = allocate(real);
  bench.kernels.code_grams({.views = {&view, 1},
                            .product = product,
                            .rounded = is_rounded,
                            .sign_flip_keys = {},
                            .leading = p,
                            .grams = arrays.gram,
                            .moments = arrays.moments,
                            .moments_each = 2,
                            .wait_cycles = kTrialWaitCycles},
                           arrays.workspace, bench.stream());
  const std::vector<double> got = bench.fetched(arrays.gram, p * p);
  const std::vector<double> wanted = reference_gram(sample.weights(), shape.rows, shape.cols, tall);
  const double largest = *std::max_element(wanted.begin(), wanted.end());
  for (std::int64_t col = 0; col < p; ++col) {
    const auto first = static_cast<std::size_t>(col * p + col);
    const auto count = static_cast<std::size_t>(p - col);
    verdict.compare({got.data() + first, count}, {wanted.data() + first, count}, largest,
                    is_rounded ? kRoundedTolerance : kExactTolerance);
  }
  const std::vector<RawMoments> moments = bench.fetched(arrays.moments, 2);
  verdict.require(moments[0].count == shape.rows * shape.cols && moments[0].nonfinite == 0 &&
                      moments[1].count == 0,
                  "weights miscounted");
  verdict.require(
      std::abs(moments[0].squares - sample.sum_squares()) <= 1e-12 * sample.sum_squares(),
      "wrong sum of squares");
}

}  // namespace

void try_code_grams(TestBench& bench, ProductKernel product, Verdict& verdict) {
  try_one(bench, product, true, CodeScales::kExact, verdict);
  try_one(bench, product, true, CodeScales::kRounded, verdict);
  try_one(bench, product, false, CodeScales::kRounded, verdict);
}

}  // namespace vindex::kernels
