// Owns the way of features from weights to a file of gate vectors: batches that the memory holds,
// each decoded, encoded, multiplied with the output embedding and written.
#pragma once

#include "store_plan.hpp"

#include "results/writing/results_writer.hpp"

namespace vindex::commands {

/// What writes the features and the embedding of `plan`, and fills the cells of its rows; all that
/// is given outlives it. Errors: ConfigurationError E-BUDGET (78) here; of writing those of reading
/// weights, E-DTYPE (78), Stopped.
results::WriteAhead feature_writer(const StoreSettings& settings, const FeatureSource& source,
                                   StorePlan& plan, const engine::RunHooks& hooks);

}  // namespace vindex::commands
