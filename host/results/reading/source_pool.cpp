// Owns keeping a few of many part files open while their bulk is read.
#include "source_pool.hpp"

#include <algorithm>

namespace vindex::results {

std::int32_t SourcePool::add(const std::string& path) {
  entries_.push_back({path, nullptr, 0});
  return static_cast<std::int32_t>(entries_.size()) - 1;
}

std::vector<std::string> SourcePool::paths() const {
  std::vector<std::string> paths;
  for (const Entry& entry : entries_) {
    paths.push_back(entry.path);
  }
  return paths;
}

ResultsReader& SourcePool::reader(std::int32_t source) {
  // Rows of one layer may be spread over the parts of many workers.
  constexpr std::size_t kOpen = 64;
  Entry& entry = entries_.at(static_cast<std::size_t>(source));
  entry.last_use = ++clock_;
  if (entry.reader) {
    return *entry.reader;
  }
  std::size_t open = 0;
  Entry* oldest = nullptr;
  for (Entry& other : entries_) {
    if (other.reader) {
      ++open;
      oldest = oldest == nullptr || other.last_use < oldest->last_use ? &other : oldest;
    }
  }
  if (open >= kOpen) {
    oldest->reader.reset();
  }
  entry.reader = std::make_unique<ResultsReader>(entry.path, wanted_);
  return *entry.reader;
}

void SourcePool::close_all() {
  for (Entry& entry : entries_) {
    entry.reader.reset();
  }
}

void SourcePool::sigma(const StoredRow& row, std::span<double> out) {
  if (row.bulk.memory) {
    std::copy(row.bulk.memory->sigma.begin(), row.bulk.memory->sigma.end(), out.begin());
    return;
  }
  reader(row.bulk.source).spectra().read_sigma(row.bulk.row, out);
}

SingularVectors SourcePool::vectors(const StoredRow& row) {
  if (row.bulk.memory) {
    return row.bulk.memory->vectors.value();
  }
  return reader(row.bulk.source).spectra().read_vectors(row.bulk.row);
}

ArrayCell SourcePool::array(const StoredRow& row, std::size_t number) {
  if (row.bulk.memory) {
    const std::vector<ArrayCell>& arrays = row.bulk.memory->arrays;
    return number < arrays.size() ? arrays[number] : ArrayCell();
  }
  return row.bulk.source < 0 || row.status == MatrixStatus::kSkipped
             ? ArrayCell()
             : reader(row.bulk.source).arrays().read(row.bulk.row, number);
}

}  // namespace vindex::results
