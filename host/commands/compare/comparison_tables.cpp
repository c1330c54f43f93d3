// Owns the tables and the JSON document of groups of pairs.
#include "comparison_tables.hpp"

#include "group_numbers.hpp"

#include "core/json/json_document.hpp"
#include "core/text/text_table.hpp"
#include "results/view/table_view.hpp"
#include <vindex/error.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

namespace vindex::commands {

namespace {

/// "-" for NaN.
std::string text_of(const char* format, double value) {
  return std::isnan(value) ? "-" : fmt::format(fmt::runtime(format), value);
}
/// Cosines near 1 say something in their last digits.
std::string cosine_text(double value) { return text_of("{:.6f}", value); }
std::string error_text(double value) { return value == 0.0 ? "0" : text_of("{:.3g}", value); }
std::string rank_text(double value) { return text_of("{:.1f}", value); }
/// A count, or the median of an even number of them.
std::string count_text(double value) { return text_of("{:g}", value); }
std::string share_text(double value) { return text_of("{:.4f}", value); }

constexpr TextColumn kNumberColumn{.right = true};
constexpr TextColumn kCloseColumn{.right = true, .is_close = true};
constexpr TextColumn kFirstDropped{.right = true, .is_close = true, .dropped_as = 1};

using GroupRef = const PairGroup&;

/// A table of groups with the columns that say which each is.
class GroupsTable : public results::TableView<PairGroup> {
 public:
  explicit GroupsTable(bool by_layer) {
    if (by_layer) {
      printed("layer", kNumberColumn,
              [](GroupRef group) { return group.layer < 0 ? "-" : std::to_string(group.layer); });
    } else {
      printed("block", {.min_width = 9, .keep = Keep::kStart, .is_close = true},
              [](GroupRef group) { return std::string(model::block_name(group.block)); });
      printed("role", {.min_width = 8}, [](GroupRef group) { return group.role; });
    }
    printed("A", {}, [](GroupRef group) { return group.encoding_a; });
    printed("B", {.is_close = true}, [](GroupRef group) { return group.encoding_b; });
  }
  GroupsTable& count(const char* heading, std::int64_t PairGroup::*count,
                     TextColumn layout = kNumberColumn) {
    printed(heading, layout, [count](GroupRef group) { return std::to_string(group.*count); });
    return *this;
  }
  GroupsTable& number(const char* heading, std::size_t number, std::string (*print)(double),
                      TextColumn layout) {
    printed(heading, layout, [=](GroupRef group) { return print(group.numbers[number]); });
    return *this;
  }
};

/// What rank the changes have.
std::string delta_text(const ComparisonSummary& compared, std::size_t width) {
  return "B - A\n" +
         GroupsTable(compared.by_layer)
             .count("changed", &PairGroup::changed)
             .number("rank", group_number("delta_numerical_rank"), count_text, kNumberColumn)
             .number("noise", group_number("delta_numerical_rank_null"), count_text, kCloseColumn)
             .number("gd", group_number("delta_rank_gd"), count_text, kCloseColumn)
             .number("edge", group_number("delta_rank_edge"), count_text, kCloseColumn)
             .number("eff.rank", group_number("delta_effective_rank"), rank_text, kNumberColumn)
             .number("noise", group_number("delta_effective_rank_null"), rank_text, kCloseColumn)
             .number("stable", group_number("delta_stable_rank"), rank_text, kFirstDropped)
             .number("noise", group_number("delta_stable_rank_null"), rank_text, kFirstDropped)
             .text(compared.groups, width) +
         wrapped_text(
             "medians over the changed pairs: rank, of what is above rounding; gd, edge: singular "
             "values above the optimal threshold and above the noise's edge (0 and 0.2 of noise); "
             "effective and stable rank; noise: of that shape",
             width, 2) +
         "\n";
}

/// How near the strongest directions are.
std::string overlap_text(const ComparisonSummary& compared, std::size_t width) {
  return fmt::format("overlap of the top {} directions\n", compared.subspace) +
         GroupsTable(compared.by_layer)
             .count("pairs", &PairGroup::pairs)
             .number("right", group_number("overlap_right"), share_text, kNumberColumn)
             .number("noise", group_number("overlap_right_null"), share_text, kCloseColumn)
             .number("left", group_number("overlap_left"), share_text, kCloseColumn)
             .number("noise", group_number("overlap_left_null"), share_text, kCloseColumn)
             .text(compared.groups, width);
}

}  // namespace

std::string comparison_text(const ComparisonSummary& compared, std::size_t width) {
  constexpr std::size_t kMost = group_number("relative_error_most");
  // The cosine says less than the error, and goes with its null where there is no room.
  constexpr TextColumn kSecondDropped{.right = true, .is_close = true, .dropped_as = 2};
  GroupsTable table(compared.by_layer);
  table.count("pairs", &PairGroup::pairs)
      .count("same", &PairGroup::same_bits, kFirstDropped)
      .number("error", group_number("relative_error_median"), error_text, kNumberColumn)
      .number("most", kMost, error_text, kCloseColumn)
      .number("noise", group_number("relative_error_null"), error_text, kCloseColumn);
  if (compared.by_layer) {
    table.number("/ kind", group_number("relative_error_over_kind"), share_text, kCloseColumn);
  }
  std::string text =
      table.number("cosine", group_number("cosine_median"), cosine_text, kSecondDropped)
          .number("least", group_number("cosine_least"), cosine_text, kSecondDropped)
          .number("+-noise", group_number("cosine_null_sd"), error_text, kSecondDropped)
          .text(compared.groups, width);
  std::string legend =
      "error: norm(B - A) / norm(A), median; most: the largest; noise: of unrelated weights of "
      "these norms";
  const std::string heading = text.substr(0, text.find('\n'));
  const auto explain = [&](const char* column, const char* what) {
    legend += heading.find(column) == std::string::npos ? "" : what;
  };
  explain("/ kind",
          "; / kind: error over the median error of the same block, role and encodings in all "
          "layers: 1 where no layer differs");
  explain("cosine",
          "; cosine: median; least: the smallest; +-noise: of unrelated weights around 0");
  explain("same", "; same: equal bit for bit");
  text += wrapped_text(legend, width, 2) + "\n";
  const auto largest = [](const PairGroup& group) {
    return std::isnan(group.numbers[kMost]) ? -1.0 : group.numbers[kMost];
  };
  const auto worst = std::max_element(
      compared.groups.begin(), compared.groups.end(),
      [&](const PairGroup& a, const PairGroup& b) { return largest(a) < largest(b); });
  if (worst != compared.groups.end() && largest(*worst) > 0.0) {
    text += wrapped_text(
                fmt::format("farthest: {}, error {}", worst->worst, error_text(largest(*worst))),
                width, 2) +
            "\n";
  }
  if (compared.delta) {
    text += delta_text(compared, width);
  }
  if (compared.subspace > 0) {
    text += overlap_text(compared, width);
  }
  if (compared.unpaired_a + compared.unpaired_b > 0) {
    text += wrapped_text(fmt::format("without a partner: {} of A, {} of B (/unpaired/ has them)",
                                     compared.unpaired_a, compared.unpaired_b),
                         width, 2) +
            "\n";
  }
  return text;
}

std::string comparison_json(const ComparisonSummary& compared) {
  Json groups = Json::array();
  for (const PairGroup& group : compared.groups) {
    groups.push_back(compared.by_layer
                         ? Json{{"layer", group.layer}}
                         : Json{{"block", model::block_name(group.block)}, {"role", group.role}});
    groups.back().update({{"encoding_a", group.encoding_a},
                          {"encoding_b", group.encoding_b},
                          {"pairs", group.pairs},
                          {"compared", group.compared},
                          {"same_bits", group.same_bits}});
    Json& one = groups.back();
    const auto add = [&](std::size_t first, std::size_t count) {
      for (std::size_t i = first; i < first + count; ++i) {
        one[std::string(kGroupNumbers[i].name)] = group.numbers[i];
      }
    };
    add(0, kPlainNumbers);
    one["farthest"] = group.worst;
    if (compared.delta) {
      one["changed"] = group.changed;
      add(kPlainNumbers, kDeltaNumbers);
    }
    if (compared.subspace > 0) {
      add(kPlainNumbers + kDeltaNumbers, kGroupNumbers.size() - kPlainNumbers - kDeltaNumbers);
    }
  }
  return Json{{"schema", "vindex-compare-summary/1"},
              {"file", printable(compared.path)},
              {"state", compared.state},
              {"model_a", compared.model},
              {"model_b", compared.other_model},
              {"backend", compared.backend},
              {"pairs", compared.rows_total},
              {"compared", compared.rows_measured},
              {"unpaired_a", compared.unpaired_a},
              {"unpaired_b", compared.unpaired_b},
              {"delta", compared.delta},
              {"k", compared.subspace > 0 ? Json(compared.subspace) : Json(nullptr)},
              {"groups", std::move(groups)}}
             .dump() +
         "\n";
}

}  // namespace vindex::commands
