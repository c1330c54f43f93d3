// Owns what the sources of the library share: a model's state, and making its named numbers.
#pragma once

#include <vindex/jobs/spectra/measure_run.hpp>
#include <vindex/measure/backend.hpp>
#include <vindex/measure/metrics.hpp>
#include <vindex/model/model_index.hpp>
#include <vindex/shard/model_files.hpp>
#include <vindex/vindex.hpp>

#include <memory>
#include <string>
#include <vector>

namespace vindex {

struct v0::Model::State {
  std::string address;
  shard::ModelFiles files;
  model::ModelIndex index;
  std::vector<Matrix> matrices;  ///< of index.matrices, one each
  std::vector<std::string> warnings;
};

inline namespace v0 {

struct ModelAccess {
  static const Model::State& state(const Model& model) { return *model.state_; }
};

struct FiguresAccess {
  static void put(Figures& figures, const std::string& name, double value) {
    figures.values_.insert_or_assign(name, value);
  }
};

}  // namespace v0

namespace library {

/// Every metric, and where `nulls` is given what noise gives, by the names of their columns.
Figures figures_of(const measure::MetricValues* values, const measure::MetricValues* nulls);

measure::Mode mode_of(Mode mode);
/// Errors: UsageError E-BACKEND.
engine::BackendChoice backend_of(const std::string& name);

}  // namespace library
}  // namespace vindex
