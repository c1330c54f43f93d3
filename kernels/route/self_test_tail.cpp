// The trial of the kernels that a tail is made of (tail/tail_solver.hpp), piece by piece.
#include "self_test_bench.hpp"
#include "self_test_inputs.hpp"

#include <algorithm>
#include <cmath>
#include <type_traits>

namespace vindex::kernels {

namespace {

constexpr std::int64_t kOrder = 97;  ///< several blocks and a rest
constexpr std::int64_t kSlots = 2;   ///< as many matrices
constexpr std::int64_t kColumns = kBackTransformColumns;
constexpr std::int64_t kMany = kSlots * kColumns;
constexpr double kShift = 1e-3;  ///< of bands whose entries are at most 1
/// A hundred times what sound devices show, of the largest eigenvalue.
constexpr double kTurnTolerance32 = 1e-4;
constexpr double kTurnTolerance64 = 1e-12;
/// The shifted band has a condition of at most some 1e4.
constexpr double kSolveTolerance = 1e-9;

std::size_t at(std::int64_t index) { return static_cast<std::size_t>(index); }

/// out = A in for symmetric A of `order`, given by element(row, col) of its lower triangle.
template <typename Element>
void multiply_symmetric(std::int64_t order, std::int64_t width, const Element& element,
                        const double* in, double* out) {
  std::fill_n(out, order, 0.0);
  for (std::int64_t col = 0; col < order; ++col) {
    for (std::int64_t row = col; row < std::min(order, col + width + 1); ++row) {
      const double value = element(row, col);
      out[row] += value * in[col];
      if (row != col) {
        out[col] += value * in[row];
      }
    }
  }
}

template <typename Real>
class TailTrial {
 public:
  TailTrial(TestBench& bench, BandRoute route, Verdict& verdict)
      : bench_(bench),
        verdict_(verdict),
        order_(band_order(kOrder)),
        plan_(plan_band_reduction<Real>(order_, route, bench.device.shared_bytes)) {
    Arena counted(nullptr, 0);
    const Arrays sizes(plan_, counted);
    Arena real(memory_.reserve(counted.used()), counted.used());
    arrays_ = Arrays(plan_, real);
    const std::vector<double> dense = dense_samples(kOrder, kSlots);
    for (const double value : dense) {
      dense_.push_back(static_cast<double>(static_cast<Real>(value)));
    }
  }

  void run() {
    const std::vector<Real> without = reduced(false);
    bands_ = reduced(true);
    verdict_.require(without == bands_, "keeping the factor changes the band");
    exponents_ = bench_.fetched(arrays_.exponents, kSlots);
    bench_.send(which_, arrays_.which);
    transform_there_and_back();
    solve();
  }

 private:
  struct Arrays {
    Arrays() = default;
    Arrays(const BandPlan& plan, Arena& memory)
        : matrices(memory.take<Real>(kSlots * plan.order * plan.order)),
          bands(memory.take<Real>(kSlots * band_elements(plan.order))),
          exponents(memory.take<std::int32_t>(kSlots)),
          workspace(memory.take<unsigned char>(
              kSlots * static_cast<std::int64_t>(plan.workspace_bytes_per_matrix))),
          which(memory.take<std::int64_t>(kSlots)),
          outer(memory.take<double>(kMany * kOrder)),
          inner(memory.take<double>(kMany * plan.order)),
          scratch(memory.take<Real>(kMany * plan.order)),
          shifts(memory.take<double>(kSlots)),
          norms(memory.take<double>(kMany)),
          factors(memory.take<double>(kSlots * band_factor_elements(plan.order))),
          info(memory.take<int>(kSlots)) {}
    Real *matrices, *bands;
    std::int32_t* exponents;
    unsigned char* workspace;
    std::int64_t* which;
    double *outer, *inner;
    Real* scratch;
    double *shifts, *norms, *factors;
    int* info;
  };

  static auto kernel(const KernelTable& table, auto of32, auto of64) {
    if constexpr (std::is_same_v<Real, float>) {
      return table.*of32;
    } else {
      return table.*of64;
    }
  }

  std::vector<Real> reduced(bool keep_factor) {
    std::vector<Real> padded(at(kSlots * order_ * order_), Real{0});
    for (std::int64_t i = 0; i < kSlots * kOrder * kOrder; ++i) {
      const std::int64_t row = i / kOrder % kOrder;
      padded[at((i / (kOrder * kOrder) * order_ + row) * order_ + i % kOrder)] =
          static_cast<Real>(dense_[at(i)]);
    }
    bench_.send(padded, arrays_.matrices);
    const auto reduce = kernel(bench_.kernels, &KernelTable::band32, &KernelTable::band64);
    reduce(plan_,
           {arrays_.matrices, kSlots, arrays_.bands, arrays_.exponents, arrays_.workspace,
            keep_factor},
           bench_.stream());
    return bench_.fetched(arrays_.bands, kSlots * band_elements(order_));
  }

  const Real* band_of(std::int64_t slot) const {
    return bands_.data() + which_[at(slot)] * band_elements(order_);
  }

  void turn(bool transposed) {
    const TransformedColumns outer = {arrays_.outer, kOrder, kOrder * kColumns, kOrder};
    const TransformedColumns inner = {arrays_.inner, order_, order_ * kColumns, order_};
    kernel(bench_.kernels, &KernelTable::back_transform32, &KernelTable::back_transform64)(
        {.matrices = arrays_.matrices,
         .which = arrays_.which,
         .order = order_,
         .columns = kColumns,
         .slots = kSlots,
         .transposed = transposed,
         .from = transposed ? outer : inner,
         .to = transposed ? inner : outer,
         .scratch = arrays_.scratch},
        bench_.stream());
  }

  /// A x against 2^exponent Q (B (Q^T x)).
  void transform_there_and_back() {
    std::vector<double> x(at(kMany * kOrder));
    fill_random(x, 51);
    bench_.send(x, arrays_.outer);
    turn(true);
    const std::vector<double> turned = bench_.fetched(arrays_.inner, kMany * order_);
    std::vector<double> product(turned.size());
    for (std::int64_t i = 0; i < kMany; ++i) {
      const Real* band = band_of(i / kColumns);
      multiply_symmetric(
          order_, kBand,
          [&](std::int64_t row, std::int64_t col) {
            return static_cast<double>(band[band_index(row, col)]);
          },
          turned.data() + i * order_, product.data() + i * order_);
    }
    bench_.send(product, arrays_.inner);
    turn(false);
    std::vector<double> got = bench_.fetched(arrays_.outer, kMany * kOrder);
    std::vector<double> wanted(at(kOrder));
    const double tolerance = std::is_same_v<Real, float> ? kTurnTolerance32 : kTurnTolerance64;
    for (std::int64_t i = 0; i < kMany; ++i) {
      const std::int64_t matrix = which_[at(i / kColumns)];
      const double* dense = dense_.data() + matrix * kOrder * kOrder;
      double trace = 0.0;
      for (std::int64_t k = 0; k < kOrder; ++k) {
        trace += dense[k * kOrder + k];
      }
      multiply_symmetric(
          kOrder, kOrder,
          [&](std::int64_t row, std::int64_t col) { return dense[row * kOrder + col]; },
          x.data() + i * kOrder, wanted.data());
      const std::span<double> own(got.data() + i * kOrder, at(kOrder));
      for (double& value : own) {
        value = std::ldexp(value, exponents_[at(matrix)]);
      }
      verdict_.compare(own, wanted, trace, tolerance);
    }
    judge_norms(got);
  }

  /// Of what was just turned; the exponents are in `columns` and not on the device.
  void judge_norms(const std::vector<double>& columns) {
    bench_.kernels.norms(arrays_.outer, kOrder, kMany, arrays_.norms, bench_.stream());
    const std::vector<double> got = bench_.fetched(arrays_.norms, kMany);
    for (std::int64_t i = 0; i < kMany; ++i) {
      double sum = 0.0;
      for (std::int64_t k = 0; k < kOrder; ++k) {
        sum += columns[at(i * kOrder + k)] * columns[at(i * kOrder + k)];
      }
      const double wanted = std::ldexp(std::sqrt(sum), -exponents_[at(which_[at(i / kColumns)])]);
      verdict_.compare({&got[at(i)], 1}, {&wanted, 1}, wanted, kTolerance64);
    }
  }

  /// Columns z from (B + shift) z, for both slots.
  void solve() {
    bench_.send(std::vector<double>(kSlots, kShift), arrays_.shifts);
    kernel(bench_.kernels, &KernelTable::factor32, &KernelTable::factor64)(
        {.bands = arrays_.bands,
         .which = arrays_.which,
         .n = kOrder,
         .order = order_,
         .slots = kSlots},
        arrays_.shifts, arrays_.factors, arrays_.info, bench_.stream());
    verdict_.require(bench_.fetched(arrays_.info, kSlots) == std::vector<int>(kSlots, 0),
                     "a definite band said not to be");
    std::vector<double> wanted(at(kMany * order_), 0.0);
    std::vector<double> right(wanted.size());
    for (std::int64_t i = 0; i < kMany; ++i) {
      double* own = wanted.data() + i * order_;
      fill_random({own, at(kOrder)}, static_cast<std::uint64_t>(60 + i));
      const Real* band = band_of(i / kColumns);
      multiply_symmetric(
          order_, kBand,
          [&](std::int64_t row, std::int64_t col) {
            return static_cast<double>(band[band_index(row, col)]) + (row == col ? kShift : 0.0);
          },
          own, right.data() + i * order_);
    }
    bench_.send(right, arrays_.inner);
    bench_.kernels.solve(arrays_.factors, order_, kSlots, arrays_.inner, order_, order_ * kColumns,
                         kColumns, bench_.stream());
    verdict_.compare(bench_.fetched(arrays_.inner, kMany * order_), wanted, 1.0, kSolveTolerance);
  }

  TestBench& bench_;
  Verdict& verdict_;
  const std::int64_t order_;
  const BandPlan plan_;
  DeviceBuffer memory_{"self-test"};
  Arrays arrays_;
  const std::vector<std::int64_t> which_ = {1, 0};
  std::vector<double> dense_;  ///< as Real holds them
  std::vector<Real> bands_;
  std::vector<std::int32_t> exponents_;
};

}  // namespace

void try_tail(TestBench& bench, BandRoute route, Verdict& verdict) {
  TailTrial<float>(bench, route, verdict).run();
  TailTrial<double>(bench, route, verdict).run();
}

}  // namespace vindex::kernels
