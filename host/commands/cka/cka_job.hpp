// Owns the job of a CKA run: a row for each layer of A, made of it and every layer of B.
#pragma once

#include "cka_plan.hpp"
#include "cka_rows.hpp"
#include "cka_tile.hpp"

#include "engine/run/job.hpp"
#include "model/dump/dump.hpp"

#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

namespace vindex::commands {

/// One side: its dump and the layers that are compared.
struct CkaSide {
  model::Dump dump;
  std::vector<std::int64_t> layers;  ///< indices into dump.index.matrices, ascending
  const model::MatrixRecord& record(std::size_t layer) const {
    return dump.index.matrices[static_cast<std::size_t>(layers[layer])];
  }
};

class CkaJob final : public engine::Job {
 public:
  /// `reasons`: why numbers that no row has are NaN.
  CkaJob(CkaSide a, CkaSide b, ComparedRows rows, CkaShape shape, CkaPlan plan,
         std::vector<std::string> reasons, std::vector<std::unique_ptr<Backend>> backends,
         std::int32_t threads);

  const engine::ModelViews& models() const override { return views_; }
  std::int64_t row_count() const override { return static_cast<std::int64_t>(a_.layers.size()); }
  engine::RowFacts facts(std::int64_t row) const override;
  std::vector<engine::RowWork> works(const std::vector<std::int64_t>& rows) const override;
  engine::WorkerLayout worker_layout() const override;
  void process(engine::UnitStream& unit, std::size_t device, engine::RowSink& rows) override;

 private:
  /// What is kept of a layer between tiles. `mutex` is held by who makes the sums.
  struct Kept {
    std::mutex mutex;
    std::optional<LayerSums> sums;
    std::optional<SelfSums> self;
  };
  struct Opened;
  class Tile;

  double cost_of(std::int64_t row) const;

  CkaSide a_, b_;
  engine::ModelViews views_;
  ComparedRows compared_;
  CkaShape shape_;
  CkaPlan plan_;
  std::vector<std::string> reasons_;
  std::vector<std::unique_ptr<Backend>> backends_;
  std::int32_t threads_;
  std::vector<Kept> kept_a_, kept_b_;
};

}  // namespace vindex::commands
