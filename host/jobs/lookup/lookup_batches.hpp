// Owns how many queries of a lookup are answered at a time: as many as the budget holds.
#pragma once

#include "lookup_features.hpp"

#include <cstddef>
#include <cstdint>
#include <vector>

namespace vindex::jobs {

/// What the memory of a lookup depends on; all outlive LookupBatches.
struct BatchShape {
  const LookupSettings* settings = nullptr;
  const model::ModelIndex* index = nullptr;
  const std::vector<model::FeatureMatrix>* features = nullptr;
  std::int64_t output = -1;  ///< matrix of the output embedding, or -1
  std::int64_t width = 0;    ///< of a query
  std::int32_t threads = 1;
};

/// Upper bounds, bytes.
struct BatchMemory {
  std::uint64_t search = 0, describe = 0;            ///< vectors, lists and answers, in either part
  std::uint64_t search_work = 0, describe_work = 0;  ///< of one worker
};

class LookupBatches {
 public:
  explicit LookupBatches(const BatchShape& shape);
  BatchMemory memory(std::size_t queries) const;
  /// As many of the settings' queries as half of ram_budget holds, with a quarter of it for what
  /// workers take; one at least, which may be too many.
  std::size_t size() const;

 private:
  std::uint64_t list_bytes(std::uint64_t count, std::uint64_t most) const;

  BatchShape shape_;
  std::uint64_t rows_ = 0;     ///< of all features
  bool names_tokens_ = false;  ///< the output embedding is searched
};

}  // namespace vindex::jobs
