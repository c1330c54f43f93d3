// Owns the job of `vindex routing`: a row is a layer of a dump's router logits, routed by a rule;
// the MoE layer before it is read in lock-step, for transitions.
#pragma once

#include "commands/token_tables/routing_null_cache.hpp"
#include "commands/token_tables/routing_row.hpp"
#include "engine/run/job.hpp"
#include "model/dump/dump.hpp"

#include <cstdint>
#include <vector>

namespace vindex::commands {

/// One layer of the dump, and how its tokens are routed.
struct RoutedLayer {
  std::int64_t matrix = 0;  ///< of the dump
  engine::LayerRouter router;
};

class RoutingJob final : public engine::Job {
 public:
  /// `layers` in the order of the dump's layers; `scale` is the file's number of experts.
  RoutingJob(model::Dump dump, std::vector<RoutedLayer> layers, std::int64_t scale,
             std::int32_t threads);

  const engine::ModelViews& models() const override { return views_; }
  std::int64_t row_count() const override { return static_cast<std::int64_t>(layers_.size()); }
  engine::RowFacts facts(std::int64_t row) const override;
  std::vector<engine::RowWork> works(const std::vector<std::int64_t>& rows) const override;
  engine::WorkerLayout worker_layout() const override;
  void process(engine::UnitStream& unit, std::size_t device, engine::RowSink& rows) override;

 private:
  const model::MatrixRecord& record(std::int64_t row) const;
  results::ResultRow route(engine::UnitStream& unit, std::int64_t row);

  model::Dump dump_;
  engine::ModelViews views_;
  std::vector<RoutedLayer> layers_;
  std::int64_t scale_;
  std::int32_t threads_;
  engine::RoutingNullCache nulls_;
};

}  // namespace vindex::commands
