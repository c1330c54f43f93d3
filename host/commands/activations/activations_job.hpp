// Owns the job of `vindex activations`: a row is what was dumped of a layer (or the logits), with
// the gate projections of that layer where a model is given. Products are those of a back end.
#pragma once

#include "backend/backend.hpp"
#include "engine/run/job.hpp"
#include "engine/run/opening.hpp"
#include "model/dump/dump.hpp"
#include "model/transformer/features.hpp"
#include "statistics/null/nulls.hpp"

#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

namespace vindex::commands {

/// What one row is made of.
struct ActivationLayer {
  std::int64_t matrix = -1;                      ///< of the dump; -1: this layer was not dumped
  std::vector<model::FeatureMatrix> gates = {};  ///< of the model
  std::int64_t passed_over = 0;                  ///< gate projections that cannot be decoded
};

class ActivationsJob final : public engine::Job {
 public:
  /// `covariance`: effective_rank is asked for.
  ActivationsJob(model::Dump dump, std::optional<engine::OpenModel> model,
                 std::vector<ActivationLayer> layers,
                 std::vector<std::unique_ptr<Backend>> backends, bool covariance);

  const engine::ModelViews& models() const override { return views_; }
  std::int64_t row_count() const override { return static_cast<std::int64_t>(layers_.size()); }
  engine::RowFacts facts(std::int64_t row) const override;
  std::vector<engine::RowWork> works(const std::vector<std::int64_t>& rows) const override;
  engine::WorkerLayout worker_layout() const override;
  std::unique_ptr<StagingBuffer> make_staging(std::size_t bytes) override;
  void process(engine::UnitStream& unit, std::size_t device, engine::RowSink& rows) override;

 private:
  /// The dumped matrix of a row, or null.
  const model::MatrixRecord* dumped(std::int64_t row) const;
  std::vector<engine::MatrixRef> matrices(std::int64_t row) const;
  std::int32_t threads_of_one(std::size_t device) const;
  void add_logits(engine::UnitStream& unit, results::ResultRow& row) const;
  void add_gates(engine::UnitStream& unit, Backend& backend, std::int32_t threads,
                 std::int64_t number, results::ResultRow& row) const;

  model::Dump dump_;
  std::optional<engine::OpenModel> model_;
  engine::ModelViews views_;
  std::vector<ActivationLayer> layers_;
  std::vector<std::unique_ptr<Backend>> backends_;
  bool covariance_;
  mutable statistics::NullCache nulls_;  ///< thread-safe
};

}  // namespace vindex::commands
