// Owns the weights of a stage as they come from the engine: matrices of a unit of work, waited for
// when they are first used, and small vectors read beside them.
#pragma once

#include "layer_tools.hpp"

#include "engine/units/unit_stream.hpp"
#include "input/model_files.hpp"
#include "model/transformer/transformer.hpp"

#include <cstddef>
#include <cstdint>
#include <map>
#include <span>
#include <tuple>
#include <utility>
#include <vector>

namespace vindex::commands {

/// Small vectors that were read, by which elements of which tensor they are.
using StageVectors = std::map<std::tuple<std::int32_t, std::int64_t, std::int64_t, std::int64_t>,
                              std::vector<float>>;

/// What a stage works with: matrices of ModelIndex::matrices, each once, in the order of their use.
class StageInputs final : public StageWeights {
 public:
  /// `unit` has `matrices` as its own, in their order, from number `first` on. Vectors in `shared`
  /// are not read again. All must outlive it.
  StageInputs(engine::UnitStream& unit, const std::vector<std::int64_t>& matrices,
              const input::ModelFiles& files, std::size_t first = 0,
              const StageVectors* shared = nullptr);

  /// Waits for it at the first call. Errors: those of reading it; Stopped; expects() one of the
  /// stage.
  MatrixInput& matrix(std::int64_t index) override;
  std::span<const float> vector(const model::VectorRef& ref) override;

  /// Throws where a matrix that was used could not be read, or its file is no longer the one that
  /// was opened: asked before what was computed is believed. Gives the bytes back.
  void finish();
  /// The vectors that were read, for later stages; none is there afterwards.
  StageVectors take_vectors() { return std::move(vectors_); }

 private:
  engine::UnitStream& unit_;
  const std::vector<std::int64_t>& matrices_;
  const input::ModelFiles& files_;
  std::size_t first_;
  std::vector<bool> used_;
  const StageVectors* shared_;
  StageVectors vectors_;
};

}  // namespace vindex::commands
