// Owns how long a run would take, by measuring some noise, and what it takes of a device.
#pragma once

#include "backend/backend.hpp"
#include "engine/plan/work_plan.hpp"
#include "engine/run_settings.hpp"
#include "model/model_index.hpp"

#include <cstdint>
#include <memory>
#include <vector>

namespace vindex::commands {

/// What a matrix of `rows x cols` is replaced by where a measurement of its speed is to take
/// `factor` of its time in each dimension: whole blocks of any encoding, and of thin ones no more
/// weights than are made and read in about a second (2^25).
struct ExampleShape {
  std::int64_t rows = 0, cols = 0;
};
ExampleShape example_shape(std::int64_t rows, std::int64_t cols, double factor);

/// Seconds that `plan` would take: noise in the shapes and encodings that cost most is measured on
/// all back ends as a run would, the rest scaled by arithmetic. Takes a few seconds itself; knows
/// nothing of the storage.
double expected_seconds(const engine::WorkPlan& plan, const model::ModelIndex& index,
                        const engine::RunSettings& settings,
                        const std::vector<std::unique_ptr<Backend>>& backends);

/// Device memory of `backend` that the calls of `plan` which run at once take at most; bytes.
std::uint64_t device_need(const engine::WorkPlan& plan, const model::ModelIndex& index,
                          const engine::RunSettings& settings, const Backend& backend);

}  // namespace vindex::commands
