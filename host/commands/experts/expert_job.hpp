// Owns the job of `vindex experts`: a row is the routed experts of one layer and role, read side by
// side by their reader.
#pragma once

#include "expert_group.hpp"

#include "engine/run/job.hpp"
#include "model/experts/expert_groups.hpp"

#include <atomic>
#include <cstdint>
#include <memory>
#include <vector>

namespace vindex::commands {

/// What a run has computed, to be compared with what the machine could.
struct ExpertTally {
  std::atomic<double> flops{0.0};
};

class ExpertJob final : public engine::Job {
 public:
  /// `calls`: as WorkerLayout has them.
  ExpertJob(engine::SelectedModel model, std::vector<model::ExpertGroup> groups,
            std::vector<std::unique_ptr<Backend>> backends, const ExpertOptions& options,
            std::vector<std::int32_t> calls, std::shared_ptr<ExpertTally> tally);

  const engine::ModelViews& models() const override { return views_; }
  std::int64_t row_count() const override { return static_cast<std::int64_t>(groups_.size()); }
  engine::RowFacts facts(std::int64_t row) const override;
  std::vector<engine::RowWork> works(const std::vector<std::int64_t>& rows) const override;
  engine::WorkerLayout worker_layout() const override;
  std::unique_ptr<StagingBuffer> make_staging(std::size_t bytes) override;
  void process(engine::UnitStream& unit, std::size_t device, engine::RowSink& rows) override;

 private:
  std::uint64_t bytes_of(const model::ExpertGroup& group) const;

  engine::SelectedModel model_;
  engine::ModelViews views_;
  std::vector<model::ExpertGroup> groups_;
  std::vector<std::unique_ptr<Backend>> backends_;
  ExpertOptions options_;
  std::vector<std::int32_t> calls_;
  std::shared_ptr<ExpertTally> tally_;
};

}  // namespace vindex::commands
