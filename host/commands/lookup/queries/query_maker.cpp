// Owns making vectors of one width of queries: entries of the vocabulary by text, rows of the
// embedding, names.
#include "query_maker.hpp"

#include "engine/units/matrix_loader.hpp"
#include "model/selection/selection.hpp"
#include "statistics/features/feature_scores.hpp"
#include <vindex/error.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <unordered_map>
#include <utility>

namespace vindex::commands {

namespace {

/// "several entries: 5 `the`, 9 ` the`".
std::string several_text(const model::Vocabulary& vocabulary,
                         const std::vector<std::int64_t>& numbers) {
  constexpr std::size_t kShown = 8;
  std::string list;
  for (std::size_t i = 0; i < std::min(kShown, numbers.size()); ++i) {
    list += fmt::format("{}{} `{}`", i == 0 ? "" : ", ", numbers[i],
                        excerpt(vocabulary.text(numbers[i])));
  }
  return list + (numbers.size() > kShown ? ", ..." : "");
}

std::string at_place(const QueryRequest& request) {
  return request.where.empty() ? "" : request.where + ": ";
}

std::int64_t token_number(const QueryRequest& request, const std::string& text,
                          const model::Vocabulary* vocabulary, const std::string& model) {
  if (vocabulary == nullptr) {
    throw MissingInputError(
        "E-VOCABULARY",
        fmt::format("{}: no vocabulary (tokenizer.ggml.tokens, or tokenizer.json beside the "
                    "weights), so `{}` has no number; --token-id takes one, --tokenizer a "
                    "tokenizer.json",
                    printable(model), excerpt(text)));
  }
  const std::vector<std::int64_t> numbers = vocabulary->find(text);
  if (numbers.size() == 1) {
    return numbers.front();
  }
  if (numbers.empty()) {
    const std::string guess = vocabulary->guess(text);
    throw UsageError(
        "E-TOKEN",
        fmt::format("{}`{}` is not an entry of the vocabulary ({}); {}", at_place(request),
                    excerpt(text), printable(vocabulary->source()),
                    guess.empty() ? "a text of several entries is a query of --tokens" : guess));
  }
  throw UsageError(
      "E-TOKEN", fmt::format("{}`{}` may be several entries: {}; --token-id takes one of these "
                             "numbers",
                             at_place(request), excerpt(text), several_text(*vocabulary, numbers)));
}

}  // namespace

/// Rows of the embedding; of many queries the same tokens come again and again.
class QueryMaker::EmbeddingRows {
 public:
  EmbeddingRows(const input::ModelFiles& files, const model::ModelIndex& index, std::int64_t matrix)
      : path_(files.path), watch_(files) {
    if (matrix < 0) {
      return;
    }
    record_ = &index.matrices[static_cast<std::size_t>(matrix)];
    if (const std::string reason = model::undecodable_text(*record_); !reason.empty()) {
      throw FormatError("E-UNSUPPORTED", model::matrix_name(*record_), reason);
    }
    input_ = engine::make_streamed_input(watch_, *record_);
  }

  std::vector<float> row(const QueryRequest& request, std::int64_t number) {
    if (record_ == nullptr) {
      throw MissingInputError(
          "E-EMBEDDING",
          fmt::format("{}: no embedding (embed_tokens), so tokens have no vectors; --vector takes "
                      "any",
                      printable(path_)));
    }
    if (number < 0 || number >= record_->rows) {
      throw UsageError("E-TOKEN", fmt::format("{}token {}: the embedding has rows 0 to {}",
                                              at_place(request), number, record_->rows - 1));
    }
    if (const auto known = rows_.find(number); known != rows_.end()) {
      return known->second;
    }
    std::vector<float> values = statistics::logical_row(*input_, number);
    if (const std::string error = trouble_of(values); !error.empty()) {
      throw FormatError("E-QUERY", model::matrix_name(*record_),
                        fmt::format("row {} {}", number, error));
    }
    constexpr std::size_t kMostKept = (16U << 20U) / sizeof(float);
    if ((rows_.size() + 1) * values.size() > kMostKept) {
      rows_.clear();
    }
    rows_.emplace(number, values);
    return values;
  }
  void require_unchanged() { watch_.require_unchanged(); }

 private:
  std::string path_;
  engine::SourceWatch watch_;
  const model::MatrixRecord* record_ = nullptr;
  std::unique_ptr<MatrixInput> input_;
  std::unordered_map<std::int64_t, std::vector<float>> rows_;
};

QueryMaker::QueryMaker(const model::Vocabulary* vocabulary, const input::ModelFiles& files,
                       const model::ModelIndex& index, const EmbeddingPlace& place)
    : vocabulary_(vocabulary), files_(files), index_(index), place_(place) {}
QueryMaker::~QueryMaker() = default;

void QueryMaker::require_unchanged() {
  if (embedding_ != nullptr) {
    embedding_->require_unchanged();
  }
}

std::int64_t QueryMaker::number_of(const QueryRequest& request,
                                   const std::variant<TokenText, TokenNumber>& token) const {
  const auto* text = std::get_if<TokenText>(&token);
  return text != nullptr ? token_number(request, text->text, vocabulary_, files_.path)
                         : std::get<TokenNumber>(token).number;
}

/// The vector of one token, or of several.
void QueryMaker::fill_tokens(const QueryRequest& request, Query& query) {
  if (const auto* sequence = std::get_if<TokenSequence>(&request.what)) {
    for (const auto& token : sequence->tokens) {
      query.tokens.push_back(number_of(request, token));
    }
  } else if (const auto* text = std::get_if<TokenText>(&request.what)) {
    query.token = number_of(request, *text);
  } else {
    query.token = std::get<TokenNumber>(request.what).number;
  }
  if (embedding_ == nullptr) {
    embedding_ = std::make_unique<EmbeddingRows>(files_, index_, place_.matrix);
  }
  std::vector<std::int64_t> pooled = query.token ? std::vector{*query.token} : query.tokens;
  if (place_.pooling == TokenPooling::kLast) {
    pooled.erase(pooled.begin(), pooled.end() - 1);
  }
  std::vector<double> sums;
  for (const std::int64_t number : pooled) {
    const std::vector<float> row = embedding_->row(request, number);
    sums.resize(row.size());
    for (std::size_t i = 0; i < row.size(); ++i) {
      sums[i] += static_cast<double>(row[i]);
    }
  }
  const auto count = static_cast<double>(pooled.size());
  for (const double sum : sums) {
    query.x.push_back(static_cast<float>(sum * place_.scale / count));
  }
  if (const std::string error = trouble_of(query.x); !error.empty()) {
    throw FormatError(
        "E-QUERY", printable(files_.path),
        fmt::format("{}the mean of {} tokens {}", at_place(request), pooled.size(), error));
  }
}

/// A query without a name of its own: "` mom`", "token 357", "mean of `a`, ` b`", "vector 2".
std::string QueryMaker::name_of(const Query& query, std::size_t number) const {
  constexpr std::size_t kShown = 4;
  const auto has_text = [&](std::int64_t token) {
    return vocabulary_ != nullptr && vocabulary_->entry(token).has_value();
  };
  const auto text = [&](std::int64_t token) {
    return has_text(token) ? fmt::format("`{}`", excerpt(vocabulary_->text(token)))
                           : fmt::format("token {}", token);
  };
  if (query.token) {
    return text(*query.token);
  }
  const std::vector<std::int64_t>& tokens = query.tokens;
  if (tokens.empty()) {
    return fmt::format("vector {}", number);
  }
  std::string name = fmt::format("{} of ", pooling_name(place_.pooling));
  // Of many the first ones and the last.
  const bool is_long = tokens.size() > kShown;
  for (std::size_t i = 0; i < (is_long ? kShown - 1 : tokens.size()); ++i) {
    name += (i == 0 ? "" : ", ") + text(tokens[i]);
  }
  return is_long ? fmt::format("{}, ... {} ({} tokens)", name, text(tokens.back()), tokens.size())
                 : name;
}

Query QueryMaker::make(const QueryRequest& request, std::size_t number) {
  Query query;
  query.name = printable(request.name);
  std::string place = at_place(request);
  if (const auto* vector = std::get_if<std::vector<float>>(&request.what)) {
    query.x = *vector;
  } else if (const auto* row = std::get_if<VectorRow>(&request.what)) {
    const VectorFile& file = *row->file;
    query.x = read_rows(file, row->row, 1);
    query.name = printable(
        file.header.shape.size() == 1 ? file.name : fmt::format("{}[{}]", file.name, row->row));
    place = fmt::format("{}, row {}: ", file.source->name(), row->row);
    // Rows were sound when the file was opened; it may have been written since.
    if (const std::string error = trouble_of(query.x); !error.empty()) {
      throw FormatError("E-QUERY", file.source->name(), fmt::format("row {} {}", row->row, error));
    }
  } else {
    fill_tokens(request, query);
  }
  if (query.name.empty()) {
    query.name = name_of(query, number);
  }
  query.norm = norm_of(query.x);
  if (width_ == 0) {
    width_ = query.x.size();
    first_name_ = query.name;
  }
  if (query.x.size() != width_) {
    throw ConfigurationError(
        "E-QUERY-WIDTH",
        fmt::format("{}{} has {} components, {} has {}; they are looked up together", place,
                    query.name, query.x.size(), first_name_, width_));
  }
  return query;
}

}  // namespace vindex::commands
