// Owns the parts of such a list: queries that were given, rows of a .npy file, lines of a text.
#include "query_list.hpp"

#include "core/files/byte_source.hpp"
#include "core/integers.hpp"
#include "core/json/json.hpp"
#include "core/text/secrets.hpp"
#include "input/npy/npy.hpp"
#include "input/stores/open_store.hpp"
#include <vindex/error.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <cstdint>
#include <filesystem>
#include <span>
#include <string_view>

namespace vindex::commands {

namespace {

using decode::ElementType;

constexpr std::uint64_t kMaxTextBytes = 64U << 20U;
constexpr std::size_t kMaxLines = 4'000'000;
constexpr std::int64_t kWidest = 1 << 24;           ///< of a vector
constexpr std::uint64_t kCheckedBytes = 1U << 20U;  ///< of rows that are read at a time

bool is_float(ElementType type) {
  return type == ElementType::kF16 || type == ElementType::kF32 || type == ElementType::kF64;
}

bool has_text(const QueryRequest& request) {
  const auto is_text = [](const auto& token) { return std::holds_alternative<TokenText>(token); };
  const auto* sequence = std::get_if<TokenSequence>(&request.what);
  return sequence == nullptr
             ? is_text(request.what)
             : std::any_of(sequence->tokens.begin(), sequence->tokens.end(), is_text);
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
    if (const std::string error = trouble_of(values); !error.empty()) {
      refuse("its vector " + error);
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

/// Neighbours in the list that are made alike.
class QueryList::Part {
 public:
  Part() = default;
  Part(const Part&) = delete;
  Part& operator=(const Part&) = delete;
  virtual ~Part() = default;
  virtual std::size_t size() const = 0;
  virtual QueryRequest at(std::size_t i) const = 0;
  virtual bool has_text() const = 0;
};

class QueryList::Given final : public Part {
 public:
  explicit Given(std::vector<QueryRequest> requests) : requests_(std::move(requests)) {}
  std::size_t size() const override { return requests_.size(); }
  QueryRequest at(std::size_t i) const override { return requests_[i]; }
  bool has_text() const override {
    return std::any_of(requests_.begin(), requests_.end(), commands::has_text);
  }

 private:
  std::vector<QueryRequest> requests_;
};

class QueryList::Rows final : public Part {
 public:
  explicit Rows(std::shared_ptr<const VectorFile> file) : file_(std::move(file)) {}
  std::size_t size() const override { return static_cast<std::size_t>(file_->rows); }
  QueryRequest at(std::size_t i) const override {
    return {.what = VectorRow{file_, static_cast<std::int64_t>(i)}};
  }
  bool has_text() const override { return false; }

 private:
  std::shared_ptr<const VectorFile> file_;
};

class QueryList::Lines final : public Part {
 public:
  /// Checks every line.
  Lines(const std::string& path, bool is_json)
      : path_(printable(path)), is_json_(is_json), text_(read_text(path)) {
    std::uint32_t number = 0;
    for (std::size_t begin = 0; begin < text_.size();) {
      const std::size_t end = std::min(text_.find('\n', begin), text_.size());
      ++number;
      if (!line_at(begin).empty()) {
        if (lines_.size() == kMaxLines) {
          throw FormatError("E-QUERY", path_,
                            fmt::format("more than {} queries in one file", kMaxLines));
        }
        lines_.push_back({static_cast<std::uint32_t>(begin), number});
        has_text_ = !is_json_ || commands::has_text(at(lines_.size() - 1)) || has_text_;
      }
      begin = end + 1;
    }
  }
  std::size_t size() const override { return lines_.size(); }
  QueryRequest at(std::size_t i) const override {
    std::string line(line_at(lines_[i].begin));
    std::string where = fmt::format("{}, line {}", path_, lines_[i].number);
    return is_json_ ? JsonLine(line, std::move(where)).take()
                    : QueryRequest{.what = TokenText{std::move(line)}, .where = std::move(where)};
  }
  bool has_text() const override { return has_text_; }

 private:
  struct Line {
    std::uint32_t begin, number;
  };
  std::string_view line_at(std::size_t begin) const {
    std::string_view line = std::string_view(text_).substr(begin);
    line = line.substr(0, line.find('\n'));
    if (line.ends_with('\r')) {
      line.remove_suffix(1);
    }
    return line;
  }

  std::string path_;
  bool is_json_;
  std::string text_;
  std::vector<Line> lines_;  ///< those that are not empty
  bool has_text_ = false;
};

QueryList::QueryList(std::shared_ptr<const Part> part) : size_(part->size()) {
  if (size_ > 0) {
    parts_.emplace_back(0, std::move(part));
  }
}

QueryList::QueryList(std::vector<QueryRequest> requests)
    : QueryList(std::shared_ptr<const Part>(std::make_shared<Given>(std::move(requests)))) {}

void QueryList::add(QueryList more) {
  for (auto& [first, part] : more.parts_) {
    parts_.emplace_back(size_ + first, std::move(part));
  }
  size_ += more.size_;
}

QueryRequest QueryList::operator[](std::size_t i) const {
  expects(i < size_, "QueryList: a query of it");
  const auto after =
      std::upper_bound(parts_.begin(), parts_.end(), i,
                       [](std::size_t wanted, const auto& part) { return wanted < part.first; });
  const auto& [first, part] = *(after - 1);
  return part->at(i - first);
}

bool QueryList::needs_vocabulary() const {
  return std::any_of(parts_.begin(), parts_.end(),
                     [](const auto& part) { return part.second->has_text(); });
}

QueryList read_vectors(const std::string& path) {
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
  const std::uint64_t row_bytes = file->header.bytes / static_cast<std::uint64_t>(file->rows);
  const auto step =
      static_cast<std::int64_t>(std::max<std::uint64_t>(1, kCheckedBytes / row_bytes));
  for (std::int64_t first = 0; first < file->rows; first += step) {
    const std::int64_t count = std::min(step, file->rows - first);
    const std::vector<float> values = read_rows(*file, first, count);
    for (std::int64_t i = 0; i < count; ++i) {
      const std::span<const float> row =
          std::span(values).subspan(as_size(i * file->width), as_size(file->width));
      if (const std::string error = trouble_of(row); !error.empty()) {
        throw FormatError("E-QUERY", file->source->name(),
                          fmt::format("row {} {}", first + i, error));
      }
    }
  }
  return QueryList(std::shared_ptr<const QueryList::Part>(std::make_shared<QueryList::Rows>(file)));
}

QueryList read_queries(const std::string& path) {
  const std::string extension = std::filesystem::path(path).extension().string();
  if (extension == ".npy") {
    return read_vectors(path);
  }
  QueryList queries(std::shared_ptr<const QueryList::Part>(
      std::make_shared<QueryList::Lines>(path, extension == ".jsonl" || extension == ".json")));
  if (queries.empty()) {
    throw UsageError("E-QUERY", printable(path) + ": no query in it");
  }
  return queries;
}

}  // namespace vindex::commands
