// Edits of the ends of a model whose configuration ties them and that stores both.
#include "commands/edit/edit_model.hpp"
#include "tests/support/float_model.hpp"
#include "tests/support/npy_builder.hpp"
#include "tests/support/temporary_folder.hpp"

#include <gtest/gtest.h>

#include <filesystem>
#include <string>
#include <vector>

namespace vindex::edit::edit_tied_test {
namespace {

class EditTied : public ::testing::Test {
 protected:
  void SetUp() override {
    std::filesystem::create_directory(scratch_ / "model");
    const std::vector<float> same = testing::noise_tensor("", {12, 8}, 3).values;
    testing::write_safetensors(
        scratch_ / "model/model.safetensors",
        {{"lm_head.weight", {12, 8}, same}, {"model.embed_tokens.weight", {12, 8}, same}});
    scratch_.write("v.npy", testing::npy_array(std::vector<float>(8, 1.0F), {8}));
    tie("true");
  }
  void tie(const std::string& value) {
    scratch_.write("model/config.json",
                   R"({"model_type":"llama","tie_word_embeddings":)" + value + "}");
  }
  /// Warnings of a deletion from `tensor`.
  std::vector<Warning> warnings(const std::string& tensor) const {
    EditSettings settings;
    settings.model = scratch_ / "model";
    settings.tensor = tensor;
    settings.direction = parse_direction(scratch_ / "v.npy");
    settings.output = scratch_ / "edited";
    settings.replace = true;
    return edit_model(settings).warnings;
  }
  testing::TemporaryFolder scratch_;
};

TEST_F(EditTied, AnOutputThatStaysBesideAnEditedEmbeddingIsNamed) {
  const std::vector<Warning> found = warnings("model.embed_tokens.weight");
  ASSERT_EQ(found.size(), 1U);
  EXPECT_EQ(found[0].id, "W-TIED");
  EXPECT_NE(found[0].text.find("lm_head.weight is stored too"), std::string::npos);
}

TEST_F(EditTied, TheStoredOutputIsEditedByItsName) {
  EXPECT_TRUE(warnings("lm_head.weight").empty());
}

TEST_F(EditTied, WithoutTheTieNothingIsSaid) {
  tie("false");
  EXPECT_TRUE(warnings("model.embed_tokens.weight").empty());
}

}  // namespace
}  // namespace vindex::edit::edit_tied_test
