// Owns the test of a law of scale: whether a figure of models rises with the logarithm of their
// parameters. Least squares gives the slope and its interval; what it would be without dependence
// comes from exchanging the figures among the models, and no slope is reported without it.
#pragma once

#include "measured_model.hpp"

#include "core/constants.hpp"

#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace vindex::fleet {

/// A line through (ln parameters, figure) with an intercept of its own for each group.
struct ScaleFit {
  std::int64_t models = 0;
  std::int64_t groups = 0;
  double slope = kNaN;             ///< figure per factor e of parameters
  double low = kNaN, high = kNaN;  ///< 95 %, Student's, of normal residuals; 4 degrees of freedom
  double p = kNaN;                 ///< two-sided: orders with a slope as steep
  std::int64_t orders = 0;         ///< compared
  bool all_orders = false;         ///< every one there is, not drawn ones
  std::string reason = {};         ///< why there is no p
};

/// `figures` of models with `log_parameters`; figures are exchanged within `groups` alone, which
/// number from 0. Drawn orders are the same in every run. Errors: none; NaN and a reason below 4
/// models within groups of two and more, for models of one size, and where fewer than 20 orders
/// exist: p could not reach 0.05.
ScaleFit fit_scale(std::span<const double> log_parameters, std::span<const double> figures,
                   std::span<const std::int64_t> groups);

/// A figure of models against their size: of all of them, and within architectures, where models
/// of one share what else differs (widths, tokenizers, makers).
struct ScaleLaw {
  std::string name;  ///< "theta", "erank_over_null", "var64_over_null", "var64_excess"
  std::string unit;  ///< of the figure
  ScaleFit all, within;
};

/// Of each of the four figures. The two ratios depend on shapes at an equal share of signal: their
/// nulls fall as matrices grow. Models without the figure or without parameters take no part.
std::vector<ScaleLaw> scale_laws(std::span<const ModelMeasure* const> models);

}  // namespace vindex::fleet
