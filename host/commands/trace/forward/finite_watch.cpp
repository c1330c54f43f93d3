// Owns the counting.
#include "finite_watch.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <cstddef>
#include <span>

namespace vindex::commands {

namespace {

/// Whether an exponent is all ones; a loop without branches, so that it runs in vectors.
bool has_non_finite(std::span<const float> values) {
  constexpr std::uint32_t kExponent = 0x7F800000;
  std::uint32_t found = 0;
  for (const float value : values) {
    found |=
        static_cast<std::uint32_t>((std::bit_cast<std::uint32_t>(value) & kExponent) == kExponent);
  }
  return found != 0;
}

/// Marks the rows of `values` [rows, width] that hold such a value; row 0 is that of token `first`.
void mark_rows(const float* values, std::int64_t first, std::int64_t rows, std::int64_t width,
               std::vector<bool>& marked) {
  for (std::int64_t row = 0; row < rows; ++row) {
    if (has_non_finite({values + row * width, static_cast<std::size_t>(width)})) {
      marked[static_cast<std::size_t>(first + row)] = true;
    }
  }
}

std::int64_t count_of(const std::vector<bool>& marked) {
  return std::count(marked.begin(), marked.end(), true);
}

std::string tokens_text(std::int64_t tokens) {
  return fmt::format("{} token{}", tokens, tokens == 1 ? "" : "s");
}

}  // namespace

std::string not_finite_text(const NotFinite& found, const std::string& side) {
  std::string text = "warning W-NOT-FINITE: " + side;
  if (found.first_layer >= 0) {
    text += fmt::format("activations of {} are not finite from layer {} on",
                        tokens_text(found.activation_tokens), found.first_layer);
  }
  if (found.logit_tokens > 0) {
    text += fmt::format("{}logits of {} are not finite", found.first_layer >= 0 ? "; " : "",
                        tokens_text(found.logit_tokens));
  }
  return text + ": weights that are not finite, or too large for float32";
}

void FiniteWatch::see(const TraceBlock& block) {
  if (found_.first_layer < 0) {
    mark_rows(block.values, block.first, block.rows, block.width, rows_);
  }
}

void FiniteWatch::logits(const LogitsTile& tile) {
  mark_rows(tile.values, tile.first, tile.rows, tile.entries, logit_rows_);
}

void FiniteWatch::end_layer(std::int32_t layer) {
  if (found_.first_layer < 0) {
    found_.activation_tokens = count_of(rows_);
    found_.first_layer = found_.activation_tokens > 0 ? layer : -1;
  }
}

NotFinite FiniteWatch::found() const {
  NotFinite found = found_;
  found.logit_tokens = count_of(logit_rows_);
  return found;
}

}  // namespace vindex::commands
