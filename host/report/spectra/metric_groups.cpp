// Owns the statistics of groups of matrices, drawn ones among them, and ranking within groups.
#include "metric_groups.hpp"

#include "results/view/first_rows.hpp"
#include "statistics/null/finite_sample.hpp"
#include "statistics/samples/quantile.hpp"
#include "statistics/samples/robust_scale.hpp"

#include <algorithm>
#include <cmath>
#include <map>
#include <span>
#include <string_view>
#include <tuple>
#include <vector>

namespace vindex::report {

GroupMembers group_members(std::span<const MatrixView> matrices) {
  GroupMembers groups;
  std::map<std::tuple<std::int32_t, model::Block, std::string_view>, std::size_t> places;
  for (std::size_t i = 0; i < matrices.size(); ++i) {
    const auto [place, is_new] =
        places.try_emplace({matrices[i].layer, matrices[i].block, matrices[i].role}, groups.size());
    if (is_new) {
      groups.emplace_back();
    }
    groups[place->second].push_back(i);
  }
  return groups;
}

namespace {

template <typename Number>
std::vector<double> member_values(std::span<const MatrixView> matrices,
                                  const std::vector<std::size_t>& members, const Number& number) {
  std::vector<double> values;
  for (const std::size_t i : members) {
    const double value = number(matrices[i].numbers);
    if (!std::isnan(value)) {
      values.push_back(value);
    }
  }
  return values;
}

/// Of `members` only those that stand for the whole group; all where nothing was drawn.
statistics::DrawnGroup keep_drawn(std::span<const MatrixView> matrices,
                                  std::vector<std::size_t>& members) {
  std::vector<statistics::DrawnMember> drawn;
  for (const std::size_t i : members) {
    drawn.push_back({.draw = matrices[i].draw,
                     .draw_of = matrices[i].draw_of,
                     .is_tried = matrices[i].is_tried});
  }
  const statistics::DrawnGroup group = statistics::drawn_group(drawn);
  if (group.is_drawn()) {
    std::erase_if(members, [&](std::size_t i) { return !group.holds(matrices[i].draw); });
  }
  return group;
}

}  // namespace

std::vector<MetricGroup> metric_groups(std::span<const MatrixView> matrices) {
  std::vector<MetricGroup> groups;
  for (std::vector<std::size_t>& members : group_members(matrices)) {
    const MatrixView& first = matrices[members.front()];
    MetricGroup& group = groups.emplace_back();
    group.layer = first.layer;
    group.block = first.block;
    group.role = first.role;
    const auto measured = [&] {
      return std::count_if(members.begin(), members.end(),
                           [&](std::size_t i) { return matrices[i].measured; });
    };
    group.count = measured();
    if (first.k > 0) {
      group.k = first.k;
    }
    const statistics::DrawnGroup drawn = keep_drawn(matrices, members);
    if (drawn.is_drawn()) {
      group.n_measured = measured();
      group.n_total = drawn.total;
    }
    const auto all = [&](const auto& number) { return member_values(matrices, members, number); };
    const auto median = [&](const auto& number) { return statistics::quantile(all(number), 0.5); };
    const std::vector<double> values = all([](const MetricNumbers& n) { return n.value; });
    group.values = static_cast<std::int64_t>(values.size());
    group.median_null = median([](const MetricNumbers& n) { return n.null; });
    if (values.empty()) {
      continue;
    }
    group.median = statistics::quantile(values, 0.5);
    group.q25 = statistics::quantile(values, 0.25);
    group.q75 = statistics::quantile(values, 0.75);
    if (drawn.is_drawn()) {
      group.estimates = statistics::estimates_of(values, drawn.untried());
    }
    const auto [least, most] = std::minmax_element(values.begin(), values.end());
    group.min = *least;
    group.max = *most;
    const std::vector<double> nulls = all([](const MetricNumbers& n) { return n.null; });
    if (nulls.size() == values.size() &&
        std::equal(nulls.begin() + 1, nulls.end(), nulls.begin())) {
      group.null = nulls.front();
    }
    group.difference = median([](const MetricNumbers& n) { return n.difference(); });
    group.ratio = median([](const MetricNumbers& n) { return n.ratio(); });
    group.sign_flip = median([](const MetricNumbers& n) { return n.sign_flip; });
    group.sign_flip_z = median([](const MetricNumbers& n) { return n.sign_flip_z; });
  }
  return groups;
}

std::vector<ExpertGroup> expert_groups(std::span<const MatrixView> matrices) {
  std::vector<ExpertGroup> groups;
  for (const std::vector<std::size_t>& members : group_members(matrices)) {
    const MatrixView& first = matrices[members.front()];
    std::vector<RankedExpert> ranked;
    for (const std::size_t i : members) {
      const MatrixView& matrix = matrices[i];
      if (matrix.block == model::Block::kRoutedExpert && matrix.expert >= 0 &&
          std::isfinite(matrix.numbers.value)) {
        ranked.push_back({.matrix = &matrix});
      }
    }
    if (ranked.empty()) {
      continue;
    }
    std::vector<double> values;
    for (const RankedExpert& expert : ranked) {
      values.push_back(expert.matrix->numbers.value);
    }
    ExpertGroup& group = groups.emplace_back();
    group.layer = first.layer;
    group.role = first.role;
    group.count = static_cast<std::int64_t>(values.size());
    group.median = statistics::quantile(values, 0.5);
    group.scale = statistics::robust_scale(values, group.median);
    for (RankedExpert& expert : ranked) {
      const double away = expert.matrix->numbers.value - group.median;
      expert.z = group.scale > 0.0 ? away / group.scale : 0.0;
      expert.is_far = group.count >= kFewestExperts && std::abs(expert.z) > kFarZ;
    }
    std::stable_sort(ranked.begin(), ranked.end(), [](const auto& a, const auto& b) {
      return a.matrix->numbers.value < b.matrix->numbers.value;
    });
    for (std::size_t i = 0; i < ranked.size(); ++i) {
      if (ranked[i].is_far || i == 0 || i + 1 == ranked.size()) {
        group.experts.push_back(ranked[i]);
      }
    }
  }
  return groups;
}

std::vector<const MatrixView*> top_matrices(std::span<const MatrixView> matrices, std::size_t count,
                                            bool ascending) {
  std::vector<const MatrixView*> sorted;
  for (const MatrixView& matrix : matrices) {
    if (matrix.measured) {
      sorted.push_back(&matrix);
    }
  }
  results::keep_first(sorted, count, ascending,
                      [](const MatrixView* matrix) { return matrix->sort_by; });
  return sorted;
}

}  // namespace vindex::report
