// Owns the null of a product: draws of small triangles, the same on every machine up to rounding.
//
// The metrics of a chain of factors of independent normals, averaged over draws. A draw of a tall n
// x r factor is replaced by its triangle R, whose law is known (Bartlett 1933): R_ii is chi with n
// - i degrees of freedom (i from 0), R_ij normal above the diagonal, all independent. So a draw
// costs r^3 and not n r^2.
//
// Why draws and no formula: the singular values of a product of noise follow no Marchenko-Pastur
// law, and at the sizes of heads (64 to 256) limits for many factors are far off.
#include "product_nulls.hpp"

#include "product_spectrum.hpp"

#include "backend/backend.hpp"
#include "core/constants.hpp"
#include "core/philox.hpp"
#include "cpu/strict/strict_qr.hpp"
#include "cpu/workspace/workspace.hpp"
#include <vindex/error.hpp>

#include <algorithm>
#include <cmath>
#include <future>
#include <map>
#include <mutex>
#include <numbers>
#include <stop_token>
#include <utility>

namespace vindex::cpu {
namespace {

constexpr std::uint64_t kKey = 0x70726F6475637473;  // any fixed number

/// Standard normals and chi variables, in order, from one stream of Philox.
class Draws {
 public:
  /// Box and Muller 1958, in double.
  double normal() {
    if (has_second_) {
      has_second_ = false;
      return second_;
    }
    const double radius = std::sqrt(-2.0 * std::log(uniform()));
    const double angle = 2.0 * std::numbers::pi * uniform();
    second_ = radius * std::sin(angle);
    has_second_ = true;
    return radius * std::cos(angle);
  }
  /// The norm of `count` normals. Source: Marsaglia and Tsang 2000 for gamma(count / 2).
  double chi(std::int64_t count) {
    if (count == 1) {
      return std::abs(normal());
    }
    const double d = 0.5 * static_cast<double>(count) - 1.0 / 3.0;
    const double c = 1.0 / std::sqrt(9.0 * d);
    while (true) {
      const double x = normal();
      const double root = 1.0 + c * x;
      if (root <= 0.0) {
        continue;
      }
      const double v = root * root * root;
      if (std::log(uniform()) < 0.5 * x * x + d - d * v + d * std::log(v)) {
        return std::sqrt(2.0 * d * v);
      }
    }
  }

 private:
  /// In (0, 1), 52 bits.
  double uniform() {
    if (left_ == 0) {
      block_ = philox_block(kKey, counter_++);
      left_ = 2;
    }
    --left_;
    const std::uint64_t bits =
        static_cast<std::uint64_t>(block_.word[2 * left_]) << 32U | block_.word[2 * left_ + 1];
    return (static_cast<double>(bits >> 12U) + 0.5) * 0x1p-52;
  }

  PhiloxBlock block_{};
  std::uint64_t counter_ = 0;
  int left_ = 0;
  double second_ = 0.0;
  bool has_second_ = false;
};

/// R of a rows x d matrix of normals, rows >= d.
Factor triangle(Draws& draws, std::int64_t rows, std::int64_t d) {
  Factor out{d, d, std::vector<double>(static_cast<std::size_t>(d * d), 0.0)};
  for (std::int64_t i = 0; i < d; ++i) {
    double* const row = out.values.data() + i * d;
    row[i] = draws.chi(rows - i);
    for (std::int64_t j = i + 1; j < d; ++j) {
      row[j] = draws.normal();
    }
  }
  return out;
}

Factor transposed(const Factor& factor) {
  Factor out{factor.cols, factor.rows, std::vector<double>(factor.values.size())};
  for (std::int64_t i = 0; i < factor.rows; ++i) {
    for (std::int64_t j = 0; j < factor.cols; ++j) {
      out.values[static_cast<std::size_t>(j * factor.rows + i)] =
          factor.values[static_cast<std::size_t>(i * factor.cols + j)];
    }
  }
  return out;
}

/// Draws enough for a standard error of 0.2 % of var_at_1, whose spread falls with the rank.
std::int64_t draw_count(std::int64_t rank) {
  // One value has no shape.
  return rank == 1 ? 1 : std::clamp<std::int64_t>(32768 / rank, 32, 8192);
}

}  // namespace

double product_null_cost(std::span<const std::int64_t> sides) {
  const std::int64_t rank = product_rank(sides);
  const auto r = static_cast<double>(rank);
  const double triangles = static_cast<double>(sides.size()) - 1.0;
  return static_cast<double>(draw_count(rank)) * (2.0 + triangles) * r * r * r;
}

statistics::MetricValues product_null_metrics(std::span<const std::int64_t> sides,
                                              const std::stop_token& stop) {
  const std::int64_t rank = product_rank(sides);
  const auto cut =
      static_cast<std::size_t>(std::min_element(sides.begin(), sides.end()) - sides.begin());
  const std::int64_t count = draw_count(rank);
  statistics::MetricValues sums;
  sums.var_at_k.fill(0.0);
  sums.scalar.fill(0.0);
  Draws draws;
  for (std::int64_t draw = 0; draw < count; ++draw) {
    // From the left end to the cut triangles, from the cut to the right end their transposes.
    std::vector<Factor> triangles;
    for (std::size_t i = 0; i < sides.size(); ++i) {
      if (i != cut) {
        Factor r = triangle(draws, sides[i], rank);
        triangles.push_back(i < cut ? std::move(r) : transposed(r));
      }
    }
    std::vector<const Factor*> chain;
    for (const Factor& factor : triangles) {
      chain.push_back(&factor);
    }
    const MatrixReport report = product_spectrum(chain, 1.0, stop);
    expects(report.status == MatrixStatus::kMeasured, "a product of normals has a spectrum");
    std::string unused;
    const statistics::MetricValues values =
        derive_product_metrics(sides.front(), sides.back(), rank, report, unused);
    for (std::size_t i = 0; i < kVarAtK.size(); ++i) {
      sums.var_at_k[i] += values.var_at_k[i];
    }
    for (std::size_t i = 0; i < statistics::kMetricCount; ++i) {
      sums.scalar[i] += values.scalar[i];
    }
  }
  const double scale = 1.0 / static_cast<double>(count);
  statistics::MetricValues nulls;
  for (std::size_t i = 0; i < kVarAtK.size(); ++i) {
    nulls.var_at_k[i] = sums.var_at_k[i] * scale;
  }
  for (const statistics::MetricRow& row : statistics::metric_rows()) {
    nulls[row.metric] = row.has_null ? sums[row.metric] * scale : kNaN;
  }
  if (std::count(sides.begin(), sides.end(), rank) > 1) {
    nulls[statistics::Metric::kConditionNumber] = kNaN;
  }
  return nulls;
}

struct ProductNullCache::State {
  std::mutex mutex;
  std::map<std::vector<std::int64_t>, std::shared_future<statistics::MetricValues>> by_sides;
};

ProductNullCache::ProductNullCache() : state_(std::make_unique<State>()) {}
ProductNullCache::~ProductNullCache() = default;

const statistics::MetricValues& ProductNullCache::of(const std::vector<std::int64_t>& sides,
                                                     const std::stop_token& stop) {
  std::vector<std::int64_t> key(sides.rbegin(), sides.rend());
  key = std::min(key, sides);
  std::promise<statistics::MetricValues> own;
  std::shared_future<statistics::MetricValues> value;
  bool draws = false;
  {
    const std::lock_guard lock(state_->mutex);
    const auto [at, fresh] = state_->by_sides.try_emplace(key);
    if (fresh) {
      at->second = own.get_future().share();
    }
    draws = fresh;
    value = at->second;
  }
  if (draws) {
    try {
      own.set_value(product_null_metrics(key, stop));
    } catch (...) {
      own.set_exception(std::current_exception());
    }
  }
  return value.get();  // the state of the future lives in the map
}

}  // namespace vindex::cpu
