// Owns writing the input embedding of a model to a file of gate vectors.
#pragma once

#include "store_plan.hpp"

#include "results/hdf5/hdf5.hpp"

#include <cstddef>
#include <cstdint>
#include <stop_token>

namespace vindex::commands {

struct EmbeddingPace {
  std::size_t threads = 1;
  std::int64_t part_rows = 1;   ///< that a thread decodes at a time
  std::int64_t batch_rows = 1;  ///< that are held at a time: a multiple of kGateChunkRows
  std::stop_token stop = {};
};

/// plan.embedding, which is there, and the factor of its rows. Errors: those of reading weights,
/// ConfigurationError E-DTYPE (78), Stopped.
void write_embedding(results::h5::File& file, const FeatureSource& source, const StorePlan& plan,
                     const EmbeddingPace& pace);

}  // namespace vindex::commands
