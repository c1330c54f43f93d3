// Owns the law of one lift and of the largest of many. Of T tokens, N chose both experts of a pair,
// A and B chose either: lift = N T / (A B), whose mean to first order is both / (a b). Given N, A =
// N + X with X binomial, and ln A has, v the variance and k the third cumulant of X over the mean
// of A, to second order:
//
//   mean of ln A = ln E A - v / 2 + k / 3 - 3 v^2 / 4
//   variance     = v + 5 v^2 / 2 - k,     third cumulant = k - 3 v^2
//
// (ln(1 + d) = d - d^2/2 + d^3/3 - d^4/4 with E d^4 = 3 v^2). So ln lift is N's logarithm less two
// nearly normal numbers of known skewness, whose tail is Cornish and Fisher's: LiftLaw sums it over
// N. Of P independent pairs the largest stays below x with probability (1 - P(lift > x))^P.
//
// Why logarithms: a lift is large where a load happens to be small, and 1 / A is far from normal
// there, its logarithm hardly. Why not always draws: their cost grows with the tokens, a thousand
// times over for every layer.
#include "lift_maxima.hpp"

#include "uniform_choice.hpp"

#include "core/constants.hpp"
#include "statistics/samples/random_draws.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <utility>

namespace vindex::statistics {

namespace {

/// Random numbers and increments of a draw. A thousand draws of so many take a second or two.
constexpr double kWorkOfDraw = 3e5;
constexpr double kManyPairs = 1000.0;
/// Of experts that are chosen this often the logarithm of the load is normal enough.
constexpr double kMinLoad = 100.0;

/// The largest lift of each kind of pairs; NaN where there is none.
using Largest = std::array<double, 2>;

/// What a token adds to a lift over its mean, by how many of the two it chose: the terms of first
/// order of N T / (A B).
struct Influence {
  double chance = 0.0, value = 0.0;
};
std::array<Influence, 4> influences(const PairLaw& law) {
  const double a = 1.0 / law.a;
  const double b = 1.0 / law.b;
  return {{{law.both, 1.0 / law.both - a - b + 1.0},
           {law.a - law.both, 1.0 - a},
           {law.b - law.both, 1.0 - b},
           {1.0 - law.a - law.b + law.both, 1.0}}};
}

double moment(const PairLaw& law, int order) {
  double sum = 0.0;
  for (const Influence& influence : influences(law)) {
    sum += std::max(0.0, influence.chance) * std::pow(influence.value, order);
  }
  return sum;
}

MaximumNull of_values(std::vector<double> values) {
  std::erase_if(values, [](double value) { return std::isnan(value); });
  MaximumNull out;
  if (values.empty()) {
    return out;
  }
  std::sort(values.begin(), values.end());
  out.null = summary_of(values);
  out.values = std::move(values);
  return out;
}

/// ln(n + X), X binomial: cumulants to second order in 1/load, so that the few low loads, from
/// which large lifts come, have their weight.
struct LogLoad {
  double load = 0.0, mean = 0.0, variance = 0.0, third = 0.0;
  LogLoad(double sure, double trials, double chance) : load(sure + trials * chance) {
    const double v = trials * chance * (1.0 - chance) / (load * load);
    const double skew = v * (1.0 - 2.0 * chance) / load;  // third cumulant over load^3
    mean = std::log(load) - v / 2.0 + skew / 3.0 - 0.75 * v * v;
    variance = v + 2.5 * v * v - skew;
    third = skew - 3.0 * v * v;
  }
};

/// The law of one lift of many tokens.
class LiftLaw {
 public:
  LiftLaw(const PairLaw& law, double tokens) : tokens_(tokens) {
    const double expected = tokens * law.both;
    const double deviation = std::sqrt(expected * (1.0 - law.both));
    const double step = std::max(1.0, std::floor(deviation / 64.0));
    const double a = (law.a - law.both) / (1.0 - law.both);
    const double b = (law.b - law.both) / (1.0 - law.both);
    const double last = std::min(tokens, expected + 40.0 + 10.0 * deviation);
    for (double n = std::max(1.0, std::floor(expected - 10.0 * deviation)); n <= last; n += step) {
      const double log_chance = log_factorial(tokens) - log_factorial(n) -
                                log_factorial(tokens - n) + n * std::log(law.both) +
                                (tokens - n) * std::log1p(-law.both);
      const LogLoad of_a(n, tokens - n, a);
      const LogLoad of_b(n, tokens - n, b);
      // A token that is not of both is of one at most: the loads are correlated negatively.
      const double together = -(tokens - n) * a * b / (of_a.load * of_b.load);
      const double variance = std::max(1e-30, of_a.variance + of_b.variance + 2.0 * together);
      terms_.push_back({n, step * std::exp(log_chance), of_a.mean + of_b.mean, std::sqrt(variance),
                        (of_a.third + of_b.third) / std::pow(variance, 1.5)});
    }
  }
  /// P(lift > x).
  double above(double x) const {
    double sum = 0.0;
    for (const Term& term : terms_) {
      const double z = (std::log(term.count * tokens_ / x) - term.log_loads) / term.deviation;
      const double g = term.skewness;
      // Cornish and Fisher: the normal score of z.
      const double score = z - g / 6.0 * (z * z - 1.0) + g * g / 36.0 * (4.0 * z * z * z - 7.0 * z);
      sum += term.chance * 0.5 * std::erfc(-score * std::sqrt(0.5));
    }
    return std::min(1.0, sum);
  }

 private:
  struct Term {
    double count = 0.0, chance = 0.0, log_loads = 0.0, deviation = 0.0, skewness = 0.0;
  };
  double tokens_;
  std::vector<Term> terms_;
};

/// Quantiles of the largest lift of independent pairs.
MaximumNull law_of_independent(const std::vector<PairLaw>& kinds, double tokens) {
  std::vector<std::pair<LiftLaw, double>> laws;
  double low = 0.0;
  double step = 0.0;
  for (const PairLaw& kind : kinds) {
    if (!(kind.pairs > 0.0)) {
      continue;
    }
    low = std::max(low, kind.mean());
    if (const double deviation = kind.deviation(tokens); deviation > 0.0) {
      laws.emplace_back(LiftLaw(kind, tokens), kind.pairs);
      step = std::max(step, deviation);
    }
  }
  if (laws.empty()) {
    return of_values(std::vector<double>(kRoutingDraws, low));
  }
  const auto below = [&](double x) {
    double log = 0.0;
    for (const auto& [law, pairs] : laws) {
      log += pairs * std::log1p(-std::min(law.above(x), 1.0 - 1e-15));
    }
    return std::exp(log);
  };
  constexpr double kEnough = 1e-6;
  double high = low + step;
  while (below(high) < 1.0 - kEnough) {
    high += step;
  }
  // Where it begins: the law of the largest of many is narrow beside its distance from the mean.
  double begin = low;
  for (double end = high; end - begin > 1e-3 * step;) {
    const double middle = 0.5 * (begin + end);
    (below(middle) < kEnough ? begin : end) = middle;
  }
  constexpr std::size_t kGrid = 400;
  std::vector<double> x;
  std::vector<double> chance;
  for (std::size_t i = 0; i <= kGrid; ++i) {
    x.push_back(begin + (high - begin) * static_cast<double>(i) / kGrid);
    chance.push_back(below(x.back()));
  }
  std::vector<double> values;
  std::size_t at = 0;
  for (int i = 0; i < kRoutingDraws; ++i) {
    const double wanted = (i + 0.5) / kRoutingDraws;
    while (at + 2 < x.size() && chance[at + 1] < wanted) {
      ++at;
    }
    const double rise = chance[at + 1] - chance[at];
    const double share = rise > 0.0 ? (wanted - chance[at]) / rise : 0.0;
    values.push_back(x[at] + (x[at + 1] - x[at]) * std::clamp(share, 0.0, 1.0));
  }
  return of_values(std::move(values));
}

bool is_by_law(double pairs, double load) { return pairs >= kManyPairs && load >= kMinLoad; }

/// How many of `tokens` are drawn, of `numbers` random numbers and `meetings` each.
std::int64_t drawn_of(std::int64_t tokens, double pairs, double numbers, double meetings) {
  constexpr double kWorkOfNumber = 4.0;  // beside that of counting a pair
  const auto most =
      static_cast<std::int64_t>(kWorkOfDraw / (kWorkOfNumber * numbers + meetings)) + 1;
  return pairs >= kManyPairs ? tokens : std::min(tokens, most);
}

/// Largest lifts of `drawn` tokens, as they would be of `tokens`.
double scaled(double value, const PairLaw& law, double drawn, double tokens) {
  const double deviation = law.deviation(drawn);
  if (drawn == tokens || std::isnan(value) || !(deviation > 0.0)) {
    return value;
  }
  const double z = (value - law.mean()) / deviation;
  // Cornish and Fisher's term of the skewness, which falls with tokens.
  const double less = (law.skewness(drawn) - law.skewness(tokens)) / 6.0 * (z * z - 1.0);
  return law.mean() + (z - less) * law.deviation(tokens);
}

/// `draw(number)`: largest lifts of `drawn` tokens.
template <typename Draw>
MaximumNull draw_maxima(const std::array<PairLaw, 2>& kinds, std::int64_t drawn,
                        std::int64_t tokens, Draw draw) {
  std::vector<double> values;
  for (std::int32_t number = 0; number < kRoutingDraws; ++number) {
    const Largest largest = draw(static_cast<std::uint64_t>(number));
    double all = kNaN;
    for (std::size_t kind = 0; kind < kinds.size(); ++kind) {
      all = std::fmax(all, scaled(largest[kind], kinds[kind], static_cast<double>(drawn),
                                  static_cast<double>(tokens)));
    }
    values.push_back(all);
  }
  return of_values(std::move(values));
}

void raise(double& largest, double value) {
  if (!(value <= largest) && !std::isnan(value)) {
    largest = value;
  }
}

std::vector<double> inverses(const std::vector<double>& counts) {
  std::vector<double> out(counts.size());
  std::transform(counts.begin(), counts.end(), out.begin(),
                 [](double count) { return count > 0.0 ? 1.0 / count : kNaN; });
  return out;
}

}  // namespace

double PairLaw::deviation(double tokens) const {
  return both > 0.0 ? mean() * std::sqrt(moment(*this, 2) / tokens) : both == 0.0 ? 0.0 : kNaN;
}

double PairLaw::skewness(double tokens) const {
  const double variance = moment(*this, 2);
  return variance > 0.0 ? moment(*this, 3) / std::pow(variance, 1.5) / std::sqrt(tokens) : 0.0;
}

PairLaw same_group_pairs(const ChoiceLaw& law) {
  const auto size = static_cast<double>(law.group_size());
  return {law.share(), law.share(), law.same_group(),
          law.is_grouped() ? static_cast<double>(law.experts) * (size - 1.0) / 2.0 : 0.0};
}

PairLaw other_pairs(const ChoiceLaw& law) {
  const auto size = law.is_grouped() ? static_cast<double>(law.group_size()) : 1.0;
  const auto experts = static_cast<double>(law.experts);
  return {law.share(), law.share(), law.other(), experts * (experts - size) / 2.0};
}

double MaximumNull::chance(double value) const {
  if (std::isnan(value) || values.empty()) {
    return kNaN;
  }
  constexpr double kRounding = 1e-6;  // lifts are float32
  const auto first = std::lower_bound(values.begin(), values.end(), value * (1.0 - kRounding));
  return (1.0 + static_cast<double>(values.end() - first)) /
         (1.0 + static_cast<double>(values.size()));
}

MaximumNull coactivation_maximum(const ChoiceLaw& law, std::int64_t tokens) {
  const std::array<PairLaw, 2> kinds = {same_group_pairs(law), other_pairs(law)};
  const auto k = static_cast<double>(law.top_k);
  const double all = kinds[0].pairs + kinds[1].pairs;
  if (is_by_law(all, law.share() * static_cast<double>(tokens))) {
    return law_of_independent({kinds[0], kinds[1]}, static_cast<double>(tokens));
  }
  const std::int64_t drawn = drawn_of(tokens, all, k, k * (k - 1.0) / 2.0);
  const auto experts = static_cast<std::size_t>(law.experts);
  const auto size = static_cast<std::size_t>(law.group_size());
  TokenDraws choice(law);
  std::vector<std::uint32_t> pairs(experts * experts);
  std::vector<double> counts(experts);
  const std::uint64_t key = null_key(NullPurpose::kPairs, law, tokens);
  return draw_maxima(kinds, drawn, tokens, [&](std::uint64_t number) {
    DrawStream draws(key, number);
    std::fill(pairs.begin(), pairs.end(), 0);
    std::fill(counts.begin(), counts.end(), 0.0);
    for (std::int64_t t = 0; t < drawn; ++t) {
      const auto chosen = choice.next(draws);
      for (std::size_t i = 0; i < chosen.size(); ++i) {
        counts[chosen[i]] += 1.0;
        for (std::size_t j = 0; j < i; ++j) {
          ++pairs[std::min(chosen[i], chosen[j]) * experts + std::max(chosen[i], chosen[j])];
        }
      }
    }
    const std::vector<double> inverse = inverses(counts);
    Largest largest = {kNaN, kNaN};
    for (std::size_t e = 0; e < experts; ++e) {
      const double scale = static_cast<double>(drawn) * inverse[e];
      for (std::size_t f = e + 1; f < experts; ++f) {
        raise(largest[law.is_grouped() && e / size == f / size ? 0 : 1],
              pairs[e * experts + f] * scale * inverse[f]);
      }
    }
    return largest;
  });
}

MaximumNull transition_maximum(const ChoiceLaw& from, const ChoiceLaw& to, std::int64_t tokens) {
  if (from.patterns.empty() || to.patterns.empty() || tokens < 1) {
    return {};
  }
  const PairLaw kind = {from.share(), to.share(), from.share() * to.share(),
                        static_cast<double>(from.experts) * static_cast<double>(to.experts)};
  const auto k = static_cast<double>(from.top_k);
  const auto l = static_cast<double>(to.top_k);
  if (is_by_law(kind.pairs, std::min(from.share(), to.share()) * static_cast<double>(tokens))) {
    return law_of_independent({kind}, static_cast<double>(tokens));
  }
  const std::int64_t drawn = drawn_of(tokens, kind.pairs, k + l, k * l);
  const auto width = static_cast<std::size_t>(to.experts);
  TokenDraws choice_from(from);
  TokenDraws choice_to(to);
  std::vector<std::uint32_t> pairs(static_cast<std::size_t>(from.experts) * width);
  std::vector<double> counts_from(static_cast<std::size_t>(from.experts));
  std::vector<double> counts_to(width);
  const std::uint64_t key =
      null_key(NullPurpose::kTransitions, from, tokens) ^ null_key(NullPurpose::kPairs, to, tokens);
  return draw_maxima({kind, kind}, drawn, tokens, [&](std::uint64_t number) {
    DrawStream draws(key, number);
    std::fill(pairs.begin(), pairs.end(), 0);
    std::fill(counts_from.begin(), counts_from.end(), 0.0);
    std::fill(counts_to.begin(), counts_to.end(), 0.0);
    for (std::int64_t t = 0; t < drawn; ++t) {
      const auto chosen_from = choice_from.next(draws);
      const auto chosen_to = choice_to.next(draws);
      for (const std::uint32_t e : chosen_from) {
        counts_from[e] += 1.0;
        for (const std::uint32_t f : chosen_to) {
          ++pairs[e * width + f];
        }
      }
      for (const std::uint32_t f : chosen_to) {
        counts_to[f] += 1.0;
      }
    }
    const std::vector<double> inverse_from = inverses(counts_from);
    const std::vector<double> inverse_to = inverses(counts_to);
    Largest largest = {kNaN, kNaN};
    for (std::size_t e = 0; e < counts_from.size(); ++e) {
      const double scale = static_cast<double>(drawn) * inverse_from[e];
      for (std::size_t f = 0; f < width; ++f) {
        raise(largest[0], pairs[e * width + f] * scale * inverse_to[f]);
      }
    }
    return largest;
  });
}

}  // namespace vindex::statistics
