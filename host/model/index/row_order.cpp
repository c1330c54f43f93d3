// Owns the key of a row, and sorting by it.
#include "records.hpp"

#include "core/text/name_index.hpp"

#include <algorithm>
#include <map>
#include <string_view>
#include <utility>

namespace vindex::model {

namespace {

/// What decides the place of a row but for its name, as two numbers.
struct RowKey {
  std::uint64_t layer_block_role;
  std::uint64_t expert_slice;
  std::uint32_t index;
};

/// -1 comes first.
std::uint64_t ascending(std::int32_t number) {
  return static_cast<std::uint32_t>(number) + std::uint32_t{1};
}

/// The place of every role that occurs: by rank, then by name.
std::map<std::string_view, std::uint64_t> role_places(
    const std::vector<const MatrixRecord*>& rows) {
  std::map<std::string_view, std::uint64_t> places;
  for (const MatrixRecord* row : rows) {
    places.try_emplace(row->role, 0);
  }
  std::vector<std::pair<std::int32_t, std::string_view>> order;
  for (const auto& [role, unused] : places) {
    order.emplace_back(role_rank(role), role);
  }
  std::sort(order.begin(), order.end());
  for (std::size_t i = 0; i < order.size(); ++i) {
    places[order[i].second] = i;
  }
  return places;
}

}  // namespace

std::vector<std::uint32_t> row_order(const std::vector<const MatrixRecord*>& rows) {
  const std::map<std::string_view, std::uint64_t> places = role_places(rows);
  std::vector<RowKey> keys;
  keys.reserve(rows.size());
  for (const MatrixRecord* row : rows) {
    // Blocks are ten, and roles fewer than matrices: 4 and 28 bits hold them.
    keys.push_back({ascending(row->layer) << 32U | static_cast<std::uint64_t>(row->block) << 28U |
                        places.at(row->role),
                    ascending(row->expert) << 32U | ascending(row->slice),
                    static_cast<std::uint32_t>(keys.size())});
  }
  std::sort(keys.begin(), keys.end(), [&](const RowKey& a, const RowKey& b) {
    if (a.layer_block_role != b.layer_block_role) {
      return a.layer_block_role < b.layer_block_role;
    }
    if (a.expert_slice != b.expert_slice) {
      return a.expert_slice < b.expert_slice;
    }
    const int order = rows[a.index]->tensor.compare(rows[b.index]->tensor);
    return order != 0 ? order < 0 : a.index < b.index;
  });
  std::vector<std::uint32_t> order(keys.size());
  std::transform(keys.begin(), keys.end(), order.begin(),
                 [](const RowKey& key) { return key.index; });
  return order;
}

void sort_matrices(MatrixIterator begin, MatrixIterator end) {
  std::vector<const MatrixRecord*> rows;
  for (auto row = begin; row != end; ++row) {
    rows.push_back(&*row);
  }
  reorder(begin, row_order(rows));
}

}  // namespace vindex::model
