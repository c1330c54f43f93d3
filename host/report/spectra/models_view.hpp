// Owns several results files side by side: one metric by role for each, beside its null.
#pragma once

#include "metric_groups.hpp"
#include "spectra_view.hpp"

#include <cstddef>
#include <string>
#include <vector>

namespace vindex::report {

struct ModelView {
  std::string path, model;
  ViewedMetric metric;
  std::vector<MetricGroup> roles;  ///< over all layers, in the order of the results
};

/// Errors: those of read_spectra_view() for any of `paths`.
std::vector<ModelView> read_model_views(const std::vector<std::string>& paths,
                                        const ShowQuery& query);

/// A row for each model, a column for each role, as many tables as `width` needs: medians of value
/// over null, or values beside nothing where the metric has no null.
std::string models_text(const std::vector<ModelView>& models, std::size_t width);
/// vindex-show-models/1.
std::string models_json(const std::vector<ModelView>& models);

}  // namespace vindex::report
