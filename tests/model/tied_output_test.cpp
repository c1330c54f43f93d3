// Output matrices that are stored although the configuration ties them to the embedding.
#include "model_fixture.hpp"

#include "model/transformer/features.hpp"

namespace vindex::model::tied_output_test {
namespace {

/// Two matrices of rows x 4 in one file: the embedding, and the output behind it, with equal bytes
/// of many values.
struct TiedModel {
  explicit TiedModel(std::int64_t rows = 9) : size(static_cast<std::size_t>(rows) * 8) {
    fixture.config("model_type", "gemma2");
    fixture.config("tie_word_embeddings", JsonValue::Storage(true));
    fixture.bf16("model.embed_tokens.weight", {rows, 4});
    fixture.bf16("lm_head.weight", {rows, 4});
    content.resize(1000 + 2 * size);
    for (std::size_t i = 0; i < 2 * size; ++i) {
      content[1000 + i] = static_cast<std::byte>((i % size) * 7 % 251);
    }
  }
  /// Matrices and warnings; `changed`: a byte of the output that differs.
  ModelIndex index(std::optional<std::size_t> changed = {},
                   TiedOutput tied = TiedOutput::kCompareAll) {
    std::vector<std::byte> bytes = content;
    if (changed) {
      bytes[1000 + size + *changed] ^= std::byte{1};
    }
    fixture.bytes(std::move(bytes));
    return fixture.index({.tied = tied});
  }

  ModelFixture fixture;
  std::size_t size;
  std::vector<std::byte> content;
};

std::vector<std::string> tensors(const ModelIndex& index) {
  std::vector<std::string> names;
  for (const MatrixRecord& matrix : index.matrices) {
    names.push_back(matrix.tensor);
  }
  return names;
}

const std::vector<std::string> kOne = {"model.embed_tokens.weight"};
const std::vector<std::string> kBoth = {"model.embed_tokens.weight", "lm_head.weight"};

TEST(TiedOutputTest, AnOutputWithTheBytesOfTheEmbeddingCountsOnce) {
  TiedModel model;
  const ModelIndex index = model.index();
  EXPECT_EQ(tensors(index), kOne);
  EXPECT_EQ(find_tensor(index, "lm_head.weight")->reason, "tied to model.embed_tokens.weight");
  ASSERT_EQ(warning_ids(index), std::vector<std::string>{"W-TIED"});
  EXPECT_NE(index.warnings[0].text.find("bytes are the same"), std::string::npos);
}

TEST(TiedOutputTest, AnOutputThatDiffersIsAMatrixOfItsOwn) {
  TiedModel model;
  for (const std::size_t changed : {std::size_t{0}, std::size_t{35}, std::size_t{71}}) {
    const ModelIndex index = model.index(changed);
    EXPECT_EQ(tensors(index), kBoth) << changed;
    EXPECT_TRUE(find_tensor(index, "lm_head.weight")->in_matrix);
    ASSERT_EQ(warning_ids(index), std::vector<std::string>{"W-TIED"});
    EXPECT_NE(index.warnings[0].text.find("differs"), std::string::npos);
    EXPECT_EQ(vocabulary_matrices(model.fixture.files(), index).output, 1);
  }
}

TEST(TiedOutputTest, AnotherEncodingIsAMatrixOfItsOwn) {
  TiedModel model;
  model.fixture.files().tensors[1].type = decode::ElementType::kF16;
  EXPECT_EQ(tensors(model.index()), kBoth);
}

TEST(TiedOutputTest, OneByteOfMegabytesIsFound) {
  TiedModel model(std::int64_t{5} << 18U);  // 10 MiB each: two tasks
  EXPECT_EQ(tensors(model.index()), kOne);
  for (const std::size_t changed : {std::size_t{9} << 20U, model.size - 1, std::size_t{3} << 20U}) {
    EXPECT_EQ(tensors(model.index(changed)), kBoth) << changed;
  }
}

TEST(TiedOutputTest, ReadersOfHeadersLookAtPlacesAndSaySo) {
  TiedModel model(std::int64_t{1} << 18U);  // 2 MiB, of which 16 times 64 KiB are looked at
  EXPECT_EQ(tensors(model.index(0, TiedOutput::kComparePlaces)), kBoth);
  EXPECT_EQ(tensors(model.index(model.size - 1, TiedOutput::kComparePlaces)), kBoth);
  const ModelIndex unseen = model.index(std::size_t{100} << 10U, TiedOutput::kComparePlaces);
  EXPECT_EQ(tensors(unseen), kOne);
  ASSERT_EQ(warning_ids(unseen), std::vector<std::string>{"W-TIED"});
  EXPECT_NE(unseen.warnings[0].text.find("at 16 places"), std::string::npos);
  EXPECT_EQ(tensors(model.index({}, TiedOutput::kKeep)), kBoth);
}

TEST(TiedOutputTest, WithoutTheKeyNothingIsCompared) {
  TiedModel model;
  model.fixture.config("tie_word_embeddings", JsonValue::Storage(false));
  const ModelIndex index = model.index();
  EXPECT_EQ(tensors(index), kBoth);
  EXPECT_TRUE(index.warnings.empty());
}

}  // namespace
}  // namespace vindex::model::tied_output_test
