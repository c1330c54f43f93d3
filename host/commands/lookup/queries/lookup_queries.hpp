// Owns what is looked for: tokens by text or number, several of them as one query, and vectors from
// files, as vectors of one width.
#pragma once

#include "input/local/file_source.hpp"
#include "input/npy/npy.hpp"

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

namespace vindex::commands {

/// A token by its text.
struct TokenText {
  std::string text;
};
/// A token by its number in the vocabulary.
struct TokenNumber {
  std::int64_t number = 0;
};

/// Several tokens that are one query.
struct TokenSequence {
  std::vector<std::variant<TokenText, TokenNumber>> tokens;  ///< one at least
};
/// What one vector is made of the rows of a sequence.
enum class TokenPooling : std::uint8_t {
  kMean,  ///< their mean
  kLast,  ///< the last one, as if it stood alone: no attention has mixed the others into it
};
std::string_view pooling_name(TokenPooling pooling);  ///< "mean", "last"

/// A .npy file of vectors, read row by row when they are needed.
struct VectorFile {
  std::unique_ptr<ByteSource> source;
  input::NpyHeader header;
  std::string name;  ///< without its folder
  std::int64_t rows = 0, width = 0;
};
struct VectorRow {
  std::shared_ptr<const VectorFile> file;
  std::int64_t row = 0;
};

/// Rows [first, first + count) of `file`, one behind the other.
std::vector<float> read_rows(const VectorFile& file, std::int64_t first, std::int64_t count);
double norm_of(std::span<const float> values);
/// Why `values` have no direction ("is zero"), or nothing.
std::string trouble_of(std::span<const float> values);

/// One query as asked for: a token, several, or a vector as it is.
struct QueryRequest {
  std::variant<TokenText, TokenNumber, TokenSequence, std::vector<float>, VectorRow> what;
  std::string name = {};   ///< empty: made from what it is
  std::string where = {};  ///< "FILE, line 3"; empty: the command line
};

/// The entries of `text`, spaces between them, as one query. Errors: UsageError E-QUERY (64) where
/// there is none.
QueryRequest token_sequence(const std::string& text);
/// The same by numbers, "12,55,9". Errors: UsageError E-QUERY (64) for anything else.
QueryRequest token_numbers(const std::string& text);

struct Query {
  std::string name;                   ///< printable
  std::optional<std::int64_t> token;  ///< its number
  std::vector<std::int64_t> tokens;   ///< of a sequence: their numbers
  std::vector<float> x;               ///< what rows are compared with
  double norm = 0.0;
};

}  // namespace vindex::commands
