// Owns forming groups of equal role and shape, and the members that are far from the rest.
#include "shown_groups.hpp"

#include <algorithm>
#include <cmath>
#include <map>
#include <string_view>
#include <tuple>

namespace vindex::results {

namespace {

/// 1 / 0.6745: makes the median absolute deviation of a normal law its standard deviation.
constexpr double kOfMad = 1.4826;
/// sqrt(pi / 2), the same for the mean absolute deviation.
constexpr double kOfMeanDeviation = 1.2533;

template <typename Number>
std::vector<double> member_values(std::span<const ShownMatrix> matrices,
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

/// The scale of `values` around `median`; 0 where they are all equal.
double robust_scale(const std::vector<double>& values, double median) {
  std::vector<double> deviations;
  double sum = 0.0;
  for (const double value : values) {
    deviations.push_back(std::abs(value - median));
    sum += deviations.back();
  }
  const double mad = measure::quantile(deviations, 0.5);
  return mad > 0.0 ? kOfMad * mad
                   : kOfMeanDeviation * sum /
                         static_cast<double>(std::max<std::size_t>(deviations.size(), 1));
}

}  // namespace

GroupMembers members_of(std::span<const ShownMatrix> matrices) {
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

std::vector<ShownGroup> shown_groups(std::span<const ShownMatrix> matrices) {
  std::vector<ShownGroup> groups;
  for (const std::vector<std::size_t>& members : members_of(matrices)) {
    const ShownMatrix& first = matrices[members.front()];
    ShownGroup& group = groups.emplace_back();
    group.layer = first.layer;
    group.block = first.block;
    group.role = first.role;
    group.count = std::count_if(members.begin(), members.end(),
                                [&](std::size_t i) { return matrices[i].measured; });
    if (first.k > 0) {
      group.k = first.k;
    }
    const auto all = [&](const auto& number) { return member_values(matrices, members, number); };
    const auto median = [&](const auto& number) { return measure::quantile(all(number), 0.5); };
    const std::vector<double> values = all([](const MetricNumbers& n) { return n.value; });
    group.values = static_cast<std::int64_t>(values.size());
    if (values.empty()) {
      continue;
    }
    group.median = measure::quantile(values, 0.5);
    group.q25 = measure::quantile(values, 0.25);
    group.q75 = measure::quantile(values, 0.75);
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

std::vector<ExpertGroup> expert_groups(std::span<const ShownMatrix> matrices) {
  std::vector<ExpertGroup> groups;
  for (const std::vector<std::size_t>& members : members_of(matrices)) {
    const ShownMatrix& first = matrices[members.front()];
    std::vector<RankedExpert> ranked;
    for (const std::size_t i : members) {
      const ShownMatrix& matrix = matrices[i];
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
    group.median = measure::quantile(values, 0.5);
    group.scale = robust_scale(values, group.median);
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

std::vector<const ShownMatrix*> top_matrices(std::span<const ShownMatrix> matrices,
                                             std::size_t count, bool ascending) {
  std::vector<const ShownMatrix*> sorted;
  for (const ShownMatrix& matrix : matrices) {
    if (matrix.measured && !std::isnan(matrix.sort_by)) {
      sorted.push_back(&matrix);
    }
  }
  std::stable_sort(sorted.begin(), sorted.end(), [&](const auto* a, const auto* b) {
    return ascending ? a->sort_by < b->sort_by : a->sort_by > b->sort_by;
  });
  sorted.resize(std::min(sorted.size(), count));
  return sorted;
}

}  // namespace vindex::results
