// Owns centring by groups, the line, and orders: all of them where they are few, else drawn.
#include "scale_law.hpp"

#include "statistics/cka/cka.hpp"
#include "statistics/samples/student.hpp"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <map>
#include <numeric>
#include <random>

namespace vindex::fleet {

namespace {

constexpr std::int64_t kDrawnOrders = 9999;
constexpr double kFewOrders = 40'320.0;    // 8!: counted one by one
constexpr std::int64_t kLeastFreedom = 4;  // fewer residuals do not look like a law
constexpr double kRounding = 1e-9;         // slopes this much apart are equal

/// Positions of the models, group by group.
using Groups = std::vector<std::vector<std::size_t>>;

Groups groups_of(std::span<const std::int64_t> labels) {
  std::map<std::int64_t, std::vector<std::size_t>> by_label;
  for (std::size_t i = 0; i < labels.size(); ++i) {
    by_label[labels[i]].push_back(i);
  }
  Groups groups;
  for (auto& [label, members] : by_label) {
    if (members.size() > 1) {  // one alone says nothing of a slope
      groups.push_back(std::move(members));
    }
  }
  return groups;
}

std::vector<double> centred(std::span<const double> values, const Groups& groups) {
  std::vector<double> out(values.begin(), values.end());
  for (const std::vector<std::size_t>& group : groups) {
    double mean = 0.0;
    for (const std::size_t i : group) {
      mean += values[i] / static_cast<double>(group.size());
    }
    for (const std::size_t i : group) {
      out[i] -= mean;
    }
  }
  return out;
}

/// Sum of x times y in the order `place`: y[place[i]] belongs to x[i].
double product(const std::vector<double>& x, const std::vector<double>& y, const Groups& groups,
               const std::vector<std::size_t>& place) {
  double sum = 0.0;
  for (const std::vector<std::size_t>& group : groups) {
    for (const std::size_t i : group) {
      sum += x[i] * y[place[i]];
    }
  }
  return sum;
}

/// A whole number below `count`, the same with every standard library.
std::size_t below(std::mt19937_64& random, std::size_t count) {
  const std::uint64_t limit = count;
  const std::uint64_t rest = (~std::uint64_t{0} % limit + 1) % limit;
  std::uint64_t value = random();
  while (rest != 0 && value > ~std::uint64_t{0} - rest) {
    value = random();
  }
  return static_cast<std::size_t>(value % limit);
}

void shuffle(const Groups& groups, std::mt19937_64& random, std::vector<std::size_t>& place) {
  for (const std::vector<std::size_t>& group : groups) {
    for (std::size_t i = group.size(); i > 1; --i) {
      std::swap(place[group[i - 1]], place[group[below(random, i)]]);
    }
  }
}

/// The next order of the groups, as an odometer; false after the last.
bool advance(const Groups& groups, std::vector<std::size_t>& place) {
  for (const std::vector<std::size_t>& group : groups) {
    std::vector<std::size_t> own;
    for (const std::size_t i : group) {
      own.push_back(place[i]);
    }
    const bool more = std::next_permutation(own.begin(), own.end());
    for (std::size_t i = 0; i < group.size(); ++i) {
      place[group[i]] = own[i];
    }
    if (more) {
      return true;
    }
  }
  return false;
}

double order_count(const Groups& groups) {
  double logarithm = 0.0;
  for (const std::vector<std::size_t>& group : groups) {
    logarithm += std::lgamma(static_cast<double>(group.size()) + 1.0);
  }
  return std::exp(logarithm);
}

void permute(const std::vector<double>& x, const std::vector<double>& y, const Groups& groups,
             double observed, ScaleFit& fit) {
  std::vector<std::size_t> place(x.size());
  std::iota(place.begin(), place.end(), std::size_t{0});
  const double steep = std::abs(observed) * (1.0 - kRounding);
  std::int64_t as_steep = 0;
  const auto count = [&] {
    ++fit.orders;
    as_steep += std::abs(product(x, y, groups, place)) >= steep ? 1 : 0;
  };
  fit.all_orders = order_count(groups) < kFewOrders + 0.5;
  if (fit.all_orders) {
    do {
      count();
    } while (advance(groups, place));
    fit.p = static_cast<double>(as_steep) / static_cast<double>(fit.orders);
    return;
  }
  std::mt19937_64 random(1);
  while (fit.orders < kDrawnOrders) {
    shuffle(groups, random, place);
    count();
  }
  fit.p = static_cast<double>(1 + as_steep) / static_cast<double>(1 + fit.orders);
}

}  // namespace

ScaleFit fit_scale(std::span<const double> log_parameters, std::span<const double> figures,
                   std::span<const std::int64_t> labels) {
  const Groups groups = groups_of(labels);
  ScaleFit fit;
  fit.groups = static_cast<std::int64_t>(groups.size());
  for (const std::vector<std::size_t>& group : groups) {
    fit.models += static_cast<std::int64_t>(group.size());
  }
  const std::int64_t freedom = fit.models - fit.groups - 1;
  if (order_count(groups) < statistics::kMinOrders) {
    fit.reason = "too few models for p";
    return fit;
  }
  const std::vector<double> x = centred(log_parameters, groups);
  const std::vector<double> y = centred(figures, groups);
  std::vector<std::size_t> as_they_are(x.size());
  std::iota(as_they_are.begin(), as_they_are.end(), std::size_t{0});
  const double xx = product(x, x, groups, as_they_are);
  const double xy = product(x, y, groups, as_they_are);
  const double yy = product(y, y, groups, as_they_are);
  const double spread = std::log(1.01);
  if (xx < static_cast<double>(fit.models) * spread * spread) {
    fit.reason = "the models are of one size";
    return fit;
  }
  fit.slope = xy / xx;
  if (freedom >= kLeastFreedom) {
    const double residual = std::max(0.0, yy - fit.slope * xy);
    const double error = std::sqrt(residual / static_cast<double>(freedom) / xx);
    const double half = error * statistics::student_quantile(static_cast<double>(freedom));
    fit.low = fit.slope - half;
    fit.high = fit.slope + half;
  }
  permute(x, y, groups, xy, fit);
  return fit;
}

std::vector<ScaleLaw> scale_laws(std::span<const ModelMeasure* const> models) {
  struct Figure {
    const char* name;
    const char* unit;
    double (*of)(const GroupStatistics&);
  };
  constexpr Figure kFigures[] = {
      {"theta", "degrees",
       [](const GroupStatistics& group) { return group.theta_weighted.mean(); }},
      {"erank_over_null", "1",
       [](const GroupStatistics& group) { return group.erank_over_null.mean(); }},
      {"var64_over_null", "1",
       [](const GroupStatistics& group) { return group.var64_over_null.mean(); }},
      {"var64_excess", "1",
       [](const GroupStatistics& group) { return group.var64_excess.mean(); }}};
  std::vector<ScaleLaw> laws;
  for (const Figure& figure : kFigures) {
    std::vector<double> sizes, values;
    std::vector<std::int64_t> families;
    std::map<std::string, std::int64_t> numbers;
    for (const ModelMeasure* const model : models) {
      const double value = figure.of(group_statistics(*model));
      if (std::isnan(value) || model->parameters() <= 0) {
        continue;
      }
      sizes.push_back(std::log(static_cast<double>(model->parameters())));
      values.push_back(value);
      const auto next = static_cast<std::int64_t>(numbers.size());
      families.push_back(numbers.emplace(model->architecture, next).first->second);
    }
    const std::vector<std::int64_t> one_group(families.size(), 0);
    laws.push_back({figure.name, figure.unit, fit_scale(sizes, values, one_group),
                    fit_scale(sizes, values, families)});
  }
  return laws;
}

}  // namespace vindex::fleet
