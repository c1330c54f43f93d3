// The draw of experts: fixed for ever by its seed, even over experts and places, nested and
// independent between groups.
#include "model/experts/expert_sample.hpp"

#include "tests/model/model_fixture.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <numeric>
#include <set>
#include <vector>

namespace vindex::model::expert_sample_test {
namespace {

std::vector<std::int32_t> routed(std::uint64_t seed, std::int32_t layer, std::string_view role,
                                 std::int32_t count) {
  return drawn_order(seed, layer, Block::kRoutedExpert, role, count);
}

/// Two layers of eight routed experts and a router each, stacks of slices or tensors of their own.
ModelIndex mixture(bool stacked) {
  ModelFixture fixture;
  fixture.config("model_type", "qwen3_moe");
  for (const std::string layer : {"0", "1"}) {
    const std::string mlp = "model.layers." + layer + ".mlp.";
    fixture.bf16(mlp + "gate.weight", {8, 6});
    if (stacked) {
      fixture.bf16(mlp + "experts.gate_up_proj", {8, 6, 10});
      fixture.bf16(mlp + "experts.down_proj", {8, 5, 6});
      continue;
    }
    for (int expert = 0; expert < 8; ++expert) {
      fixture.bf16(fmt::format("{}experts.{}.up_proj.weight", mlp, expert), {5, 6});
      fixture.bf16(fmt::format("{}experts.{}.down_proj.weight", mlp, expert), {6, 5});
    }
  }
  return fixture.index();
}

std::vector<std::int64_t> everything(const ModelIndex& index) {
  std::vector<std::int64_t> all(index.matrices.size());
  std::iota(all.begin(), all.end(), 0);
  return all;
}

// Written down once: the same seed names the same experts in every version of the program. Computed
// independently by tests/commands/spectra/sample_runs.py.
TEST(ExpertSampleTest, TheDrawIsForEver) {
  const std::vector<std::int32_t> order = routed(7, 3, "down_proj", 384);
  EXPECT_EQ(std::vector<std::int32_t>(order.begin(), order.begin() + 6),
            (std::vector<std::int32_t>{63, 25, 381, 182, 255, 202}));
}

TEST(ExpertSampleTest, IsAPermutationOfAnyCount) {
  for (const std::int32_t count : {0, 1, 2, 3, 8, 384}) {
    std::vector<std::int32_t> order = routed(1, 0, "up_proj", count);
    std::sort(order.begin(), order.end());
    std::vector<std::int32_t> all(static_cast<std::size_t>(count));
    std::iota(all.begin(), all.end(), 0);
    EXPECT_EQ(order, all);
  }
}

// Chi-square of 20,000 seeds. Expert by place: 8 x 8 counts with 49 degrees of freedom, whose 99.9
// % point is 85.35; pairs at the first two places: 56 with 55, 93.17.
TEST(ExpertSampleTest, EveryExpertIsAsLikelyAtEveryPlace) {
  constexpr int kSeeds = 20000;
  std::array<std::array<double, 8>, 8> counts{};
  std::array<std::array<double, 8>, 8> pairs{};
  for (int seed = 0; seed < kSeeds; ++seed) {
    const std::vector<std::int32_t> order =
        routed(static_cast<std::uint64_t>(seed), 2, "gate_proj", 8);
    for (std::size_t place = 0; place < 8; ++place) {
      ++counts[place][static_cast<std::size_t>(order[place])];
    }
    ++pairs[static_cast<std::size_t>(order[0])][static_cast<std::size_t>(order[1])];
  }
  double by_place = 0.0;
  double by_pair = 0.0;
  for (std::size_t i = 0; i < 8; ++i) {
    for (std::size_t j = 0; j < 8; ++j) {
      const double expected = kSeeds / 8.0;
      by_place += (counts[i][j] - expected) * (counts[i][j] - expected) / expected;
      const double of_pair = kSeeds / 56.0;
      by_pair += i == j ? 0.0 : (pairs[i][j] - of_pair) * (pairs[i][j] - of_pair) / of_pair;
    }
    EXPECT_EQ(pairs[i][i], 0.0);
  }
  EXPECT_LT(by_place, 85.35);
  EXPECT_LT(by_pair, 93.17);
}

// Whom one group draws first says nothing of whom another does: 20,000 seeds, chi-square of the 8 x
// 8 table of both.
TEST(ExpertSampleTest, GroupsAreDrawnIndependently) {
  const auto table = [](std::int32_t other_layer, std::string_view other_role) {
    constexpr int kSeeds = 20000;
    std::array<std::array<double, 8>, 8> counts{};
    for (int i = 0; i < kSeeds; ++i) {
      const auto seed = static_cast<std::uint64_t>(i);
      ++counts[static_cast<std::size_t>(routed(seed, 1, "up_proj", 8).front())]
              [static_cast<std::size_t>(routed(seed, other_layer, other_role, 8).front())];
    }
    double chi = 0.0;
    for (const auto& row : counts) {
      for (const double count : row) {
        chi += (count - kSeeds / 64.0) * (count - kSeeds / 64.0) / (kSeeds / 64.0);
      }
    }
    return chi;
  };
  // 63 degrees of freedom: neither margin is fitted. 99.9 %: 103.4.
  EXPECT_LT(table(1, "down_proj"), 103.4);
  EXPECT_LT(table(2, "up_proj"), 103.4);
}

TEST(ExpertSampleTest, LargerSamplesHoldSmallerOnes) {
  ModelIndex index = mixture(false);
  draw_groups(index, 5);
  std::set<std::int64_t> before;
  for (const std::int64_t experts : {1, 2, 3, 5, 8, 100}) {
    const SampledSelection kept =
        keep_sample(index, everything(index), {.experts = experts, .seed = 5});
    const std::set<std::int64_t> now(kept.selected.begin(), kept.selected.end());
    EXPECT_TRUE(std::includes(now.begin(), now.end(), before.begin(), before.end())) << experts;
    // Two routers, and of each of four groups as many as asked for.
    EXPECT_EQ(now.size(), 2 + 4 * static_cast<std::size_t>(std::min<std::int64_t>(experts, 8)));
    EXPECT_EQ(kept.before, 34);
    EXPECT_EQ(std::pair(kept.least, kept.most), std::pair(8, 8));
    before = now;
  }
  EXPECT_EQ(keep_sample(index, everything(index), {.experts = 0, .seed = 5}).selected,
            everything(index));
}

TEST(ExpertSampleTest, SlicesOfAStackAreExperts) {
  ModelIndex index = mixture(true);
  draw_groups(index, 5);
  const SampledSelection kept = keep_sample(index, everything(index), {.experts = 3, .seed = 5});
  EXPECT_EQ(kept.selected.size(), 2U + 4U * 3U);
  for (const MatrixRecord& matrix : index.matrices) {
    EXPECT_EQ(matrix.draw_of, matrix.block == Block::kRouter ? 1 : 8);
    EXPECT_GE(matrix.draw, 0);
    EXPECT_LT(matrix.draw, matrix.draw_of);
  }
}

TEST(ExpertSampleTest, TheTextSaysHowManyOfHowMany) {
  ModelIndex index = mixture(false);
  draw_groups(index, 5);
  const auto text = [&](std::int64_t experts) {
    const SampleChoice sample{.experts = experts, .seed = 5};
    return sample_text(keep_sample(index, everything(index), sample), sample);
  };
  EXPECT_EQ(text(2), "sample: 2 of 8 experts of each layer and role (seed 5), 10 of 34 matrices");
  EXPECT_EQ(text(8), "sample: all of 8 experts of each layer and role, drawn by seed 5");
  const SampleChoice sample{.experts = 2, .seed = 5};
  const SampledSelection none = keep_sample(index, {}, sample);
  EXPECT_EQ(sample_text(none, sample).substr(0, 5), "note:");
}

TEST(ExpertSampleTest, TheFlagIsNumberAndSeed) {
  EXPECT_EQ(parse_sample("16").experts, 16);
  EXPECT_EQ(parse_sample("16").seed, 0U);
  EXPECT_EQ(parse_sample("1:18446744073709551615").seed, 18446744073709551615U);
  for (const char* text : {"", "0", "-1", "16:", ":3", "16:-1", "16:x", "1e3", "16:1:2",
                           "4294967297", "16:18446744073709551616"}) {
    try {
      parse_sample(text);
      ADD_FAILURE() << text;
    } catch (const UsageError& error) {
      EXPECT_EQ(error.id(), "E-SAMPLE") << text;
    }
  }
}

}  // namespace
}  // namespace vindex::model::expert_sample_test
