// Owns the weights of a stage as they come from the engine: matrices of a unit of work, waited for
// when they are first used, and small vectors read beside them.
#pragma once

#include "layer_blocks.hpp"

#include "engine/unit_stream.hpp"
#include "input/model_files.hpp"
#include "model/model_index.hpp"
#include "model/transformer.hpp"

#include <cstddef>
#include <cstdint>
#include <map>
#include <span>
#include <tuple>
#include <vector>

namespace vindex::jobs {

/// What a stage works with: matrices of ModelIndex::matrices, each once, in the order of their use.
class StageInputs final : public StageWeights {
 public:
  /// `unit` has `matrices` as its own, in their order, from number `first` on. All must outlive it.
  StageInputs(engine::UnitStream& unit, const std::vector<std::int64_t>& matrices,
              const input::ModelFiles& files, std::size_t first = 0);

  /// Waits for it at the first call. Errors: those of reading it; Stopped; expects() one of the
  /// stage.
  measure::MatrixInput& matrix(std::int64_t index) override;
  std::span<const float> vector(const model::VectorRef& ref) override;

  /// Throws where a matrix that was used could not be read, or its file is no longer the one that
  /// was opened: asked before what was computed is believed. Gives the bytes back.
  void finish();

 private:
  engine::UnitStream& unit_;
  const std::vector<std::int64_t>& matrices_;
  const input::ModelFiles& files_;
  std::size_t first_;
  std::vector<bool> used_;
  std::map<std::tuple<std::int32_t, std::int64_t, std::int64_t, std::int64_t>, std::vector<float>>
      vectors_;
};

}  // namespace vindex::jobs
