// Owns all eigenvalues of a symmetric tridiagonal matrix T. N(x), the number of eigenvalues below
// x, is the number of sign changes among the leading minors of T - x I (simd_sturm.cpp); so
//
//   split      where |e_i| <= eps ||T|| / 4: no eigenvalue moves by more than rounding
//   isolate    cut each interval that holds c values into c + 1 parts, until each holds one
//   converge   inverse quadratic interpolation of det(T - x I), safeguarded by bisection
//              (Chandrupatla 1997), 6 to 9 evaluations where halving alone takes 52
//
// Sources: Barth, Martin, Wilkinson 1967 for the counts; Gershgorin discs for the first interval.
//
// Why not LAPACK's sterf: its QL iteration is one chain of square roots and divisions, which no
// vector unit helps, while shifts are independent of each other: all eigenvalues move in step, a
// lane each. Absolute error is a few eps ||T|| either way, which is all that a reduction leaves to
// be known.
#include "simd_bisection.hpp"

#include "simd_bracketed_root.hpp"
#include "simd_sturm.hpp"

#include "core/constants.hpp"
#include "core/integers.hpp"
#include "core/process/stop.hpp"
#include <vindex/error.hpp>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <stop_token>
#include <vector>

namespace vindex::cpu {
namespace {

// Interpolation needs 6 to 9 evaluations; an interval that takes this many goes back to counting.
constexpr int kMaxInterpolations = 100;

// Holds upper.count - lower.count eigenvalues.
struct Interval {
  SturmPoint lower;
  SturmPoint upper;
  bool by_count = false;  // interpolation failed here
};

// Evaluates many shifts and keeps the buffers between calls.
class Evaluator {
 public:
  Evaluator(const TridiagonalBlock& block, SimdLevel level, const std::stop_token& stop)
      : block_(block), level_(level), stop_(stop) {}

  // Fills every point from its x.
  void evaluate(std::vector<SturmPoint>& points, bool counting) {
    throw_if_stopped(stop_);
    const auto count = static_cast<std::int64_t>(points.size());
    const std::int64_t padded = ceil_divide(count, kSturmLanes) * kSturmLanes;
    shifts_.resize(static_cast<std::size_t>(padded));
    mantissas_.resize(shifts_.size());
    exponents_.resize(shifts_.size());
    counts_.resize(shifts_.size());
    for (std::int64_t i = 0; i < padded; ++i) {
      shifts_[i] = points[std::min(i, count - 1)].x;
    }
    sturm_minors(block_, padded, shifts_.data(), mantissas_.data(), exponents_.data(),
                 counting ? counts_.data() : nullptr, level_);
    for (std::int64_t i = 0; i < count; ++i) {
      points[i].mantissa = mantissas_[i];
      points[i].exponent = exponents_[i];
      points[i].count = counting ? counts_[i] : 0;
    }
  }

 private:
  TridiagonalBlock block_;
  SimdLevel level_;
  const std::stop_token& stop_;
  std::vector<double> shifts_, mantissas_;
  std::vector<std::int64_t> exponents_, counts_;
};

// Eigenvalues of one block, to `out` in no order.
class BlockSolver {
 public:
  BlockSolver(const TridiagonalBlock& block, SimdLevel level, const std::stop_token& stop,
              double* out)
      : evaluator_(block, level, stop), out_(out), size_(block.size) {}

  void solve(double lower, double upper) {
    Interval whole;
    whole.lower.x = lower;
    whole.upper.x = upper;
    evaluate_ends(whole);
    crowded_.push_back(whole);
    while (!crowded_.empty() || !roots_.empty()) {
      isolate();
      interpolate();
    }
  }

 private:
  void evaluate_ends(Interval& whole) {
    points_ = {whole.lower, whole.upper};
    evaluator_.evaluate(points_, true);
    whole.lower = points_[0];
    whole.upper = points_[1];
    // What the interpolation needs of the ends is the sign and size of the determinant.
    // Outside all Gershgorin discs, so known whatever the rounding of the counts.
    whole.lower.count = 0;
    whole.upper.count = size_;
  }

  // Files an interval by what it holds.
  void place(const Interval& interval, std::vector<Interval>& crowded) {
    const std::int64_t held = interval.upper.count - interval.lower.count;
    if (held == 0) {
      return;
    }
    if (interval.upper.x - interval.lower.x <= 2.0 * kBracketTolerance) {
      out_ = std::fill_n(out_, held, 0.5 * (interval.lower.x + interval.upper.x));
      return;
    }
    // Interpolation needs a sign change between the ends. Counts and determinants come from one
    // recurrence, but where rounding has moved a count they may disagree: then counts alone go on.
    if (held > 1 || interval.by_count || interval.lower.mantissa == 0.0 ||
        interval.upper.mantissa == 0.0 || interval.lower.negative() == interval.upper.negative()) {
      crowded.push_back(interval);
      return;
    }
    BracketedRoot root;
    root.newest = interval.lower;
    root.opposite = interval.upper;
    root.oldest = interval.upper;
    root.lower_count = interval.lower.count;
    root.choose_fraction();
    roots_.push_back(root);
  }

  // Cuts every crowded interval into one part more than it holds eigenvalues, until none is left.
  void isolate() {
    while (!crowded_.empty()) {
      points_.clear();
      for (const Interval& interval : crowded_) {
        const std::int64_t cuts = interval.upper.count - interval.lower.count;
        const double width = interval.upper.x - interval.lower.x;
        for (std::int64_t i = 1; i <= cuts; ++i) {
          SturmPoint point;
          point.x =
              interval.lower.x + width * (static_cast<double>(i) / static_cast<double>(cuts + 1));
          points_.push_back(point);
        }
      }
      evaluator_.evaluate(points_, true);
      next_crowded_.clear();
      std::size_t next = 0;
      for (const Interval& interval : crowded_) {
        const std::int64_t cuts = interval.upper.count - interval.lower.count;
        Interval part = interval;
        for (std::int64_t i = 0; i < cuts; ++i, ++next) {
          part.upper = points_[next];
          // Rounding can make neighbouring counts disagree; the bracket's invariants win.
          part.upper.count = std::clamp(part.upper.count, part.lower.count, interval.upper.count);
          place(part, next_crowded_);
          part.lower = part.upper;
        }
        part.upper = interval.upper;
        place(part, next_crowded_);
      }
      crowded_.swap(next_crowded_);
    }
  }

  void interpolate() {
    for (int iteration = 0; !roots_.empty(); ++iteration) {
      points_.resize(roots_.size());
      for (std::size_t i = 0; i < roots_.size(); ++i) {
        points_[i].x = roots_[i].next_shift();
      }
      evaluator_.evaluate(points_, false);
      std::size_t kept = 0;
      for (std::size_t i = 0; i < roots_.size(); ++i) {
        BracketedRoot& root = roots_[i];
        if (root.advance(points_[i])) {
          *out_++ = root.value();
        } else if (iteration >= kMaxInterpolations) {
          return_to_counting(root);
        } else {
          root.choose_fraction();
          roots_[kept++] = root;
        }
      }
      roots_.resize(kept);
    }
  }

  void return_to_counting(const BracketedRoot& root) {
    const bool ascending = root.newest.x < root.opposite.x;
    Interval interval;
    interval.lower = ascending ? root.newest : root.opposite;
    interval.upper = ascending ? root.opposite : root.newest;
    interval.lower.count = root.lower_count;
    interval.upper.count = root.lower_count + 1;
    interval.by_count = true;
    crowded_.push_back(interval);
  }

  Evaluator evaluator_;
  double* out_;
  std::int64_t size_;
  std::vector<SturmPoint> points_;
  std::vector<Interval> crowded_, next_crowded_;
  std::vector<BracketedRoot> roots_;
};

}  // namespace

void tridiagonal_eigenvalues(std::span<const double> diagonal, std::span<const double> off_diagonal,
                             std::span<double> eigenvalues, SimdLevel level,
                             const std::stop_token& stop) {
  const auto size = static_cast<std::int64_t>(diagonal.size());
  expects(size == 0 || off_diagonal.size() + 1 >= diagonal.size(), "off-diagonal too short");
  expects(eigenvalues.size() == diagonal.size(), "one eigenvalue per row");
  if (size == 0) {
    return;
  }
  double norm = 0.0;
  bool finite = true;
  for (std::int64_t i = 0; i < size; ++i) {
    const double off = i + 1 < size ? std::abs(off_diagonal[i]) : 0.0;
    finite = finite && std::isfinite(diagonal[i]) && std::isfinite(off);
    norm = std::max({norm, std::abs(diagonal[i]), off});
  }
  if (!finite || norm == 0.0) {
    std::fill(eigenvalues.begin(), eigenvalues.end(),
              finite ? 0.0 : std::numeric_limits<double>::quiet_NaN());
    return;
  }
  // |d| + |e| + |e'| < 3 * 2^(k+1), so that scaling by 2^-(k+3) brings ||T|| below 1.
  const int exponent = -(std::ilogb(norm) + 3);
  std::vector<double> d(diagonal.size());
  std::vector<double> e(diagonal.size());  // e[i] couples rows i-1 and i
  double scaled_norm = 0.0;
  for (std::int64_t i = 0; i < size; ++i) {
    d[i] = std::ldexp(diagonal[i], exponent);
    e[i] = i > 0 ? std::ldexp(std::abs(off_diagonal[i - 1]), exponent) : 0.0;
    scaled_norm = std::max({scaled_norm, std::abs(d[i]), e[i]});
  }
  const double negligible = 0.25 * kEps64 * scaled_norm;
  std::vector<double> off_squared(diagonal.size());
  for (std::int64_t i = 0; i < size; ++i) {
    if (e[i] <= negligible) {
      e[i] = 0.0;
    }
    off_squared[i] = e[i] * e[i];
  }

  for (std::int64_t first = 0; first < size;) {
    std::int64_t last = first + 1;
    while (last < size && e[last] != 0.0) {
      ++last;
    }
    if (last == first + 1) {
      eigenvalues[first] = d[first];
    } else {
      double lower = d[first];
      double upper = d[first];
      for (std::int64_t i = first; i < last; ++i) {
        const double radius = e[i] + (i + 1 < last ? e[i + 1] : 0.0);
        lower = std::min(lower, d[i] - radius);
        upper = std::max(upper, d[i] + radius);
      }
      const double margin = 4.0 * kEps64;
      const TridiagonalBlock block{d.data() + first, off_squared.data() + first, last - first};
      BlockSolver(block, level, stop, eigenvalues.data() + first)
          .solve(lower - margin, upper + margin);
    }
    first = last;
  }
  std::sort(eigenvalues.begin(), eigenvalues.end());
  for (double& value : eigenvalues) {
    value = std::ldexp(value, -exponent);
  }
}

}  // namespace vindex::cpu
