// Owns what a row of /layer/ of a file of `vindex trace --statistics` holds (schema vindex-trace):
// one kind of activations of a layer, role `hidden`, `mlp`, `router_logits` or `logits` (layer -1).
// `rows` are tokens, `cols` width, neurons, experts or vocabulary. Columns of `vindex routing` and
// `vindex activations` have their names and definitions, and a row has those of its role.
#pragma once

#include "commands/token_tables/activations_cells.hpp"
#include "commands/token_tables/routing_cells.hpp"
#include "results/schema/cell_table.hpp"

#include <array>
#include <cstddef>
#include <cstdint>
#include <string_view>
#include <utility>

namespace vindex::commands {

/// Prompts beyond which no Gram matrix is kept: those of all layers are compared in memory.
inline constexpr std::int64_t kMostGramPrompts = 512;

inline constexpr std::array<results::CellColumn, 7> kTraceOwnCells = {{
    {"loss", "negative log-likelihood of the tokens that came, nats, mean over predicted tokens",
     false, results::kNotNegative},
    {"loss_null", "loss of the uniform law: ln vocabulary", false, results::kNotNegative},
    {"loss_se", "standard error of loss, by prompt", false, results::kNotNegative},
    {"perplexity", "exp(loss)", false, {1.0}},
    {"predicted_tokens", "tokens that loss is over: all but the first of each prompt", true,
     results::kNotNegative},
    {"pooled_prompts", "prompts whose mean states `gram` is of", true, results::kNotNegative},
    {"mean_norm", "root of the mean over prompts of the squared norm of the mean state", false,
     results::kNotNegative},
}};

inline constexpr std::array<results::ArrayColumn, 1> kTraceOwnArrays = {{
    {"gram",
     "inner products of the prompts' mean states, the mean prompt taken away: what linear CKA is "
     "made of",
     {"prompt", "prompt_other"},
     true},
}};

inline constexpr std::array<results::ScaleColumn, 2> kTraceOwnScales = {
    {{"prompt", "number of the prompt"}, {"prompt_other", "number of the other prompt"}}};

/// Columns of `vindex activations` that a run has: those of the weights are left out.
inline constexpr std::size_t kTraceActivationCells =
    results::number_in(engine::kActivationsCells, "tokens_left_out");

namespace detail {

/// Of every run: what is optional elsewhere is there.
template <typename Column>
constexpr Column always(Column column) {
  if constexpr (requires { column.presence; }) {
    column.presence = results::Presence::kAlways;
  }
  return column;
}

/// The first sizeof...(A) columns of `a`, and all of `b` and `c` behind them.
template <typename Column, std::size_t N, std::size_t M, std::size_t L, std::size_t... A,
          std::size_t... B, std::size_t... C>
constexpr std::array<Column, sizeof...(A) + M + L> joined(
    const std::array<Column, N>& a, const std::array<Column, M>& b, const std::array<Column, L>& c,
    std::index_sequence<A...>, std::index_sequence<B...>, std::index_sequence<C...>) {
  return {{always(a[A])..., always(b[B])..., always(c[C])...}};
}

template <std::size_t First, typename Column, std::size_t N, std::size_t M, std::size_t L>
constexpr auto joined(const std::array<Column, N>& a, const std::array<Column, M>& b,
                      const std::array<Column, L>& c) {
  return joined(a, b, c, std::make_index_sequence<First>(), std::make_index_sequence<M>(),
                std::make_index_sequence<L>());
}

}  // namespace detail

inline constexpr auto kTraceCells = detail::joined<kTraceActivationCells>(
    engine::kActivationsCells, engine::kRoutingCells, kTraceOwnCells);
inline constexpr auto kTraceArrays = detail::joined<engine::kActivationsArrays.size()>(
    engine::kActivationsArrays, engine::kRoutingArrays, kTraceOwnArrays);
inline constexpr auto kTraceScales = detail::joined<engine::kActivationsScales.size()>(
    engine::kActivationsScales, engine::kRoutingScales, kTraceOwnScales);

inline constexpr results::CellTable kTraceTable = {kTraceCells, kTraceArrays, kTraceScales};

consteval std::size_t trace_cell(std::string_view name) {
  return results::cell_in(kTraceCells, name);
}
consteval std::size_t trace_array(std::string_view name) {
  return results::number_in(kTraceArrays, name);
}

}  // namespace vindex::commands
