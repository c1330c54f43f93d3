// Owns finding a model's vocabulary, and reading that of a GGUF file from its keys.
#include "vocabulary.hpp"

#include "gguf/values/encoded_value.hpp"
#include "input/stores/open_store.hpp"
#include <vindex/error.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <utility>

namespace vindex::model {

namespace {

constexpr std::uint64_t kMaxVocabularyBytes = 256U << 20U;
constexpr const char* kTokens = "tokenizer.ggml.tokens";

/// How entries are spelt, by the model's name; by how most of them begin where it says nothing.
Spelling spelling_of(const std::vector<gguf::Key>& keys,
                     const std::vector<std::optional<std::string>>& entries) {
  const std::string* const model = gguf::find_text(keys, "tokenizer.ggml.model");
  if (model != nullptr && *model == "gpt2") {
    return Spelling::kByteLevel;
  }
  // "bert" entries were turned by the converter: what begins a word has the mark.
  if (model != nullptr && (*model == "llama" || *model == "bert" || *model == "t5")) {
    return Spelling::kSpaceMark;
  }
  const auto begin_with = [&](std::string_view mark) {
    return std::count_if(entries.begin(), entries.end(),
                         [&](const auto& entry) { return entry && entry->starts_with(mark); });
  };
  const auto marks = begin_with("\u2581");
  const auto bytes = begin_with("\u0120");
  return marks == 0 && bytes == 0 ? Spelling::kPlain
                                  : (bytes > marks ? Spelling::kByteLevel : Spelling::kSpaceMark);
}

std::optional<Vocabulary> read_keys(const input::ModelFiles& files) {
  const gguf::Key* key = gguf::find_key(files.keys, kTokens);
  if (key == nullptr || files.shards.empty()) {
    return std::nullopt;
  }
  const std::string& where = files.shards.front().source->name();
  if (key->type != gguf::ValueType::kArray || key->element_type != gguf::ValueType::kString) {
    throw FormatError("E-TOKENIZER", where, fmt::format("{} is not an array of strings", kTokens));
  }
  if (key->value_bytes > kMaxVocabularyBytes) {
    throw FormatError("E-TOKENIZER", where,
                      fmt::format("{} has {} bytes, more than a vocabulary can have ({})", kTokens,
                                  key->value_bytes, kMaxVocabularyBytes));
  }
  gguf::Header container;
  container.version = files.gguf_version;
  container.big_endian = files.gguf_big_endian;
  const auto value = gguf::encoded_value(*key, container, *files.shards.front().source);
  std::vector<std::optional<std::string>> entries;
  for (std::string& text : gguf::read_strings(gguf::read_array(value))) {
    entries.emplace_back(std::move(text));
  }
  const Spelling spelling = spelling_of(files.keys, entries);
  return Vocabulary(kTokens, spelling, std::move(entries));
}

Vocabulary read_json_file(ByteSource& source) {
  if (source.size() > kMaxVocabularyBytes) {
    throw FormatError("E-TOKENIZER", source.name(),
                      fmt::format("{} bytes, more than a tokenizer.json can have ({})",
                                  source.size(), kMaxVocabularyBytes));
  }
  std::vector<char> text(static_cast<std::size_t>(source.size()));
  source.read(0, std::as_writable_bytes(std::span(text)));
  return parse_tokenizer_json(text, source.name());
}

}  // namespace

std::optional<Vocabulary> read_vocabulary(const input::ModelFiles& files,
                                          const std::string& tokenizer) {
  if (!tokenizer.empty()) {
    return read_json_file(*input::open_input(tokenizer));
  }
  if (auto keys = read_keys(files)) {
    return keys;
  }
  constexpr const char* kBeside = "tokenizer.json";
  if (files.store == nullptr ||
      files.store->state(kBeside).presence != input::MemberState::Presence::kPresent) {
    return std::nullopt;
  }
  return read_json_file(*files.store->open(kBeside));
}

}  // namespace vindex::model
