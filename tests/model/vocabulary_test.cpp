// Entries of a vocabulary by their text, from tokenizer.json and from GGUF keys; hostile ones are
// refused by name.
#include "model/vocabulary/vocabulary.hpp"

#include "gguf/header.hpp"
#include "gguf/read_header.hpp"
#include "tests/support/expect_error.hpp"
#include "tests/support/gguf_builder.hpp"

#include <gtest/gtest.h>

#include <string>
#include <utility>
#include <vector>

namespace vindex::model::vocabulary_test {
namespace {

using vindex::model::Spelling;
using vindex::model::Vocabulary;
using Numbers = std::vector<std::int64_t>;

Vocabulary parsed(std::string text) {
  return vindex::model::parse_tokenizer_json(text, "tokenizer.json");
}

std::string error_of(const std::string& text) {
  return vindex::testing::error_of([&] { (void)parsed(text); }).substr(0, 11);
}

Vocabulary made(Spelling spelling, const std::vector<std::string>& texts) {
  std::vector<std::optional<std::string>> entries(texts.begin(), texts.end());
  return {"test", spelling, std::move(entries)};
}

TEST(ByteLevel, TurnsEveryByteAndBack) {
  std::string all;
  for (int byte = 0; byte < 256; ++byte) {
    all += static_cast<char>(byte);
  }
  const std::string spelt = vindex::model::to_byte_level(all);
  EXPECT_EQ(vindex::model::from_byte_level(spelt), all);
  // openai/gpt-2's own table: space, line feed, and the letters themselves.
  EXPECT_EQ(vindex::model::to_byte_level(" a\n"), "\u0120a\u010A");
  EXPECT_EQ(vindex::model::to_byte_level("\u00E9"), "\u00C3\u00A9");
  EXPECT_EQ(vindex::model::from_byte_level("\u2581"), std::nullopt);
  EXPECT_EQ(vindex::model::from_byte_level("\xFF"), std::nullopt);
}

TEST(Vocabulary, FindsAnEntryWithAndWithoutItsSpace) {
  const Vocabulary sentence = made(Spelling::kSpaceMark, {"\u2581the", "the", "\u2581Paris", "x"});
  EXPECT_EQ(sentence.find("Paris"), Numbers{2});
  EXPECT_EQ(sentence.find(" Paris"), Numbers{2});
  EXPECT_EQ(sentence.find("\u2581Paris"), Numbers{2});
  EXPECT_EQ(sentence.find("the"), (Numbers{0, 1}));
  EXPECT_EQ(sentence.find(" the"), Numbers{0});
  EXPECT_EQ(sentence.find(" x"), Numbers{});
  EXPECT_EQ(sentence.text(0), " the");

  const Vocabulary bytes = made(Spelling::kByteLevel, {"\u0120the", "\u00C3\u00A9", "the", "\u010A",
                                                       "<\uFF5Cend\u2581of\uFF5C>"});
  EXPECT_EQ(bytes.find(" the"), Numbers{0});
  EXPECT_EQ(bytes.find("\u0120the"), Numbers{0});  // as spelt, where no text is meant
  EXPECT_EQ(bytes.find("the"), (Numbers{0, 2}));
  EXPECT_EQ(bytes.find("\u00E9"), Numbers{1});
  EXPECT_EQ(bytes.find("\n"), Numbers{3});
  EXPECT_EQ(bytes.find("<\uFF5Cend\u2581of\uFF5C>"), Numbers{4});
  EXPECT_EQ(bytes.text(1), "\u00E9");
  EXPECT_EQ(bytes.text(4), "<\uFF5Cend\u2581of\uFF5C>");

  const Vocabulary pieces = made(Spelling::kContinuation, {"play", "##ing", "ing"});
  EXPECT_EQ(pieces.find("ing"), (Numbers{1, 2}));
  EXPECT_EQ(pieces.find("##ing"), Numbers{1});
  EXPECT_EQ(pieces.find("play"), Numbers{0});
}

TEST(Vocabulary, NamesWhatWasMeant) {
  const Vocabulary words =
      made(Spelling::kSpaceMark, {"\u2581London", "\u2581Paris", "\u2581Rome"});
  EXPECT_NE(words.guess("Pariss").find("Paris"), std::string::npos);
  EXPECT_EQ(words.guess("Pariss").find("London"), std::string::npos);
}

TEST(Vocabulary, RepeatedEntriesAreAllFound) {
  EXPECT_EQ(made(Spelling::kPlain, {"pad", "a", "pad"}).find("pad"), (Numbers{0, 2}));
}

TEST(TokenizerJson, ReadsTheModelsOfTheLibrary) {
  const Vocabulary bpe = parsed(
      R"({"version":"1.0","added_tokens":[{"id":3,"content":"<eos>","special":true}],)"
      R"("pre_tokenizer":{"type":"Sequence","pretokenizers":[{"type":"Split","pattern":{"Regex":"x"}},)"
      R"({"type":"ByteLevel","add_prefix_space":false}]},)"
      "\"model\":{\"type\":\"BPE\",\"vocab\":{\"a\":0,\"\u0120a\":1,\"b\\\"\":2},\"merges\":[\"a "
      "b\",[\"c\",\"d\"]]}}");
  EXPECT_EQ(bpe.spelling(), Spelling::kByteLevel);
  EXPECT_EQ(bpe.size(), 4);
  EXPECT_EQ(bpe.entry(2), "b\"");
  EXPECT_EQ(bpe.find("<eos>"), Numbers{3});
  EXPECT_EQ(bpe.find(" a"), Numbers{1});

  const Vocabulary mark = parsed(
      "{\"normalizer\":{\"type\":\"Replace\",\"pattern\":{\"String\":\" "
      "\"},\"content\":\"\u2581\"},"
      "\"model\":{\"vocab\":{\"\u2581a\":0},\"merges\":[]}}");
  EXPECT_EQ(mark.spelling(), Spelling::kSpaceMark);

  const Vocabulary unigram = parsed(
      "{\"model\":{\"type\":\"Unigram\",\"unk_id\":0,\"vocab\":[[\"<unk>\",0.0],[\"\u2581a\",-1.5]]"
      "}}");
  EXPECT_EQ(unigram.spelling(), Spelling::kSpaceMark);
  EXPECT_EQ(unigram.find("a"), Numbers{1});

  const Vocabulary word_piece =
      parsed(R"({"model":{"type":"WordPiece","vocab":{"play":0,"##ing":7}},"added_tokens":null})");
  EXPECT_EQ(word_piece.spelling(), Spelling::kContinuation);
  EXPECT_EQ(word_piece.size(), 8);
  EXPECT_EQ(word_piece.count(), 2);
  EXPECT_EQ(word_piece.entry(3), std::nullopt);
  EXPECT_EQ(word_piece.text(3), "");
}

TEST(TokenizerJson, AddedTokensGoBeforeTheModels) {
  const Vocabulary both = parsed(
      R"({"added_tokens":[{"id":0,"content":"<pad>"}],"model":{"type":"WordLevel","vocab":{"old":0,"a":1}}})");
  EXPECT_EQ(both.entry(0), "<pad>");
  EXPECT_EQ(both.find("old"), Numbers{});
}

TEST(TokenizerJson, RefusesWhatIsNoVocabulary) {
  EXPECT_EQ(error_of("{}"), "E-TOKENIZER");
  EXPECT_EQ(error_of(R"({"model":{"type":"BPE"}})"), "E-TOKENIZER");
  // A number that would make gigabytes of holes, one that two entries have, one below zero.
  EXPECT_EQ(error_of(R"({"model":{"vocab":{"a":4294967296}}})"), "E-TOKENIZER");
  EXPECT_EQ(error_of(R"({"added_tokens":[{"id":99999999999,"content":"a"}],"model":{"vocab":{}}})"),
            "E-TOKENIZER");
  EXPECT_EQ(error_of(R"({"model":{"vocab":{"a":1,"b":1}}})"), "E-TOKENIZER");
  EXPECT_EQ(error_of(R"({"added_tokens":[{"id":1}],"model":{"vocab":{}}})"), "E-TOKENIZER");
  EXPECT_EQ(error_of(R"({"model":{"vocab":[[]]}})"), "E-TOKENIZER");
  for (const char* text :
       {"", "[]", R"({"model":{"vocab":{"a":-1}}})", R"({"model":{"vocab":{"a":1.5}}})",
        R"({"model":{"vocab":{"a":0,"a":1}}})", R"({"model":{"vocab":"a"}})",
        R"({"model":{"vocab":{"a":0}}} x)", R"({"model":{"vocab":{"a":0})",
        R"({"model":{"vocab":[["a",0],"b"]}})"}) {
    EXPECT_EQ(error_of(text).substr(0, 7), "E-JSON-") << text;
  }
  std::string deep = R"({"decoder":)";
  for (int i = 0; i < 100; ++i) {
    deep += R"({"type":[)";
  }
  EXPECT_EQ(error_of(deep).substr(0, 7), "E-JSON-");
}

TEST(TokenizerJson, AnyCutOfItIsRefused) {
  const std::string whole =
      R"({"added_tokens":[{"id":1,"content":"<e>"}],"model":{"type":"BPE","vocab":{"a":0},"merges":[]}})";
  for (std::size_t bytes = 0; bytes < whole.size(); ++bytes) {
    EXPECT_EQ(error_of(whole.substr(0, bytes)).substr(0, 7), "E-JSON-") << bytes;
  }
  EXPECT_EQ(parsed(whole).count(), 2);
}

/// The files of a GGUF header in memory with these keys.
class GgufKeys {
 public:
  GgufKeys(vindex::testing::GgufBuilder& builder, const std::string& model,
           const std::vector<std::string>& tokens) {
    std::string array = builder.number(std::uint32_t{8}) + builder.length(tokens.size());
    for (const std::string& token : tokens) {
      array += builder.text(token);
    }
    builder.key_string("general.architecture", "llama");
    if (!model.empty()) {
      builder.key_string("tokenizer.ggml.model", model);
    }
    builder.key("tokenizer.ggml.tokens", 9, array);
    bytes_ = builder.bytes();
    vindex::input::Shard& shard = files.shards.emplace_back();
    shard.path = "no-folder/model.gguf";
    shard.source =
        vindex::input::make_memory_source("model.gguf", vindex::testing::bytes_of(bytes_));
    files.format = vindex::input::ContainerFormat::kGguf;
    vindex::gguf::Header header = vindex::gguf::read_header(*shard.source);
    files.keys = std::move(header.keys);
    files.gguf_version = header.version;
    files.gguf_big_endian = header.big_endian;
  }
  vindex::input::ModelFiles files;

 private:
  std::string bytes_;
};

TEST(GgufVocabulary, IsReadFromEveryVersionAndByteOrder) {
  for (const auto& [version, big_endian] :
       {std::pair(1U, false), std::pair(2U, false), std::pair(3U, false), std::pair(3U, true)}) {
    vindex::testing::GgufBuilder builder(version, big_endian);
    const GgufKeys keys(builder, "llama", {"<s>", "\u2581the", "", "he"});
    const auto vocabulary = vindex::model::read_vocabulary(keys.files);
    ASSERT_TRUE(vocabulary.has_value()) << version << big_endian;
    EXPECT_EQ(vocabulary->spelling(), Spelling::kSpaceMark);
    EXPECT_EQ(vocabulary->size(), 4);
    EXPECT_EQ(vocabulary->find("the"), Numbers{1});
  }
}

TEST(GgufVocabulary, IsSpeltAsItsModelSays) {
  const auto spelling_of = [](const std::string& model, const std::vector<std::string>& tokens) {
    vindex::testing::GgufBuilder builder;
    const GgufKeys keys(builder, model, tokens);
    return vindex::model::read_vocabulary(keys.files)->spelling();
  };
  EXPECT_EQ(spelling_of("gpt2", {"a"}), Spelling::kByteLevel);
  EXPECT_EQ(spelling_of("bert", {"a"}), Spelling::kSpaceMark);
  // Of a model without a name that is known, by what most entries begin with.
  EXPECT_EQ(spelling_of("new", {"\u0120a", "\u0120b", "\u2581c"}), Spelling::kByteLevel);
  EXPECT_EQ(spelling_of("", {"\u2581c"}), Spelling::kSpaceMark);
  EXPECT_EQ(spelling_of("", {"a"}), Spelling::kPlain);
}

TEST(GgufVocabulary, IsAbsentWhereNothingHasOne) {
  vindex::input::ModelFiles files;
  EXPECT_FALSE(vindex::model::read_vocabulary(files).has_value());
}

}  // namespace
}  // namespace vindex::model::vocabulary_test
