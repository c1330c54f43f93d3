// Reads the vocabulary of a tokenizer.json, token by token: such files have 30 MB, most of it
// merges, which are passed over. Source: huggingface/tokenizers, the serialisation of Tokenizer and
// of its models.
#include "vocabulary.hpp"

#include "core/json/json_scanner.hpp"
#include <vindex/error.hpp>

#include <fmt/format.h>

#include <utility>

namespace vindex::model {

namespace {

/// No vocabulary comes near; a hostile number must not become gigabytes of holes.
constexpr std::uint64_t kMaxTokens = 1U << 24U;
constexpr std::size_t kMaxTokenizerBytes = 256U << 20U;
constexpr std::string_view kSentencePieceSpace = "\u2581";

using TokenList = std::vector<std::optional<std::string>>;

class Reader {
 public:
  Reader(std::span<char> text, const std::string& where)
      : scanner_(text, where, {.depth = 32, .bytes = kMaxTokenizerBytes}) {}

  Vocabulary read(const std::string& where) {
    scanner_.enter_object();
    while (const auto key = scanner_.next_key()) {
      if (*key == "added_tokens") {
        read_added();
      } else if (*key == "model") {
        read_model();
      } else if (*key == "pre_tokenizer" || *key == "decoder" || *key == "normalizer") {
        note_parts("");
      } else {
        scanner_.skip_value();
      }
    }
    scanner_.finish();
    if (!has_vocabulary_) {
      throw FormatError("E-TOKENIZER", where,
                        "no vocabulary in it: `model.vocab` of a tokenizer.json is needed");
    }
    // Tokens that were added go before the model's, as the library has it.
    for (auto& [number, content] : added_) {
      place(number, std::move(content), entries_);
    }
    return {where, spelling(), std::move(entries_)};
  }

 private:
  Spelling spelling() const {
    if (type_ == "WordPiece") {
      return Spelling::kContinuation;
    }
    if (is_byte_level_) {
      return Spelling::kByteLevel;
    }
    return has_mark_ || type_ == "Unigram" ? Spelling::kSpaceMark : Spelling::kPlain;
  }

  void place(std::uint64_t number, std::string entry, TokenList& entries) {
    if (number >= kMaxTokens) {
      scanner_.fail("E-TOKENIZER", fmt::format("entry {} has the number {}, more than a vocabulary "
                                               "can have ({})",
                                               excerpt(entry), number, kMaxTokens));
    }
    if (number >= entries.size()) {
      entries.resize(static_cast<std::size_t>(number) + 1);
    }
    entries[static_cast<std::size_t>(number)] = std::move(entry);
  }

  void read_added() {
    if (scanner_.peek() == JsonKind::kNull) {
      scanner_.null();
      return;
    }
    scanner_.enter_array();
    while (scanner_.next_element()) {
      std::optional<std::uint64_t> number;
      std::optional<std::string> content;
      scanner_.enter_object();
      while (const auto key = scanner_.next_key()) {
        if (*key == "id") {
          number = scanner_.unsigned_integer();
        } else if (*key == "content") {
          content = scanner_.string();
        } else {
          scanner_.skip_value();
        }
      }
      if (!number || !content) {
        scanner_.fail("E-TOKENIZER", "an added token without `id` or `content`");
      }
      added_.emplace_back(*number, std::move(*content));
    }
  }

  void read_model() {
    scanner_.enter_object();
    while (const auto key = scanner_.next_key()) {
      if (*key == "type" && scanner_.peek() == JsonKind::kString) {
        type_ = scanner_.string();
      } else if (*key == "vocab") {
        read_entries();
      } else {
        scanner_.skip_value();
      }
    }
  }

  /// {entry: number} of BPE, WordPiece and WordLevel, or [[entry, score]] of Unigram.
  void read_entries() {
    has_vocabulary_ = true;
    if (scanner_.peek() == JsonKind::kObject) {
      scanner_.enter_object();
      while (const auto key = scanner_.next_key()) {
        std::string entry(*key);
        const std::uint64_t number = scanner_.unsigned_integer();
        if (number < entries_.size() && entries_[static_cast<std::size_t>(number)]) {
          scanner_.fail("E-TOKENIZER",
                        fmt::format("entries {} and {} have one number, {}",
                                    excerpt(*entries_[static_cast<std::size_t>(number)]),
                                    excerpt(entry), number));
        }
        place(number, std::move(entry), entries_);
      }
      return;
    }
    type_ = type_.empty() ? "Unigram" : type_;
    scanner_.enter_array();
    for (std::uint64_t number = 0; scanner_.next_element(); ++number) {
      scanner_.enter_array();
      if (!scanner_.next_element()) {
        scanner_.fail("E-TOKENIZER", "an entry of the vocabulary without its text");
      }
      place(number, std::string(scanner_.string()), entries_);
      while (scanner_.next_element()) {
        scanner_.skip_value();
      }
    }
  }

  /// Looks for what says how entries are spelt, at any depth. The scanner bounds the depth.
  void note_parts(std::string_view of_key) {  // NOLINT(misc-no-recursion)
    switch (scanner_.peek()) {
      case JsonKind::kString: {
        const std::string_view text = scanner_.string();
        is_byte_level_ = is_byte_level_ || (of_key == "type" && text == "ByteLevel");
        has_mark_ =
            has_mark_ || (of_key == "type" && text == "Metaspace") || text == kSentencePieceSpace;
        break;
      }
      case JsonKind::kObject:
        scanner_.enter_object();
        while (const auto key = scanner_.next_key()) {
          note_parts(std::string(*key));
        }
        break;
      case JsonKind::kArray:
        scanner_.enter_array();
        while (scanner_.next_element()) {
          note_parts("");
        }
        break;
      default:
        scanner_.skip_value();
    }
  }

  JsonScanner scanner_;
  std::string type_;
  bool has_vocabulary_ = false, is_byte_level_ = false, has_mark_ = false;
  TokenList entries_;
  std::vector<std::pair<std::uint64_t, std::string>> added_;
};

}  // namespace

Vocabulary parse_tokenizer_json(std::span<char> text, const std::string& where) {
  return Reader(text, where).read(where);
}

}  // namespace vindex::model
