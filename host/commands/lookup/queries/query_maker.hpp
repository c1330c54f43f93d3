// Owns how queries get their vectors.
#pragma once

#include "lookup_queries.hpp"

#include "input/model_files.hpp"
#include "model/model_index.hpp"
#include "model/vocabulary/vocabulary.hpp"

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <variant>

namespace vindex::commands {

/// Where tokens have their vectors.
struct EmbeddingPlace {
  std::int64_t matrix = -1;  ///< of the index; -1: there is none
  double scale = 1.0;        ///< rows are multiplied by it
  TokenPooling pooling = TokenPooling::kMean;
};

/// Makes queries of requests, one at a time: rows of the embedding times its scale, of a sequence
/// their mean or the last one, and vectors as they are.
class QueryMaker {
 public:
  QueryMaker(const model::Vocabulary* vocabulary, const input::ModelFiles& files,
             const model::ModelIndex& index, const EmbeddingPlace& place);
  ~QueryMaker();

  /// Request `number` as a query, the same whenever it is asked. Errors: UsageError E-TOKEN (64)
  /// for a text that is no entry or several, or a number outside the embedding; MissingInputError
  /// E-VOCABULARY (66) for a text where there is no vocabulary, E-EMBEDDING (66) where tokens have
  /// no vectors; FormatError for an embedding that cannot be decoded or whose row is zero or not
  /// finite; ConfigurationError E-QUERY-WIDTH (78) where it is not as wide as the first one made.
  Query make(const QueryRequest& request, std::size_t number);
  /// Errors: where the embedding changed meanwhile.
  void require_unchanged();

 private:
  class EmbeddingRows;
  std::int64_t number_of(const QueryRequest& request,
                         const std::variant<TokenText, TokenNumber>& token) const;
  std::string name_of(const Query& query, std::size_t number) const;
  void fill_tokens(const QueryRequest& request, Query& query);
  const model::Vocabulary* vocabulary_;
  const input::ModelFiles& files_;
  const model::ModelIndex& index_;
  EmbeddingPlace place_;
  std::unique_ptr<EmbeddingRows> embedding_;
  std::string first_name_;
  std::size_t width_ = 0;
};

}  // namespace vindex::commands
