// Owns a model's vocabulary: which text each row of its embedding stands for. Read from the keys of
// a GGUF file (tokenizer.ggml.model, tokenizer.ggml.tokens) or from tokenizer.json (Hugging Face
// tokenizers: BPE, Unigram, WordPiece, WordLevel; added_tokens). Nothing is tokenised here: an
// entry is found by its text or it is not.
#pragma once
#include "input/model_files.hpp"

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace vindex::model {

/// How entries are spelt in the file.
enum class Spelling : std::uint8_t {
  kPlain,         ///< as they are
  kSpaceMark,     ///< SentencePiece: U+2581 stands for a space, so "\u2581the" begins a word
  kByteLevel,     ///< GPT-2's alphabet: every byte is one printable character, U+0120 the space
  kContinuation,  ///< WordPiece: "##" begins what goes on with a word
};

/// Entries by number. Numbers without an entry are holes.
class Vocabulary {
 public:
  /// `source` names where it was read: "tokenizer.ggml.tokens", the path of tokenizer.json.
  Vocabulary(std::string source, Spelling spelling,
             std::vector<std::optional<std::string>> entries);

  const std::string& source() const { return source_; }
  Spelling spelling() const { return spelling_; }
  /// One more than the largest number.
  std::int64_t size() const { return static_cast<std::int64_t>(entries_.size()); }
  std::int64_t count() const { return static_cast<std::int64_t>(by_text_.size()); }

  /// As spelt in the file; nothing for a hole or beyond the end.
  std::optional<std::string_view> entry(std::int64_t number) const;
  /// What the entry stands for: marks are spaces, the byte-level alphabet bytes (which need not be
  /// whole characters). Empty for a hole.
  std::string text(std::int64_t number) const;

  /// Numbers of the entries that `text` may mean, ascending: the entry that stands for it and the
  /// one that does so behind a space (or, with kContinuation, within a word); for a text that
  /// itself begins with a space or a mark that one alone. Where there is none, entries spelt so.
  std::vector<std::int64_t> find(std::string_view text) const;
  /// "did you mean a, b or c?", or nothing.
  std::string guess(std::string_view text) const;

 private:
  void add_spelt(std::string_view spelt, std::vector<std::int64_t>& numbers) const;

  std::string source_;
  Spelling spelling_;
  std::vector<std::optional<std::string>> entries_;
  std::vector<std::int64_t> by_text_;  ///< numbers, by entry (bytewise), then ascending
};

/// `bytes` in GPT-2's alphabet (openai/gpt-2, encoder.py: bytes_to_unicode).
std::string to_byte_level(std::string_view bytes);
/// The other way; nothing where a character is not of the alphabet.
std::optional<std::string> from_byte_level(std::string_view text);

/// Reads `text`, the whole of a tokenizer.json (overwritten), called `where` in messages. Errors:
/// FormatError E-JSON-* or E-TOKENIZER.
Vocabulary parse_tokenizer_json(std::span<char> text, const std::string& where);

/// The vocabulary of the model: `tokenizer` (a tokenizer.json) where given, else the keys of a GGUF
/// file, else tokenizer.json beside the weights; nothing where there is none. Errors: FormatError
/// E-JSON-*, E-TOKENIZER (also beyond 256 MiB); MissingInputError where `tokenizer` is absent.
std::optional<Vocabulary> read_vocabulary(const input::ModelFiles& files,
                                          const std::string& tokenizer = "");

}  // namespace vindex::model
