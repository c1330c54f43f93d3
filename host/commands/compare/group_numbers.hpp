// Owns the numbers of a group of pairs: what each is over, and its place in PairGroup::numbers.
#pragma once

#include "pair_cells.hpp"

#include "results/schema/cell_table.hpp"

#include <array>
#include <cstddef>
#include <cstdint>
#include <string_view>

namespace vindex::commands {

/// Pairs that a number is over.
enum class GroupOver : std::uint8_t { kCompared, kChanged };
// Not cells: the shorter side, of pairs whose rank is known; what unrelated weights would have; the
// error over the median error of the same block, role and encodings in all layers.
inline constexpr std::size_t kShortSide = results::kAfterPrevious;
inline constexpr std::size_t kUnrelated = kShortSide - 1, kOverItsKind = kShortSide - 2;

/// A number of a group: a quantile of a cell over pairs.
struct GroupNumber {
  std::string_view name;  ///< in the JSON document, in this order
  std::size_t cell;
  double quantile = 0.5;
  GroupOver over = GroupOver::kCompared;
};
inline constexpr std::size_t kPlainNumbers = 7, kDeltaNumbers = 8;
inline constexpr std::array<GroupNumber, 19> kGroupNumbers = {
    {{"cosine_median", pair_cell("cosine")},
     {"cosine_least", pair_cell("cosine"), 0.0},
     {"cosine_null_sd", pair_cell("cosine_null_sd")},
     {"relative_error_median", pair_cell("relative_error")},
     {"relative_error_most", pair_cell("relative_error"), 1.0},
     {"relative_error_null", kUnrelated},
     {"relative_error_over_kind", kOverItsKind},
     // With --delta: beside them what noise of those shapes gives.
     {"delta_numerical_rank", pair_cell("delta_numerical_rank"), 0.5, GroupOver::kChanged},
     {"delta_numerical_rank_null", kShortSide, 0.5, GroupOver::kChanged},
     {"delta_effective_rank", pair_cell("delta_effective_rank"), 0.5, GroupOver::kChanged},
     {"delta_effective_rank_null", pair_cell("delta_effective_rank_null"), 0.5,
      GroupOver::kChanged},
     {"delta_stable_rank", pair_cell("delta_stable_rank"), 0.5, GroupOver::kChanged},
     {"delta_stable_rank_null", pair_cell("delta_stable_rank_null"), 0.5, GroupOver::kChanged},
     {"delta_rank_gd", pair_cell("delta_rank_gd"), 0.5, GroupOver::kChanged},
     {"delta_rank_edge", pair_cell("delta_rank_edge"), 0.5, GroupOver::kChanged},
     // With --k.
     {"overlap_right", pair_cell("overlap_right")},
     {"overlap_right_null", pair_cell("overlap_right_null")},
     {"overlap_left", pair_cell("overlap_left")},
     {"overlap_left_null", pair_cell("overlap_left_null")}}};

consteval std::size_t group_number(std::string_view name) {
  return results::number_in(kGroupNumbers, name);
}

}  // namespace vindex::commands
