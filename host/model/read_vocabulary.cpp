// Finds a model's vocabulary, and reads the one of a GGUF file from its keys.
#include <vindex/core/error.hpp>
#include <vindex/model/vocabulary.hpp>
#include <vindex/shard/open_store.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <filesystem>
#include <utility>

namespace vindex::model {

namespace {

constexpr std::uint64_t kMaxVocabularyBytes = 256U << 20U;
constexpr const char* kTokens = "tokenizer.ggml.tokens";

/// Numbers of a GGUF header of its own version and byte order, one after the other.
class KeyBytes {
 public:
  KeyBytes(shard::ByteSource& source, const gguf::Key& key) : bytes_(key.value_bytes) {
    std::uint32_t version = 0;
    source.read(4, std::as_writable_bytes(std::span(&version, 1)));
    reversed_ = (version & 0xFFFFU) == 0;
    short_ = (reversed_ ? __builtin_bswap32(version) : version) == 1;
    source.read(key.value_offset, bytes_);
  }

  std::uint64_t u32() { return number<std::uint32_t>(); }
  /// A count or a length: 32 bits in version 1.
  std::uint64_t length() { return short_ ? number<std::uint32_t>() : number<std::uint64_t>(); }
  std::string string() {
    const std::uint64_t bytes = length();
    require(bytes);
    std::string text(reinterpret_cast<const char*>(bytes_.data()) + at_,
                     static_cast<std::size_t>(bytes));
    at_ += static_cast<std::size_t>(bytes);
    return text;
  }
  std::size_t left() const { return bytes_.size() - at_; }

 private:
  void require(std::uint64_t bytes) const {
    if (bytes > left()) {
      throw FormatError("E-TOKENIZER", kTokens, "changed while it was read");
    }
  }

  template <typename Number>
  std::uint64_t number() {
    require(sizeof(Number));
    Number value = 0;
    std::memcpy(&value, bytes_.data() + at_, sizeof value);
    at_ += sizeof value;
    if (reversed_) {
      value = sizeof value == 4
                  ? static_cast<Number>(__builtin_bswap32(static_cast<std::uint32_t>(value)))
                  : static_cast<Number>(__builtin_bswap64(value));
    }
    return value;
  }

  std::vector<std::byte> bytes_;
  std::size_t at_ = 0;
  bool reversed_ = false, short_ = false;
};

/// How entries are spelt, by the model's name; by how most of them begin where it says nothing.
Spelling spelling_of(const std::vector<gguf::Key>& keys,
                     const std::vector<std::optional<std::string>>& entries) {
  const gguf::Key* key = gguf::find_key(keys, "tokenizer.ggml.model");
  const auto* model = key == nullptr ? nullptr : std::get_if<std::string>(&key->value);
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

std::optional<Vocabulary> read_keys(const shard::ModelFiles& files) {
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
  KeyBytes bytes(*files.shards.front().source, *key);
  (void)bytes.u32();  // the element type
  const std::uint64_t count = bytes.length();
  std::vector<std::optional<std::string>> entries;
  // An entry has a length at least, so a false count ends soon.
  entries.reserve(static_cast<std::size_t>(std::min<std::uint64_t>(count, bytes.left() / 4)));
  for (std::uint64_t i = 0; i < count; ++i) {
    entries.emplace_back(bytes.string());
  }
  const Spelling spelling = spelling_of(files.keys, entries);
  return Vocabulary(kTokens, spelling, std::move(entries));
}

Vocabulary read_json_file(const std::string& address) {
  const auto source = shard::open_input(address);
  if (source->size() > kMaxVocabularyBytes) {
    throw FormatError("E-TOKENIZER", source->name(),
                      fmt::format("{} bytes, more than a tokenizer.json can have ({})",
                                  source->size(), kMaxVocabularyBytes));
  }
  std::vector<char> text(static_cast<std::size_t>(source->size()));
  source->read(0, std::as_writable_bytes(std::span(text)));
  return parse_tokenizer_json(text, source->name());
}

}  // namespace

std::optional<Vocabulary> read_vocabulary(const shard::ModelFiles& files,
                                          const std::string& tokenizer) {
  if (!tokenizer.empty()) {
    return read_json_file(tokenizer);
  }
  if (auto keys = read_keys(files)) {
    return keys;
  }
  constexpr const char* kBeside = "tokenizer.json";
  if (files.store == nullptr ||
      files.store->state(kBeside).presence != shard::MemberState::Presence::kPresent) {
    return std::nullopt;
  }
  // As opened: within the cache of Hugging Face this is the snapshot, not the blob behind it.
  return read_json_file(
      (std::filesystem::path(files.shards.front().path).parent_path() / kBeside).string());
}

}  // namespace vindex::model
