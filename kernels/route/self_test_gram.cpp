// The trials of Gram kernels.
#include "host_reference.hpp"
#include "self_test_bench.hpp"
#include "self_test_inputs.hpp"
#include "wrong_entries.hpp"

#include <algorithm>
#include <cmath>

namespace vindex::kernels {

namespace {

/// Relative to the largest element: ten times what sound devices show.
constexpr double kGramTolerance = 1e-6;

void compare_grams(const std::vector<float>& got, std::int64_t order, int exponent,
                   const std::vector<double>& wanted, std::int64_t p, Verdict& verdict) {
  double largest = 0.0;
  for (const double value : wanted) {
    largest = std::max(largest, std::abs(value));
  }
  // Both triangles are promised.
  std::vector<double> row_got(static_cast<std::size_t>(p));
  bool symmetric = true;
  WrongEntries wrong;
  for (std::int64_t row = 0; row < p; ++row) {
    const std::span<const double> row_wanted(wanted.data() + row * p, row_got.size());
    for (std::int64_t col = 0; col < p; ++col) {
      const auto at = static_cast<std::size_t>(col);
      const float one = got[static_cast<std::size_t>(row * order + col)];
      symmetric = symmetric && one == got[static_cast<std::size_t>(col * order + row)];
      row_got[at] = std::ldexp(static_cast<double>(one), 2 * exponent);
      if (!(std::abs(row_got[at] - row_wanted[at]) <= kGramTolerance * largest)) {
        wrong.add(row, col, row_got[at], row_wanted[at]);
      }
    }
    verdict.compare(row_got, row_wanted, largest, kGramTolerance);
  }
  verdict.require(symmetric, "not symmetric");
  if (!wrong.none()) {
    verdict.explain(wrong.text());
  }
}

/// Lower triangles of column-major p x p Gram matrices.
void compare_lower(const std::vector<double>& got, const std::vector<double>& wanted,
                   std::int64_t p, Verdict& verdict) {
  const double largest = *std::max_element(wanted.begin(), wanted.end());
  for (std::int64_t col = 0; col < p; ++col) {
    const auto first = static_cast<std::size_t>(col * p + col);
    const auto count = static_cast<std::size_t>(p - col);
    verdict.compare({got.data() + first, count}, {wanted.data() + first, count}, largest,
                    kTolerance64);
  }
}

}  // namespace

void try_gram(TestBench& bench, const decode::Encoding& encoding, ProductKernel product_kernel,
              Verdict& verdict) {
  for (const bool tall : {true, false}) {
    const EncodedSample sample(encoding, tall ? 320 : 160, tall ? 160 : 320);
    const GramShape shape = {.rows = sample.rows(), .cols = sample.cols()};
    const std::int64_t p = shape.short_side();
    DeviceBuffer memory("self-test");
    auto* codes = static_cast<std::uint8_t*>(memory.reserve(sample.bytes()));
    const decode::DecodeView view = sample.send(codes, bench.stream());
    const OperandPlan plan = choose_operands(encoding, view, false);
    DeviceBuffer more("self-test");
    const std::size_t workspace_bytes = gram_workspace_bytes(shape, plan, 1);
    Arena counted(nullptr, 0);
    const auto allocate = [&](Arena& from) {
      struct Arrays {
        float* gram;
        GramFacts* facts;
        void* workspace;
      };
      return Arrays{from.take<float>(shape.gram_elements()), from.take<GramFacts>(1),
                    from.take<unsigned char>(static_cast<std::int64_t>(workspace_bytes))};
    };
    (void)allocate(counted);
    Arena real(more.reserve(counted.used()), counted.used());
    const auto arrays = allocate(real);
    bench.kernels.gram(encoding, plan,
                       {.views = {&view, 1}, .sign_flip_keys = {}, .transposed = false},
                       arrays.workspace, workspace_bytes, product_kernel, arrays.gram, arrays.facts,
                       bench.stream());
    const auto got = bench.fetched(arrays.gram, shape.gram_elements());
    const auto facts = bench.fetched(arrays.facts, 1).front();
    const auto wanted = reference_gram(sample.weights(), shape.rows, shape.cols, tall);
    compare_grams(got, shape.order(), facts.exponent, wanted, p, verdict);
    const decode::Moments moments = moments_of(facts);
    verdict.require(moments.count == shape.rows * shape.cols && moments.nonfinite == 0,
                    "weights miscounted");
    verdict.require(
        std::abs(moments.sum_squares - sample.sum_squares()) <= 1e-12 * sample.sum_squares(),
        "wrong sum of squares");
  }
}

void try_sliced_gram(TestBench& bench, Verdict& verdict) {
  constexpr std::int64_t kLength = 100;
  constexpr std::int64_t kSide = 130;  // two tiles
  const EncodedSample sample(decode::plain_encoding(decode::ElementType::kF32), kLength, kSide);
  DeviceBuffer memory("self-test");
  struct Arrays {
    unsigned char* workspace;
    double* weights;
    double* gram;
  };
  const auto allocate = [&](Arena& from) {
    return Arrays{
        from.take<unsigned char>(static_cast<std::int64_t>(sliced_gram_bytes(kSide, kLength))),
        from.take<double>(kLength * kSide), from.take<double>(kSide * kSide)};
  };
  Arena counted(nullptr, 0);
  (void)allocate(counted);
  Arena real(memory.reserve(counted.used()), counted.used());
  const Arrays arrays = allocate(real);
  bench.send(sample.weights(), arrays.weights);
  const auto add = [&](bool over_rows, std::int64_t first, std::int64_t length) {
    bench.kernels.sliced_gram({.slab = arrays.weights + first * kSide,
                               .over_rows = over_rows,
                               .length = length,
                               .p = kSide,
                               .first = first == 0,
                               .leading = kSide,
                               .gram = arrays.gram},
                              arrays.workspace, bench.stream());
  };
  // Rows in two slabs, of which the second is added to the first; then columns.
  add(true, 0, kLength / 2);
  add(true, kLength / 2, kLength / 2);
  compare_lower(bench.fetched(arrays.gram, kSide * kSide),
                reference_gram(sample.weights(), kLength, kSide, true), kSide, verdict);
  add(false, 0, kLength);  // the same numbers as 130 x 100
  compare_lower(bench.fetched(arrays.gram, kSide * kSide),
                reference_gram(sample.weights(), kSide, kLength, false), kSide, verdict);
}

}  // namespace vindex::kernels
