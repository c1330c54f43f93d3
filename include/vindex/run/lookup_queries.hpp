// Owns what is looked for: tokens by text or number, and vectors from files, as vectors of one
// width.
#pragma once

#include <vindex/model/model_index.hpp>
#include <vindex/model/vocabulary.hpp>
#include <vindex/shard/model_files.hpp>

#include <cstdint>
#include <optional>
#include <string>
#include <variant>
#include <vector>

namespace vindex::run {

/// A token by its text.
struct TokenText {
  std::string text;
};
/// A token by its number in the vocabulary.
struct TokenNumber {
  std::int64_t number = 0;
};

/// One query as asked for: a token, or a vector as it is.
struct QueryWish {
  std::variant<TokenText, TokenNumber, std::vector<float>> what;
  std::string name = {};   ///< empty: made from what it is
  std::string where = {};  ///< "FILE, line 3"; empty: the command line
};

/// Rows of a .npy file of floats, [width] or [queries, width]. Errors: FormatError E-QUERY (65) for
/// other shapes and types, and for a row that is zero or not finite; those of read_npy_header().
std::vector<QueryWish> read_vectors(const std::string& path);

/// A file of queries: `.npy` as read_vectors(); `.jsonl` or `.json`, a JSON value a line: "text",
/// number, or {"token": text | "token_id": number | "vector": [numbers], "name": text}; anything
/// else a token's text a line. Empty lines are passed over. Errors: FormatError E-QUERY naming the
/// line, E-JSON-*; UsageError E-QUERY (64) where it holds none.
std::vector<QueryWish> read_queries(const std::string& path);

struct Query {
  std::string name;                   ///< printable
  std::optional<std::int64_t> token;  ///< its number
  std::vector<float> x;               ///< what rows are compared with
  double norm = 0.0;
};

/// Whether one of `wishes` is a token's text.
bool needs_vocabulary(const std::vector<QueryWish>& wishes);

/// The vectors of `wishes`: rows of the embedding (`matrix` of `index`; -1: there is none) times
/// `scale`. Errors: UsageError E-TOKEN (64) for a text that is no entry or several, or a number
/// outside the embedding; MissingInputError E-VOCABULARY (66) for a text where `vocabulary` is
/// null, E-EMBEDDING (66) where tokens have no vectors; FormatError for an embedding that cannot be
/// decoded or whose row is zero or not finite; ConfigurationError E-QUERY-WIDTH (78) where queries
/// differ in width.
std::vector<Query> make_queries(const std::vector<QueryWish>& wishes,
                                const model::Vocabulary* vocabulary, const shard::ModelFiles& files,
                                const model::ModelIndex& index, std::int64_t matrix, double scale);

}  // namespace vindex::run
