// Owns reading queries from the command line, and what vectors have in common.
#include "lookup_queries.hpp"

#include "core/files/byte_source.hpp"
#include "core/text/text_parts.hpp"
#include "input/npy/npy.hpp"
#include <vindex/error.hpp>

#include <fmt/format.h>

#include <cmath>
#include <string_view>
#include <utility>

namespace vindex::commands {

double norm_of(std::span<const float> values) {
  double square = 0.0;
  for (const float value : values) {
    square += static_cast<double>(value) * static_cast<double>(value);
  }
  return std::sqrt(square);
}

std::string trouble_of(std::span<const float> values) {
  const double norm = norm_of(values);
  return std::isfinite(norm) ? (norm == 0.0 ? "is zero" : "") : "has values that are not finite";
}

std::vector<float> read_rows(const VectorFile& file, std::int64_t first, std::int64_t count) {
  input::NpyHeader part = file.header;
  const std::uint64_t row_bytes = file.header.bytes / static_cast<std::uint64_t>(file.rows);
  part.bytes = static_cast<std::uint64_t>(count) * row_bytes;
  part.offset += static_cast<std::uint64_t>(first) * row_bytes;
  return input::read_npy_floats(*file.source, part);
}

std::string_view pooling_name(TokenPooling pooling) {
  return pooling == TokenPooling::kMean ? "mean" : "last";
}

QueryRequest token_sequence(const std::string& text) {
  TokenSequence sequence;
  for (const std::string_view entry : split(text, ' ')) {
    if (!entry.empty()) {
      sequence.tokens.emplace_back(TokenText{std::string(entry)});
    }
  }
  if (sequence.tokens.empty()) {
    throw UsageError("E-QUERY", "--tokens: no entry in it; entries stand with spaces between them");
  }
  return {.what = std::move(sequence)};
}

QueryRequest token_numbers(const std::string& text) {
  TokenSequence sequence;
  for (const std::string_view part : split(text, ',')) {
    const auto number = whole_number<std::int64_t>(part);
    if (!number || *number < 0) {
      throw UsageError("E-QUERY",
                       fmt::format("--token-ids {}: numbers of tokens are needed, commas "
                                   "between them: 12,55,9",
                                   excerpt(text)));
    }
    sequence.tokens.emplace_back(TokenNumber{*number});
  }
  return {.what = std::move(sequence)};
}

}  // namespace vindex::commands
