// Owns what is known of a layer's activations before any product: the mean of every column and the
// squared norm of every centred row.
#pragma once

#include <vindex/engine/activation_rows.hpp>

#include <cstdint>
#include <span>
#include <vector>

namespace vindex::jobs {

struct LayerSums {
  std::vector<double> means;      ///< per column
  std::vector<double> row_norms;  ///< squared, of rows less `means`
  double trace = 0.0;             ///< their sum
  bool is_finite = true;          ///< no value is NaN, infinite or beyond kMaxActivation; the rest
                                  ///< is otherwise of no use
  double kernel_scale = 1.0;      ///< power of two that brings trace / rows to [1, 2)
};

/// Sizes of values beyond which differences and sums of them leave float32.
inline constexpr double kMaxActivation = 1e36;

/// Reads `rows` twice, `slab` rows at a time. Sums in float64 of values as float32, in a fixed
/// order.
LayerSums layer_sums(engine::ActivationRows& rows, std::int64_t slab);

/// sum_i left_i right_order(i): `order` are the runs of rows of the right side.
double norms_product(const LayerSums& left, const LayerSums& right,
                     std::span<const engine::RowRun> order);

}  // namespace vindex::jobs
