// Owns the job of `vindex compare`: a row is a pair of matrices of two models, compared on the
// host.
#pragma once

#include <vindex/model/pairing.hpp>
#include <vindex/results/measured_spectra.hpp>
#include <vindex/run/job.hpp>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

namespace vindex::run {

/// A model that the job keeps open.
struct OpenModel {
  shard::ModelFiles files;
  model::ModelIndex index;
};

/// What was measured of both models; both or none.
struct SpectraOfBoth {
  std::unique_ptr<results::MeasuredSpectra> a, b;
};

class PairJob final : public Job {
 public:
  PairJob(std::unique_ptr<OpenModel> a, std::unique_ptr<OpenModel> b,
          std::vector<model::MatrixPair> pairs, SpectraOfBoth spectra, std::int32_t threads);

  const ModelViews& models() const override { return views_; }
  std::int64_t row_count() const override { return static_cast<std::int64_t>(pairs_.size()); }
  RowFacts facts(std::int64_t row) const override;
  std::vector<RowWork> works(const std::vector<std::int64_t>& rows) const override;
  Lanes lanes() const override;
  std::unique_ptr<measure::StagingBuffer> make_staging(std::size_t bytes) override;
  void begin(RowSink& rows, std::uint64_t queue_bytes) override;
  void process(UnitStream& unit, std::size_t device) override;

 private:
  const model::MatrixRecord& matrix(std::int64_t row, bool is_b) const;
  void add_spectra(std::int64_t number, results::ResultRow& row) const;

  std::unique_ptr<OpenModel> a_, b_;
  ModelViews views_;
  std::vector<model::MatrixPair> pairs_;
  SpectraOfBoth spectra_;
  std::int32_t threads_;
  RowSink* rows_ = nullptr;
};

}  // namespace vindex::run
