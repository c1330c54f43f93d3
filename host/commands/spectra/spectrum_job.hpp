// Owns the job of `vindex measure`: rows are spectra of matrices, of matrices weighted by
// activations, and of products, made by back ends or (products) on the host.
#pragma once

#include "row_stage.hpp"
#include "spectra_model.hpp"

#include "backend/backend.hpp"
#include "commands/spectra/sampled/scale_threads.hpp"
#include "engine/run/job.hpp"

#include <cstddef>
#include <memory>
#include <vector>

namespace vindex::commands {

/// What of SpectraSettings decides about rows beside how they are measured.
struct RowOptions {
  bool store_spectra = true;
  bool sampled = false;         ///< SpectraSettings::class_of
  bool in_file_order = false;   ///< SpectraSettings::in_file_order
  bool in_drawn_order = false;  ///< SpectraSettings::in_drawn_order
};
RowOptions row_options(const SpectraSettings& settings);

class SpectrumJob final : public engine::Job {
 public:
  SpectrumJob(SpectraModel model, std::vector<std::unique_ptr<Backend>> backends,
              MeasureOptions options, RowOptions rows);

  const engine::ModelViews& models() const override { return views_; }
  std::int64_t row_count() const override;
  engine::RowFacts facts(std::int64_t row) const override;
  std::vector<engine::RowWork> works(const std::vector<std::int64_t>& rows) const override;
  engine::WorkerLayout worker_layout() const override;
  std::unique_ptr<StagingBuffer> make_staging(std::size_t bytes) override;
  void begin(engine::RowSink& rows, std::uint64_t queue_bytes) override;
  void process(engine::UnitStream& unit, std::size_t device, engine::RowSink& rows) override;
  void finish() override;

 private:
  const model::MatrixRecord& record(std::int64_t row) const;
  void process_products(const engine::UnitStream& unit, engine::RowSink& rows);
  void measure_part(engine::UnitStream& unit, Backend& backend,
                    const std::vector<std::size_t>& members, engine::RowSink& rows);

  SpectraModel model_;
  engine::ModelViews views_;
  std::vector<std::unique_ptr<Backend>> backends_;
  MeasureOptions options_;
  RowOptions row_options_;
  std::unique_ptr<RowStage> stage_;
  std::unique_ptr<ScaleThreads> scale_threads_;  ///< with samples, where a device computes
};

/// What rows `rows` of `model` need on `backends`; see Job::works(). In file order: by shard and by
/// where they lie in it; in drawn order: by their places in the draws of their groups.
std::vector<engine::RowWork> spectrum_works(const engine::SelectedModel& model,
                                            const std::vector<std::unique_ptr<Backend>>& backends,
                                            const MeasureOptions& options, RowOptions wanted,
                                            const std::vector<std::int64_t>& rows);

engine::WorkerLayout layout_of(const std::vector<std::unique_ptr<Backend>>& backends,
                               RowOptions wanted);

}  // namespace vindex::commands
