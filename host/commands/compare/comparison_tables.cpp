// Owns the summary of a comparison by groups of pairs, as text and as JSON.
#include "comparison_summary.hpp"

#include "group_numbers.hpp"

#include "core/json/json_document.hpp"
#include "core/text/text_table.hpp"
#include <vindex/error.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <initializer_list>

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

struct CountColumn {
  const char* heading;
  std::int64_t ComparedGroup::*count;
  TextColumn layout = kNumberColumn;
};
struct NumberColumn {
  const char* heading;
  std::size_t number;
  std::string (*text)(double);
  TextColumn layout;
};

std::string groups_table(const Compared& compared, std::initializer_list<CountColumn> counts,
                         std::initializer_list<NumberColumn> numbers, std::size_t width) {
  std::vector<std::vector<std::string>> cells = {{}};
  std::vector<TextColumn> layout;
  const auto column = [&](const char* heading, TextColumn how) {
    cells.front().emplace_back(heading);
    layout.push_back(how);
  };
  if (compared.by_layer) {
    column("layer", kNumberColumn);
  } else {
    column("block", {.min_width = 9, .keep = Keep::kStart, .is_close = true});
    column("role", {.min_width = 8});
  }
  column("A", {});
  column("B", {.is_close = true});
  for (const CountColumn& count : counts) {
    column(count.heading, count.layout);
  }
  for (const NumberColumn& number : numbers) {
    column(number.heading, number.layout);
  }
  for (const ComparedGroup& group : compared.groups) {
    std::vector<std::string>& line = cells.emplace_back();
    if (compared.by_layer) {
      line.push_back(group.layer < 0 ? "-" : std::to_string(group.layer));
    } else {
      line = {std::string(model::block_name(group.block)), group.role};
    }
    line.push_back(group.encoding_a);
    line.push_back(group.encoding_b);
    for (const CountColumn& count : counts) {
      line.push_back(std::to_string(group.*(count.count)));
    }
    for (const NumberColumn& number : numbers) {
      line.push_back(number.text(group.numbers[number.number]));
    }
  }
  return table_text(cells, layout, width);
}

/// What rank the changes have.
std::string delta_text(const Compared& compared, std::size_t width) {
  constexpr TextColumn kFirstDropped{.right = true, .is_close = true, .dropped_as = 1};
  return "B - A\n" +
         groups_table(
             compared, {{"changed", &ComparedGroup::changed}},
             {{"rank", group_number("delta_numerical_rank"), count_text, kNumberColumn},
              {"noise", group_number("delta_numerical_rank_null"), count_text, kCloseColumn},
              {"gd", group_number("delta_rank_gd"), count_text, kCloseColumn},
              {"edge", group_number("delta_rank_edge"), count_text, kCloseColumn},
              {"eff.rank", group_number("delta_effective_rank"), rank_text, kNumberColumn},
              {"noise", group_number("delta_effective_rank_null"), rank_text, kCloseColumn},
              {"stable", group_number("delta_stable_rank"), rank_text, kFirstDropped},
              {"noise", group_number("delta_stable_rank_null"), rank_text, kFirstDropped}},
             width) +
         wrapped_text(
             "medians over the changed pairs: rank, of what is above rounding; gd, edge: singular "
             "values above the optimal threshold and above the noise's edge (0 and 0.2 of noise); "
             "effective and stable rank; noise: of that shape",
             width, 2) +
         "\n";
}

/// How near the strongest directions are.
std::string overlap_text(const Compared& compared, std::size_t width) {
  return fmt::format("overlap of the top {} directions\n", compared.subspace) +
         groups_table(compared, {{"pairs", &ComparedGroup::pairs}},
                      {{"right", group_number("overlap_right"), share_text, kNumberColumn},
                       {"noise", group_number("overlap_right_null"), share_text, kCloseColumn},
                       {"left", group_number("overlap_left"), share_text, kCloseColumn},
                       {"noise", group_number("overlap_left_null"), share_text, kCloseColumn}},
                      width);
}

}  // namespace

std::string compared_text(const Compared& compared, std::size_t width) {
  constexpr std::size_t kMost = group_number("relative_error_most");
  // The cosine says less than the error, and goes with its null where there is no room.
  constexpr TextColumn kSecondDropped{.right = true, .is_close = true, .dropped_as = 2};
  constexpr TextColumn kFirstDropped{.right = true, .is_close = true, .dropped_as = 1};
  const NumberColumn over_kind{"/ kind", group_number("relative_error_over_kind"), share_text,
                               kCloseColumn};
  const std::initializer_list<CountColumn> counts = {
      {"pairs", &ComparedGroup::pairs}, {"same", &ComparedGroup::same_bits, kFirstDropped}};
  const NumberColumn error{"error", group_number("relative_error_median"), error_text,
                           kNumberColumn};
  const NumberColumn most{"most", kMost, error_text, kCloseColumn};
  const NumberColumn noise{"noise", group_number("relative_error_null"), error_text, kCloseColumn};
  const NumberColumn cosine{"cosine", group_number("cosine_median"), cosine_text, kSecondDropped};
  const NumberColumn least{"least", group_number("cosine_least"), cosine_text, kSecondDropped};
  const NumberColumn spread{"+-noise", group_number("cosine_null_sd"), error_text, kSecondDropped};
  std::string text =
      compared.by_layer
          ? groups_table(compared, counts, {error, most, noise, over_kind, cosine, least, spread},
                         width)
          : groups_table(compared, counts, {error, most, noise, cosine, least, spread}, width);
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
  const auto largest = [](const ComparedGroup& group) {
    return std::isnan(group.numbers[kMost]) ? -1.0 : group.numbers[kMost];
  };
  const auto worst = std::max_element(
      compared.groups.begin(), compared.groups.end(),
      [&](const ComparedGroup& a, const ComparedGroup& b) { return largest(a) < largest(b); });
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

std::string compared_json(const Compared& compared) {
  Json groups = Json::array();
  for (const ComparedGroup& group : compared.groups) {
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
              {"model_a", compared.model_a},
              {"model_b", compared.model_b},
              {"backend", compared.backend},
              {"pairs", compared.pairs},
              {"compared", compared.compared},
              {"unpaired_a", compared.unpaired_a},
              {"unpaired_b", compared.unpaired_b},
              {"delta", compared.delta},
              {"k", compared.subspace > 0 ? Json(compared.subspace) : Json(nullptr)},
              {"groups", std::move(groups)}}
             .dump() +
         "\n";
}

}  // namespace vindex::commands
