// The trials of Gram kernels.
#include "host_reference.hpp"
#include "self_test_bench.hpp"
#include "self_test_inputs.hpp"
#include "wrong_entries.hpp"

#include "kernels/gram/gram_plan.hpp"

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
      row_got[at] = std::ldexp(static_cast<double>(one), exponent);
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

/// A sample of an encoding on the device, and room for its Gram matrix.
class GramTrial {
 public:
  struct Formed {
    std::vector<float> gram;
    GramFacts facts;
  };
  static constexpr std::int64_t kNoNumbers = 2;

  GramTrial(TestBench& bench, const decode::Encoding& encoding, std::int64_t rows,
            std::int64_t cols)
      : bench_(bench),
        encoding_(encoding),
        sample_(encoding_, rows, cols),
        shape_{.rows = rows, .cols = cols} {
    codes_ = static_cast<std::uint8_t*>(memory_.reserve(sample_.bytes()));
    view_ = sample_.send(codes_, bench.stream());
    plan_ = choose_operands(encoding_, view_, false);
    workspace_bytes_ = gram_workspace_bytes(shape_, plan_, 1);
    Arena counted(nullptr, 0);
    allocate(counted);
    Arena real(more_.reserve(counted.used()), counted.used());
    allocate(real);
  }

  Formed form(ProductKernel product_kernel, bool native_operands) {
    bench_.kernels.gram(encoding_, plan_,
                        {.views = {&view_, 1},
                         .sign_flip_keys = {},
                         .native_operands = native_operands,
                         .wait_cycles = kTrialWaitCycles},
                        workspace_, workspace_bytes_, product_kernel, gram_, facts_,
                        bench_.stream());
    return {bench_.fetched(gram_, shape_.gram_elements()), bench_.fetched(facts_, 1).front()};
  }

  void judge(const Formed& got, Verdict& verdict) const {
    const auto wanted =
        reference_gram(sample_.weights(), shape_.rows, shape_.cols, shape_.rows > shape_.cols);
    compare_grams(got.gram, shape_.order(), got.facts.gram_exponent, wanted, shape_.short_side(),
                  verdict);
    const decode::Moments moments = moments_of(got.facts);
    verdict.require(moments.count == shape_.rows * shape_.cols && moments.nonfinite == 0,
                    "weights miscounted");
    verdict.require(
        std::abs(moments.sum_squares - sample_.sum_squares()) <= 1e-12 * sample_.sum_squares(),
        "wrong sum of squares");
  }

  /// Of E4M3: codes that are no numbers, of either sign.
  void put_no_numbers() {
    bench_.send(std::vector<std::uint8_t>{0xFF}, codes_ + 7);
    bench_.send(std::vector<std::uint8_t>{0x7F}, codes_ + shape_.cols + 20);
  }

 private:
  void allocate(Arena& from) {
    gram_ = from.take<float>(shape_.gram_elements());
    facts_ = from.take<GramFacts>(1);
    workspace_ = from.take<unsigned char>(static_cast<std::int64_t>(workspace_bytes_));
  }

  TestBench& bench_;
  decode::Encoding encoding_;
  EncodedSample sample_;
  GramShape shape_;
  DeviceBuffer memory_{"self-test"};
  DeviceBuffer more_{"self-test"};
  std::uint8_t* codes_ = nullptr;
  decode::DecodeView view_;
  OperandPlan plan_;
  std::size_t workspace_bytes_ = 0;
  float* gram_ = nullptr;
  GramFacts* facts_ = nullptr;
  unsigned char* workspace_ = nullptr;
};

}  // namespace

void try_gram(TestBench& bench, const decode::Encoding& encoding, ProductKernel product_kernel,
              Verdict& verdict) {
  for (const bool tall : {true, false}) {
    GramTrial trial(bench, encoding, tall ? 320 : 160, tall ? 160 : 320);
    trial.judge(trial.form(product_kernel, false), verdict);
  }
}

void try_gram_clusters(TestBench& bench, Verdict& verdict) {
  constexpr std::int64_t kShapes[][2] = {{400, 300}, {300, 400}};
  for (const decode::Encoding& encoding :
       {decode::fp8_block_encoding(128, 128), decode::plain_encoding(decode::ElementType::kF16),
        decode::plain_encoding(decode::ElementType::kBF16),
        decode::plain_encoding(decode::ElementType::kF32)}) {
    for (const auto& [rows, cols] : kShapes) {
      GramTrial trial(bench, encoding, rows, cols);
      trial.judge(trial.form(ProductKernel::kWarpgroupPairs, false), verdict);
    }
  }
}

void try_native_operands(TestBench& bench, Verdict& verdict) {
  // Tiles whole and cut; then rows of which no load of several codes is aligned.
  constexpr std::int64_t kShapes[][2] = {{320, 160}, {160, 320}, {131, 258}};
  for (const auto& [rows, cols] : kShapes) {
    GramTrial trial(bench, decode::fp8_block_encoding(128, 128), rows, cols);
    trial.judge(trial.form(ProductKernel::kWarp, true), verdict);
    trial.put_no_numbers();
    const GramTrial::Formed former = trial.form(ProductKernel::kWarp, false);
    const GramTrial::Formed newer = trial.form(ProductKernel::kWarp, true);
    verdict.require(newer.gram == former.gram, "other bits than the former kernel's");
    const WeightSums& a = newer.facts.sums;
    const WeightSums& b = former.facts.sums;
    verdict.require(a.count == b.count && a.zeros == b.zeros && a.nonfinite == b.nonfinite &&
                        std::equal(std::begin(a.power), std::end(a.power), std::begin(b.power)) &&
                        a.squares == b.squares && a.min == b.min && a.max == b.max,
                    "other sums than the former kernel's");
    verdict.require(a.nonfinite == GramTrial::kNoNumbers, "what is no number miscounted");
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
