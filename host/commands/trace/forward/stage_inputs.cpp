// Owns looking matrices up in a unit, and the vectors that were read.
#include "stage_inputs.hpp"

#include <vindex/error.hpp>

#include <algorithm>

namespace vindex::commands {

StageInputs::StageInputs(engine::UnitStream& unit, const std::vector<std::int64_t>& matrices,
                         const input::ModelFiles& files, std::size_t first,
                         const StageVectors* shared)
    : unit_(unit),
      matrices_(matrices),
      files_(files),
      first_(first),
      used_(matrices.size()),
      shared_(shared) {}

MatrixInput& StageInputs::matrix(std::int64_t index) {
  const auto found = std::find(matrices_.begin(), matrices_.end(), index);
  expects(found != matrices_.end(), "a matrix of the stage");
  const auto i = static_cast<std::size_t>(found - matrices_.begin());
  if (!used_[i]) {
    unit_.wait(first_ + i);
    unit_.require_read(first_ + i);
    used_[i] = true;
  }
  expects(unit_.input(first_ + i) != nullptr, "an input without an error");
  return *unit_.input(first_ + i);
}

std::span<const float> StageInputs::vector(const model::VectorRef& ref) {
  if (!ref) {
    return {};
  }
  const std::tuple key(ref.tensor, ref.first, ref.step, ref.count);
  if (shared_ != nullptr) {
    if (const auto there = shared_->find(key); there != shared_->end()) {
      return there->second;
    }
  }
  const auto [at, is_new] = vectors_.try_emplace(key);
  if (is_new) {
    at->second = model::read_vector(files_, ref);
  }
  return at->second;
}

void StageInputs::finish() {
  for (std::size_t i = 0; i < matrices_.size(); ++i) {
    if (used_[i]) {
      unit_.require_read(first_ + i);
    }
    if (unit_.input(first_ + i) != nullptr) {
      unit_.input(first_ + i)->release();
    }
  }
}

}  // namespace vindex::commands
