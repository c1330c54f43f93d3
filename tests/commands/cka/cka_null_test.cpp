// Whether p of a CKA is uniform where there is no relation, whatever rows have of the length of
// their prompts, and small where there is one. Fixed seeds; prints the rows of the tables of
// docs/commands/cka.md.
#include "cka_draws.hpp"

#include "commands/cka/cka_rows.hpp"
#include "statistics/cka/cka.hpp"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>
#include <string>

namespace vindex::commands::cka_null_test {
namespace {

using testing::drawn_lengths;
using testing::dump_of;
using testing::MemoryDump;
using testing::noise_of;
using testing::normal;
using testing::row_tile_of;
using testing::Values;

/// Kolmogorov's distance of `values` from the uniform law.
double distance_from_uniform(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  const auto count = static_cast<double>(values.size());
  double largest = 0.0;
  for (std::size_t i = 0; i < values.size(); ++i) {
    const auto at = static_cast<double>(i);
    largest = std::max({largest, values[i] - at / count, (at + 1.0) / count - values[i]});
  }
  return largest;
}

constexpr std::int64_t kDraws = 39;

/// What rows of any model have of the place of their token, each layer along a direction of its
/// own; in standard deviations of a value.
struct Places {
  double first = 0.0;   ///< first tokens (attention sinks)
  double trend = 0.0;   ///< from the first place to the 40th, evenly
  double ripple = 0.0;  ///< each place another vector (embeddings of places)
  double length = 0.0;  ///< all tokens of a prompt, by its length over 40
};

constexpr std::uint64_t kNullColumns = 6;

void add_places(const model::Dump& dump, const Places& places, std::uint64_t key, Values& values) {
  constexpr double kLongest = 40.0;
  for (const model::PromptRows& prompt : dump.prompts) {
    for (std::int64_t place = 0; place < prompt.count; ++place) {
      float* const row =
          values.data() + static_cast<std::size_t>(prompt.first + place) * kNullColumns;
      const double along = places.trend * static_cast<double>(place) / kLongest +
                           places.length * static_cast<double>(prompt.count) / kLongest +
                           (place == 0 ? places.first : 0.0);
      for (std::uint64_t j = 0; j < kNullColumns; ++j) {
        const auto at = static_cast<std::uint64_t>(place) * kNullColumns + j;
        row[j] +=
            static_cast<float>(along * normal(key, j) + places.ripple * normal(key, 1000 + at));
      }
    }
  }
}

/// Layers of one side: noise and what it has of places; `common`: of noise that every layer has.
std::vector<Values> layers_of(const model::Dump& dump, const Places& places, double common,
                              std::uint64_t layers, std::uint64_t key) {
  const Values shared = noise_of(dump, 77, kNullColumns);
  std::vector<Values> out;
  for (std::uint64_t i = 0; i < layers; ++i) {
    Values values = noise_of(dump, key + i, kNullColumns);
    for (std::size_t at = 0; at < values.size(); ++at) {
      values[at] += static_cast<float>(common) * shared[at];
    }
    add_places(dump, places, 90'000 + key + i, values);
    out.push_back(std::move(values));
  }
  return out;
}

void pool_layers(const model::Dump& dump, engine::Pooling pooling, std::vector<Values>& layers) {
  MemoryDump tokens(dump.tokens, layers);
  const engine::RowRun all{0, static_cast<std::int64_t>(dump.prompts.size())};
  for (std::size_t i = 0; i < layers.size(); ++i) {
    tokens.rows(i, dump.prompts, pooling).decode({&all, 1}, layers[i]);
  }
}

/// Dumps of two models, the one with tokens of its own where the tokenizers differ.
struct Sides {
  model::Dump a, b;
};

/// p of `layers` x `layers` pairs of layers.
std::vector<double> p_of_pairs(const Sides& dumps, engine::Pooling pooling, const Places& places,
                               double common, std::uint64_t layers, std::uint64_t key) {
  const ComparedRows rows = compared_rows(dumps.a, dumps.b, pooling, true);
  EXPECT_TRUE(few_orders(rows).empty()) << few_orders(rows);
  std::vector<Values> left = layers_of(dumps.a, places, common, layers, key);
  std::vector<Values> right = layers_of(dumps.b, places, common, layers, key + layers);
  if (pooling != engine::Pooling::kNone) {
    pool_layers(dumps.a, pooling, left);
    pool_layers(dumps.b, pooling, right);
  }
  MemoryDump a(rows.count, left), b(rows.count, right);
  const TileResult found = row_tile_of(a, b, {rows.groups, &rows.strata, kDraws, false});
  std::vector<double> p;
  for (const TilePair& pair : found.pairs) {
    p.push_back(statistics::null_of_draws(pair.permuted, pair.estimate.cka).p);
  }
  return p;
}

struct Lengths {
  const char* name;
  std::size_t prompts;
  std::int64_t least, most;
  engine::Pooling pooling;
  std::uint64_t layers;
  Places places = {};
  const char* says = "";
  bool other_tokens = false;  ///< B has a quarter more or fewer tokens of each prompt
};

/// Prompts of `lengths`, drawn anew for each sample; those of B where tokenizers differ.
Sides drawn_sides(const Lengths& lengths, std::uint64_t sample) {
  const std::vector<std::int64_t> of_a =
      drawn_lengths(lengths.prompts, lengths.least, lengths.most, 900 + 7 * sample);
  std::vector<std::int64_t> of_b = of_a;
  if (lengths.other_tokens) {
    const std::vector<std::int64_t> factors = drawn_lengths(of_a.size(), 75, 125, 40 + sample);
    for (std::size_t i = 0; i < of_b.size(); ++i) {
      of_b[i] = std::max<std::int64_t>(1, of_b[i] * factors[i] / 100);
    }
  }
  return {dump_of(of_a), dump_of(of_b)};
}

class CkaNull : public ::testing::TestWithParam<Lengths> {};

const char* pool_text(engine::Pooling pooling) {
  return pooling == engine::Pooling::kNone
             ? ""
             : (pooling == engine::Pooling::kMean ? ", `--pool mean`" : ", `--pool last`");
}

TEST_P(CkaNull, IsUniformWithoutRelation) {
  const Lengths& lengths = GetParam();
  std::vector<double> p;
  // Pooled rows are few, and what they share depends on the lengths: more of them.
  const std::uint64_t samples = lengths.pooling == engine::Pooling::kNone ? 2 : 4;
  for (std::uint64_t sample = 0; sample < samples; ++sample) {
    const std::vector<double> more =
        p_of_pairs(drawn_sides(lengths, sample), lengths.pooling, lengths.places, 0.0,
                   lengths.layers, 5000 + 100 * sample);
    p.insert(p.end(), more.begin(), more.end());
  }
  const auto below = [&](double bound) {
    return static_cast<double>(
               std::count_if(p.begin(), p.end(), [&](double one) { return one <= bound; })) /
           static_cast<double>(p.size());
  };
  const double distance = distance_from_uniform(p);
  fmt::print("| {} prompts of {} to {}{}{} | {:.3f} | {:.3f} | {:.3f} | {:.3f} | {:.3f} |\n",
             lengths.prompts, lengths.least, lengths.most, pool_text(lengths.pooling), lengths.says,
             below(0.05), below(0.1), below(0.5), 1.0 - below(0.8999), distance);
  // 1 % of uniform samples lie further, a step of the grid aside; three standard deviations.
  const double root = std::sqrt(static_cast<double>(p.size()));
  EXPECT_LT(distance, 1.63 / root + 1.0 / (1.0 + kDraws));
  EXPECT_NEAR(below(0.05), 0.05, 3.0 * std::sqrt(0.05 * 0.95) / root);
}

constexpr auto kTokens = engine::Pooling::kNone;
constexpr auto kMean = engine::Pooling::kMean;
constexpr auto kLast = engine::Pooling::kLast;

INSTANTIATE_TEST_SUITE_P(
    Prompts, CkaNull,
    ::testing::Values(
        Lengths{"equal", 20, 4, 4, kTokens, 14}, Lengths{"alike", 40, 8, 12, kTokens, 10},
        Lengths{"long", 24, 20, 24, kTokens, 10}, Lengths{"unlike", 40, 5, 40, kTokens, 8},
        Lengths{"sink", 40, 5, 40, kTokens, 8, {.first = 30.0}, ", first tokens of 30 sd"},
        Lengths{"large_sink", 40, 5, 40, kTokens, 8, {.first = 300.0}, ", first tokens of 300 sd"},
        Lengths{"pooled", 40, 5, 40, kMean, 10},
        Lengths{"pooled_sink", 40, 5, 40, kMean, 10, {.first = 30.0}, ", first tokens of 30 sd"},
        Lengths{"pooled_large_sink",
                40,
                5,
                40,
                kMean,
                10,
                {.first = 300.0},
                ", first tokens of 300 sd"},
        Lengths{"pooled_trend", 40, 5, 40, kMean, 10, {.trend = 3.0}, ", a trend with the place"},
        Lengths{"pooled_length",
                40,
                5,
                40,
                kMean,
                10,
                {.length = 3.5},
                ", a trend of one sd with the length"},
        Lengths{"last", 40, 5, 40, kLast, 10},
        Lengths{"last_trend", 40, 5, 40, kLast, 10, {.trend = 3.5}, ", a trend with the place"},
        Lengths{"last_ripple", 40, 5, 40, kLast, 10, {.ripple = 2.0}, ", a vector of each place"},
        Lengths{"other_tokens",
                40,
                5,
                40,
                kMean,
                10,
                {.first = 30.0},
                ", other tokens in B, first ones of 30 sd",
                true}),
    [](const auto& lengths) { return std::string(lengths.param.name); });

// What the null keeps of lengths leaves a relation visible: of pairs of layers that have half of
// their variance in common nearly all have the least p. Where most of the variance is that of the
// lengths, the estimate itself is mostly theirs, and fewer stand out.
TEST(CkaNullTest, ARelationIsFoundBesideLengths) {
  for (const auto& [lengths, least] :
       {std::pair(Lengths{"mean", 40, 5, 40, kMean, 8}, 0.9),
        {Lengths{"last", 40, 5, 40, kLast, 8}, 0.9},
        {Lengths{"tokens", 40, 5, 40, kMean, 8, {}, ", other tokens in B", true}, 0.9},
        {Lengths{"sink", 40, 5, 40, kMean, 8, {.first = 5.0}, ", first tokens of 5 sd"}, 0.9},
        {Lengths{"some",
                 40,
                 5,
                 40,
                 kMean,
                 8,
                 {.length = 1.75},
                 ", a trend of half an sd with the length"},
         0.7},
        {Lengths{
             "most", 40, 5, 40, kMean, 8, {.length = 3.5}, ", a trend of one sd with the length"},
         0.3}}) {
    const std::vector<double> p = p_of_pairs(drawn_sides(lengths, 1), lengths.pooling,
                                             lengths.places, 1.0, lengths.layers, 7000);
    const auto found = std::count_if(p.begin(), p.end(), [](double one) { return one <= 0.05; });
    fmt::print("| {} prompts of {} to {}{}{} | {} of {} |\n", lengths.prompts, lengths.least,
               lengths.most, pool_text(lengths.pooling), lengths.says, found, p.size());
    EXPECT_GE(static_cast<double>(found), least * static_cast<double>(p.size())) << lengths.name;
  }
}

TEST(CkaNullTest, LengthsThatDifferAllLeaveNoOrder) {
  std::vector<std::int64_t> lengths(30);
  std::iota(lengths.begin(), lengths.end(), std::int64_t{3});
  lengths[7] = lengths[8];
  const model::Dump dump = dump_of(lengths);
  const std::string reason = few_orders(compared_rows(dump, dump, engine::Pooling::kNone, true));
  EXPECT_NE(reason.find("2 of 30"), std::string::npos) << reason;
  EXPECT_NE(reason.find("2 orders of 20"), std::string::npos) << reason;
  EXPECT_NE(reason.find("few lengths"), std::string::npos) << reason;
  // Pooled rows depend on the length of their prompts too.
  const ComparedRows pooled = compared_rows(dump, dump, engine::Pooling::kMean, true);
  EXPECT_EQ(few_orders(pooled), reason);
  EXPECT_EQ(pooled.strata, (statistics::Strata{{7, 8}}));
  // Where the other side's tokens are others, its lengths are as good.
  const model::Dump even = dump_of(std::vector<std::int64_t>(30, 4));
  for (const auto& [a, b] : {std::pair(&dump, &even), std::pair(&even, &dump)}) {
    const ComparedRows rows = compared_rows(*a, *b, engine::Pooling::kMean, false);
    EXPECT_TRUE(few_orders(rows).empty());
    ASSERT_EQ(rows.strata.size(), 1U);
    EXPECT_EQ(rows.strata.front().size(), 30U);
  }
}

}  // namespace
}  // namespace vindex::commands::cka_null_test
