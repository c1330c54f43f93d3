// Owns counting the rows that files are still needed for.
#include "stored_sources.hpp"

#include <algorithm>
#include <set>

namespace vindex::engine {

StoredSources::StoredSources(const ModelViews& models, const std::vector<RowWork>& works) {
  std::vector<std::size_t> first_of_model;
  for (const ModelView& model : models) {
    first_of_model.push_back(sources_.size());
    for (const input::Shard& shard : model.files->shards) {
      sources_.push_back(shard.source.get());
    }
  }
  open_rows_.assign(sources_.size(), 0);
  for (const RowWork& work : works) {
    std::set<std::size_t> sources;
    for (const MatrixRef& ref : work.matrices) {
      const model::MatrixRecord& record = record_of(models, ref);
      const auto add = [&](std::int32_t tensor) {
        if (tensor >= 0) {
          sources.insert(
              first_of_model[static_cast<std::size_t>(ref.model)] +
              static_cast<std::size_t>(
                  files_of(models, ref).tensors[static_cast<std::size_t>(tensor)].shard));
        }
      };
      add(record.codes.tensor);
      for (const model::CompanionPart& companion : record.companions) {
        add(companion.part.tensor);
      }
    }
    for (const std::size_t source : sources) {
      ++open_rows_[source];
    }
    needed_[work.row].assign(sources.begin(), sources.end());
  }
  for (std::size_t source = 0; source < sources_.size(); ++source) {
    tell(source);
  }
}

void StoredSources::stored() {
  for (const std::int64_t row : made_) {
    const auto found = needed_.find(row);
    if (found == needed_.end()) {
      continue;  // nothing was read for it
    }
    for (const std::size_t source : found->second) {
      --open_rows_[source];
      tell(source);
    }
    needed_.erase(found);
  }
  made_.clear();
}

void StoredSources::tell(std::size_t source) {
  if (open_rows_[source] == 0) {
    sources_[source]->results_are_stored();
  }
}

}  // namespace vindex::engine
