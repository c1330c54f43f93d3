// Owns what of a model is stored as gate vectors, and as which types.
#pragma once

#include "store_settings.hpp"

#include "commands/lookup/features/feature_source.hpp"
#include "results/rows/stored_row.hpp"

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace vindex::commands {

/// A matrix of features that is stored, and where.
struct StoredMatrix {
  model::FeatureMatrix features;
  std::size_t row = 0;     ///< of the file's table
  std::int64_t first = 0;  ///< its first feature in the file
};

/// What is stored of a model.
struct StorePlan {
  std::vector<StoredMatrix> matrices;
  std::vector<results::StoredRow> rows;
  std::int64_t features = 0, width = 0;
  decode::ElementType type = decode::ElementType::kF32;
  decode::ElementType embedding_type = decode::ElementType::kF32;
  std::int64_t embedding = -1;  ///< of the index; -1: none is stored
  std::int64_t named = 0;       ///< entries of the vocabulary for each feature
  std::string no_tokens;        ///< why there are none
};

/// Errors: those of FeatureSource::features(); FormatError E-UNSUPPORTED (65) where no matrix can
/// be decoded; ConfigurationError E-FEATURES (78) for more than a file numbers.
StorePlan plan_features(const StoreSettings& settings, const FeatureSource& source);

}  // namespace vindex::commands
