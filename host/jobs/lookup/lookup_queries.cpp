// Owns reading queries from the command line, JSON lines and .npy files, and making vectors of one
// width of them.
#include "lookup_queries.hpp"

#include "core/byte_source.hpp"
#include "core/integers.hpp"
#include "core/json.hpp"
#include "core/text_parts.hpp"
#include "engine/matrix_loader.hpp"
#include "input/npy.hpp"
#include "input/open_store.hpp"
#include "measure/feature_scores.hpp"
#include "model/selection.hpp"
#include <vindex/error.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <map>
#include <string_view>
#include <utility>

namespace vindex::jobs {

namespace {

using decode::ElementType;

constexpr std::uint64_t kMaxTextBytes = 64U << 20U;
constexpr std::int64_t kWidest = 1 << 24;  ///< of a vector

double norm_of(const std::vector<float>& values) {
  double square = 0.0;
  for (const float value : values) {
    square += static_cast<double>(value) * static_cast<double>(value);
  }
  return std::sqrt(square);
}

/// Why `values` have no direction, or nothing.
std::string trouble_of(const std::vector<float>& values) {
  const double norm = norm_of(values);
  return std::isfinite(norm) ? (norm == 0.0 ? "is zero" : "") : "has values that are not finite";
}

bool is_float(ElementType type) {
  return type == ElementType::kF16 || type == ElementType::kF32 || type == ElementType::kF64;
}

/// The queries of one line of JSON.
class JsonLine {
 public:
  JsonLine(const std::string& text, std::string where) : where_(std::move(where)) {
    const JsonValue line = parse_json(text, where_, {});
    if (line.as_object() == nullptr) {
      read_token(line);
      return;
    }
    for (const auto& [key, value] : *line.as_object()) {
      if (key == "token" && value.as_string() != nullptr) {
        set(TokenText{*value.as_string()});
      } else if (key == "token_id" && value.as_unsigned() != nullptr) {
        read_token(value);
      } else if ((key == "tokens" || key == "token_ids") && value.as_array() != nullptr) {
        set(sequence(*value.as_array(), key == "tokens"));
      } else if (key == "vector" && value.as_array() != nullptr) {
        set(numbers(*value.as_array()));
      } else if (key == "name" && value.as_string() != nullptr) {
        request_.name = *value.as_string();
      } else {
        refuse(fmt::format("`{}` is not understood here", excerpt(key)));
      }
    }
    if (!is_set_) {
      refuse("no query in it");
    }
  }
  QueryRequest take() {
    request_.where = where_;
    return std::move(request_);
  }

 private:
  [[noreturn]] void refuse(const std::string& why) const {
    throw FormatError("E-QUERY", where_,
                      why +
                          R"(; a query is "text", a number, or {"token": "text"}, )"
                          R"({"token_id": number}, {"tokens": [texts]}, {"token_ids": [numbers]}, )"
                          R"({"vector": [numbers]}, with "name")");
  }
  template <typename What>
  void set(What what) {
    if (is_set_) {
      refuse("two queries in one line");
    }
    request_.what = std::move(what);
    is_set_ = true;
  }
  std::variant<TokenText, TokenNumber> token(const JsonValue& value, bool is_text_known) const {
    const auto number =
        value.as_unsigned() == nullptr ? std::nullopt : checked_count(*value.as_unsigned());
    if (value.as_string() != nullptr && is_text_known) {
      return TokenText{*value.as_string()};
    }
    if (!number) {
      refuse(is_text_known ? "no token's text or number" : "no token's number");
    }
    return TokenNumber{*number};
  }
  void read_token(const JsonValue& value) {
    std::visit([&](auto one) { set(std::move(one)); }, token(value, true));
  }
  TokenSequence sequence(const JsonValue::Array& array, bool is_text_known) const {
    if (array.empty()) {
      refuse("no token in the list");
    }
    TokenSequence sequence;
    for (const JsonValue& value : array) {
      sequence.tokens.push_back(token(value, is_text_known));
    }
    return sequence;
  }
  std::vector<float> numbers(const JsonValue::Array& array) const {
    std::vector<float> values;
    for (const JsonValue& value : array) {
      if (const auto* real = std::get_if<double>(&value.storage())) {
        values.push_back(static_cast<float>(*real));
      } else if (const auto* positive = value.as_unsigned()) {
        values.push_back(static_cast<float>(*positive));
      } else if (const auto* negative = std::get_if<std::int64_t>(&value.storage())) {
        values.push_back(static_cast<float>(*negative));
      } else {
        refuse("a vector holds something that is not a number");
      }
    }
    if (const std::string trouble = trouble_of(values); !trouble.empty()) {
      refuse("its vector " + trouble);
    }
    return values;
  }

  std::string where_;
  QueryRequest request_;
  bool is_set_ = false;
};

std::vector<float> read_row(const VectorFile& file, std::int64_t row) {
  input::NpyHeader part = file.header;
  part.bytes = file.header.bytes / static_cast<std::uint64_t>(file.rows);
  part.offset += static_cast<std::uint64_t>(row) * part.bytes;
  return input::read_npy_floats(*file.source, part);
}

std::string read_text(const std::string& path) {
  const auto source = input::open_input(path);
  if (source->size() > kMaxTextBytes) {
    throw FormatError("E-QUERY", source->name(),
                      fmt::format("{} bytes, more than a file of queries may have ({})",
                                  source->size(), kMaxTextBytes));
  }
  return whole_text(*source);
}

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

std::vector<QueryRequest> read_vectors(const std::string& path) {
  auto file = std::make_shared<VectorFile>();
  file->source = input::open_input(path);
  file->header = input::read_npy_header(*file->source);
  file->source->header_is_read();
  file->name = std::filesystem::path(path).filename().string();
  const std::vector<std::int64_t>& shape = file->header.shape;
  if ((shape.size() != 1 && shape.size() != 2) || !is_float(file->header.type) ||
      std::find(shape.begin(), shape.end(), 0) != shape.end()) {
    throw FormatError("E-QUERY", file->source->name(),
                      "no vectors of floats: [width] or [queries, width] is needed");
  }
  file->width = shape.back();
  file->rows = shape.size() == 1 ? 1 : shape.front();
  if (file->width > kWidest) {
    throw FormatError(
        "E-QUERY", file->source->name(),
        fmt::format("vectors of {} numbers, at most {} are compared", file->width, kWidest));
  }
  std::vector<QueryRequest> requests;
  for (std::int64_t row = 0; row < file->rows; ++row) {
    if (const std::string trouble = trouble_of(read_row(*file, row)); !trouble.empty()) {
      throw FormatError("E-QUERY", file->source->name(), fmt::format("row {} {}", row, trouble));
    }
    requests.push_back({.what = VectorRow{file, row}});
  }
  return requests;
}

std::vector<QueryRequest> read_queries(const std::string& path) {
  const std::string extension = std::filesystem::path(path).extension().string();
  if (extension == ".npy") {
    return read_vectors(path);
  }
  const bool is_json = extension == ".jsonl" || extension == ".json";
  const std::string text = read_text(path);
  std::vector<QueryRequest> requests;
  std::size_t number = 0;
  for (std::string_view left = text; !left.empty();) {
    std::string line(left.substr(0, left.find('\n')));
    left.remove_prefix(std::min(left.size(), line.size() + 1));
    ++number;
    if (line.ends_with('\r')) {
      line.pop_back();
    }
    if (line.empty()) {
      continue;
    }
    const std::string where = fmt::format("{}, line {}", printable(path), number);
    requests.push_back(is_json ? JsonLine(line, where).take()
                               : QueryRequest{.what = TokenText{line}, .where = where});
  }
  if (requests.empty()) {
    throw UsageError("E-QUERY", printable(path) + ": no query in it");
  }
  return requests;
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

bool needs_vocabulary(const std::vector<QueryRequest>& requests) {
  const auto is_text = [](const auto& token) { return std::holds_alternative<TokenText>(token); };
  return std::any_of(requests.begin(), requests.end(), [&](const QueryRequest& request) {
    const auto* sequence = std::get_if<TokenSequence>(&request.what);
    return sequence == nullptr
               ? is_text(request.what)
               : std::any_of(sequence->tokens.begin(), sequence->tokens.end(), is_text);
  });
}

/// Rows of the embedding, each read once.
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
    std::vector<float> values = measure::logical_row(*input_, number);
    if (const std::string trouble = trouble_of(values); !trouble.empty()) {
      throw FormatError("E-QUERY", model::matrix_name(*record_),
                        fmt::format("row {} {}", number, trouble));
    }
    return values;
  }
  void require_unchanged() { watch_.require_unchanged(); }

 private:
  std::string path_;
  engine::SourceWatch watch_;
  const model::MatrixRecord* record_ = nullptr;
  std::unique_ptr<measure::MatrixInput> input_;
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
  if (const std::string trouble = trouble_of(query.x); !trouble.empty()) {
    throw FormatError(
        "E-QUERY", printable(files_.path),
        fmt::format("{}the mean of {} tokens {}", at_place(request), pooled.size(), trouble));
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
    query.x = read_row(file, row->row);
    query.name = printable(
        file.header.shape.size() == 1 ? file.name : fmt::format("{}[{}]", file.name, row->row));
    place = fmt::format("{}, row {}: ", file.source->name(), row->row);
    // Rows were sound when the file was opened; it may have been written since.
    if (const std::string trouble = trouble_of(query.x); !trouble.empty()) {
      throw FormatError("E-QUERY", file.source->name(),
                        fmt::format("row {} {}", row->row, trouble));
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

}  // namespace vindex::jobs
