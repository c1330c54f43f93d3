// Owns reading queries from the command line, JSON lines and .npy files.
#include "lookup_queries.hpp"

#include "core/byte_source.hpp"
#include "core/integers.hpp"
#include "core/json.hpp"
#include "core/secrets.hpp"
#include "core/text_parts.hpp"
#include "input/npy.hpp"
#include "input/open_store.hpp"
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

std::string read_text(const std::string& path) {
  const auto source = input::open_input(path);
  if (source->size() > kMaxTextBytes) {
    throw FormatError("E-QUERY", source->name(),
                      fmt::format("{} bytes, more than a file of queries may have ({})",
                                  source->size(), kMaxTextBytes));
  }
  return whole_text(*source);
}

}  // namespace

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

std::vector<float> read_row(const VectorFile& file, std::int64_t row) {
  input::NpyHeader part = file.header;
  part.bytes = file.header.bytes / static_cast<std::uint64_t>(file.rows);
  part.offset += static_cast<std::uint64_t>(row) * part.bytes;
  return input::read_npy_floats(*file.source, part);
}

std::vector<QueryRequest> read_vectors(const std::string& path) {
  auto file = std::make_shared<VectorFile>();
  file->source = input::open_input(path);
  file->header = input::read_npy_header(*file->source);
  file->source->header_is_read();
  file->name = std::filesystem::path(without_secrets(path)).filename().string();
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

}  // namespace vindex::jobs
