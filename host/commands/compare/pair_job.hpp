// Owns the job of `vindex compare`: a row is a pair of matrices of two models, compared on the host
// and, where that was asked for, measured by back ends.
#pragma once

#include "measured_spectra.hpp"
#include "pair_measurement.hpp"

#include "engine/run/job.hpp"
#include "engine/run/opening.hpp"
#include "model/pairing/pairing.hpp"

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

namespace vindex::commands {

/// What was measured of both models; both or none.
struct SpectraOfBoth {
  std::unique_ptr<MeasuredSpectra> a, b;
};

/// A row of the job.
struct JobPair {
  model::MatrixPair matrices;
  model::MatrixRecord a, b;  ///< what the sides are: of a side in parts, what they make up
  HeadOrder order = {};
};

/// What a comparing run computes with. Without back ends there is nothing to ask of them.
struct PairComputing {
  PairRequest request;
  std::vector<std::unique_ptr<Backend>> backends;
  std::int32_t threads = 1;  ///< of comparing itself
};

class PairJob final : public engine::Job {
 public:
  PairJob(engine::OpenModel a, engine::OpenModel b, std::vector<JobPair> pairs,
          SpectraOfBoth spectra, PairComputing computing);

  const engine::ModelViews& models() const override { return views_; }
  std::int64_t row_count() const override { return static_cast<std::int64_t>(pairs_.size()); }
  engine::RowFacts facts(std::int64_t row) const override;
  std::vector<engine::RowWork> works(const std::vector<std::int64_t>& rows) const override;
  engine::WorkerLayout worker_layout() const override;
  std::unique_ptr<StagingBuffer> make_staging(std::size_t bytes) override;
  void process(engine::UnitStream& unit, std::size_t device, engine::RowSink& rows) override;

 private:
  const JobPair& pair(std::int64_t row) const { return pairs_[static_cast<std::size_t>(row)]; }
  engine::RowWork work_of(std::int64_t row) const;
  std::uint64_t own_memory(const JobPair& pair) const;
  void add_spectra(std::int64_t number, results::ResultRow& row) const;
  results::ResultRow finished_row(std::int64_t number, PairInWork& work) const;

  engine::OpenModel a_, b_;
  engine::ModelViews views_;
  std::vector<JobPair> pairs_;
  SpectraOfBoth spectra_;
  PairComputing computing_;
  statistics::NullCache nulls_;
};

}  // namespace vindex::commands
