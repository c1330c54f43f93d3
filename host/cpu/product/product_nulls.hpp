// Owns the nulls of products of factors: mean metrics of independent factors of iid normals, by
// draws.
#pragma once
#include "statistics/spectrum/metric_table.hpp"

#include <cstdint>
#include <memory>
#include <span>
#include <stop_token>
#include <vector>

namespace vindex::cpu {

/// Mean metrics of a product of independent factors of iid normals with these sides: of draws,
/// always the same ones. A draw costs rank^3: the triangle of a tall factor of normals is upper
/// triangular with chi variables on the diagonal and normals above (Bartlett 1933), and a factor of
/// normals times an orthogonal one is a factor of normals, so that the whole chain is a product of
/// such triangles of the least side. NaN for metrics without a null, and for condition_number where
/// a second side is the least one too (its mean is infinite). Standard error below 0.2 % from rank
/// 16 on, of condition_number where no second side is within 3 of the least one.
statistics::MetricValues product_null_metrics(std::span<const std::int64_t> sides,
                                              const std::stop_token& stop = {});

/// What product_null_metrics() costs in the units of engine::product_cost(), by measurement (ranks
/// of 64 to 512): cores and triangles are multiplied faster than the tall factors that those units
/// are of.
double product_null_cost(std::span<const std::int64_t> sides);

/// Thread-safe cache of product_null_metrics() by sides; either direction is the same.
class ProductNullCache {
 public:
  ProductNullCache();
  ~ProductNullCache();
  const statistics::MetricValues& of(const std::vector<std::int64_t>& sides,
                                     const std::stop_token& stop = {});

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace vindex::cpu
