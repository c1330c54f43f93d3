// Whether a chain of layers has stages only where there are some. Fixed seeds; prints the rows of
// the table of docs/commands/cka.md.
#include "cka_draws.hpp"

#include "commands/cka/cka_rows.hpp"
#include "statistics/cka/cka.hpp"
#include "statistics/layers/stages.hpp"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>

namespace vindex::commands::cka_stages_test {
namespace {

using testing::drawn_lengths;
using testing::dump_of;
using testing::MemoryDump;
using testing::noise_of;
using testing::row_tile_of;
using testing::Values;

enum class Kind : std::uint8_t {
  kSteady,       ///< x <- (x + step e) / sqrt(1 + step^2): neighbours equally alike
  kResidual,     ///< x += step e: more alike with depth
  kIndependent,  ///< x <- e
};

struct Chain {
  const char* name;
  Kind kind;
  std::size_t layers;
  double step;
  double start = 1.0;                    ///< of the first layer, in standard deviations
  std::vector<std::size_t> breaks = {};  ///< layers behind which a step is six times as large
};

std::vector<Values> layers_of(const Chain& chain, const model::Dump& dump, std::uint64_t key) {
  constexpr std::uint64_t kColumns = 8;
  std::vector<Values> layers = {noise_of(dump, key, kColumns)};
  for (float& value : layers.front()) {
    value *= static_cast<float>(chain.start);
  }
  while (layers.size() < chain.layers) {
    const bool is_break = std::find(chain.breaks.begin(), chain.breaks.end(), layers.size() - 1) !=
                          chain.breaks.end();
    const double step = is_break ? 6.0 * chain.step : chain.step;
    const double kept = chain.kind == Kind::kIndependent ? 0.0 : 1.0;
    const double scale = chain.kind == Kind::kSteady ? 1.0 / std::sqrt(1.0 + step * step) : 1.0;
    const Values fresh = noise_of(dump, key + layers.size(), kColumns);
    Values next = layers.back();
    for (std::size_t i = 0; i < next.size(); ++i) {
      next[i] = static_cast<float>(
          scale * (kept * static_cast<double>(next[i]) + step * static_cast<double>(fresh[i])));
    }
    layers.push_back(std::move(next));
  }
  return layers;
}

statistics::Stages stages_of_chain(const Chain& chain, std::uint64_t key) {
  const model::Dump dump = dump_of(drawn_lengths(24, 1, 3, key));
  const ComparedRows rows = compared_rows(dump, dump, engine::Pooling::kNone, true);
  MemoryDump a(dump.tokens, layers_of(chain, dump, 100 * key));
  MemoryDump b(dump.tokens, {noise_of(dump, 100 * key + 99, 2)});
  const TileResult found = row_tile_of(a, b, {rows.groups, nullptr, 0, true});
  std::vector<statistics::Adjacent> adjacent;
  for (std::size_t i = 0; i + 1 < chain.layers; ++i) {
    const Estimate& estimate = found.adjacent[i];
    adjacent.push_back(
        {estimate.cka,
         statistics::jackknife_error(estimate.cka, estimate.without, estimate.directions).error});
  }
  return statistics::count_stages(adjacent).value();
}

class CkaStages : public ::testing::TestWithParam<Chain> {};

// Where nothing is planted at most one chain in twenty has a second stage; planted breaks are found
// as they are.
TEST_P(CkaStages, AreThoseOfTheChain) {
  const Chain& chain = GetParam();
  const bool is_planted = !chain.breaks.empty();
  const int chains = is_planted ? 20 : 60;
  int as_planted = 0;
  for (int number = 1; number <= chains; ++number) {
    as_planted +=
        stages_of_chain(chain, static_cast<std::uint64_t>(number)).breaks == chain.breaks ? 1 : 0;
  }
  fmt::print("| {}, {} layers, steps of {} | {} of {} {} |\n", chain.name, chain.layers, chain.step,
             is_planted ? as_planted : chains - as_planted, chains,
             is_planted ? "with exactly these breaks" : "with a second stage");
  EXPECT_GE(as_planted, is_planted ? 18 : 57);
}

INSTANTIATE_TEST_SUITE_P(
    Chains, CkaStages,
    ::testing::Values(
        Chain{"steady", Kind::kSteady, 20, 0.1}, Chain{"steady", Kind::kSteady, 20, 1.0},
        Chain{"steady", Kind::kSteady, 60, 0.3}, Chain{"independent", Kind::kIndependent, 20, 1.0},
        Chain{"residual", Kind::kResidual, 20, 0.3}, Chain{"residual", Kind::kResidual, 20, 1.0},
        Chain{"residual from a small first layer", Kind::kResidual, 20, 1.0, 0.1},
        Chain{"residual", Kind::kResidual, 60, 1.0}, Chain{"residual", Kind::kResidual, 40, 3.0},
        Chain{"steady, two steps six times as large", Kind::kSteady, 20, 0.3, 1.0, {6, 12}},
        Chain{"steady, the last step six times as large", Kind::kSteady, 20, 0.3, 1.0, {18}},
        Chain{"residual, two steps six times as large", Kind::kResidual, 20, 0.3, 1.0, {6, 12}},
        Chain{"residual, two steps six times as large", Kind::kResidual, 20, 1.0, 1.0, {6, 12}}),
    [](const auto& chain) { return fmt::format("Chain{}", chain.index); });

}  // namespace
}  // namespace vindex::commands::cka_stages_test
