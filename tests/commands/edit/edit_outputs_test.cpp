// Where edits write: no output over another one, none over what is read, however they are spelt.
#include "commands/edit/edit_model.hpp"
#include "tests/support/expect_error.hpp"
#include "tests/support/file_content.hpp"
#include "tests/support/float_model.hpp"
#include "tests/support/npy_builder.hpp"
#include "tests/support/temporary_folder.hpp"
#include <vindex/error.hpp>

#include <gtest/gtest.h>

#include <filesystem>
#include <string>
#include <utility>
#include <vector>

namespace vindex::edit::edit_outputs_test {
namespace {

namespace fs = std::filesystem;
using testing::file_text;
using testing::names_in;
using testing::TemporaryFolder;

const std::string kUp = "model.layers.0.mlp.up_proj.weight";

/// "ID CODE" of what an edit is refused with; empty.
std::string refusal(const EditSettings& settings) {
  return testing::outcome_of([&] { edit_model(settings); });
}

class EditOutputs : public ::testing::Test {
 protected:
  void SetUp() override {
    testing::write_safetensors(scratch_ / "m.safetensors",
                               {testing::noise_tensor(kUp, {12, 8}, 3)});
    fs::create_directory(scratch_ / "folder");
    fs::copy(scratch_ / "m.safetensors", scratch_ / "folder/model.safetensors");
    scratch_.write("folder/config.json", R"({"model_type":"llama"})");
    scratch_.write("v.npy", testing::npy_array(std::vector<float>(8, 1.0F), {8}));
    fs::create_directory(scratch_ / "there");
    fs::create_directory_symlink(scratch_ / "there", scratch_ / "link");
  }
  /// A deletion from the model that is one file, or from the folder.
  EditSettings deletion(const std::string& model) const {
    EditSettings settings;
    settings.model = scratch_ / model;
    settings.tensor = kUp;
    settings.direction = parse_direction(scratch_ / "v.npy");
    settings.replace = true;
    return settings;
  }
  TemporaryFolder scratch_;
};

TEST_F(EditOutputs, TwoOutputsOfOnePlaceAreRefused) {
  testing::write_safetensors(scratch_ / "there/old.safetensors",
                             {testing::noise_tensor("x", {2, 2}, 1)});
  fs::create_hard_link(scratch_ / "there/old.safetensors", scratch_ / "hard.safetensors");
  fs::create_symlink(scratch_ / "there/old.safetensors", scratch_ / "soft.safetensors");
  const std::string old = file_text(scratch_ / "there/old.safetensors");
  const std::vector<std::pair<std::string, std::string>> pairs = {
      {"o.safetensors", "o.safetensors"},
      {"o.safetensors", "./o.safetensors"},
      {"o.safetensors", "there/../o.safetensors"},
      {"there/o.safetensors", "link/o.safetensors"},
      {"there/old.safetensors", "hard.safetensors"},
      {"there/old.safetensors", "soft.safetensors"},
      {"hard.safetensors", "soft.safetensors"}};
  for (const auto& [first, second] : pairs) {
    const std::vector<std::string> before = names_in(scratch_.path());
    EditSettings settings = deletion("m.safetensors");
    settings.output = scratch_ / first;
    settings.save_patch = scratch_ / second;
    EXPECT_EQ(refusal(settings), "E-OUTPUT-KIND 64") << first << " " << second;
    settings.save_patch.clear();
    settings.report = scratch_ / second;
    EXPECT_EQ(refusal(settings), "E-OUTPUT-KIND 64") << first << " " << second;
    settings.output.clear();
    settings.save_patch = scratch_ / first;
    EXPECT_EQ(refusal(settings), "E-OUTPUT-KIND 64") << first << " " << second;
    EXPECT_EQ(names_in(scratch_.path()), before);
  }
  EXPECT_EQ(file_text(scratch_ / "there/old.safetensors"), old);
}

TEST_F(EditOutputs, AFolderHoldsTheModelAlone) {
  const std::vector<std::pair<std::string, std::string>> pairs = {
      {"new", "new/p.safetensors"},
      {"new/", "there/../new/model.safetensors"},
      {"there", "link/p.safetensors"},
      {"there", "link/inner/p.safetensors"}};
  for (const auto& [folder, inner] : pairs) {
    EditSettings settings = deletion("folder");
    settings.output = scratch_ / folder;
    settings.save_patch = scratch_ / inner;
    EXPECT_EQ(refusal(settings), "E-OUTPUT-KIND 64") << folder << " " << inner;
    settings.report = std::exchange(settings.save_patch, "");
    EXPECT_EQ(refusal(settings), "E-OUTPUT-KIND 64") << folder << " " << inner;
  }
  EditSettings settings = deletion("folder");
  settings.output = scratch_ / "new";
  settings.save_patch = scratch_ / "new.safetensors";
  EXPECT_EQ(refusal(settings), "");
}

TEST_F(EditOutputs, NothingThatIsReadIsWritten) {
  const std::string shard = scratch_ / "folder/model.safetensors";
  fs::create_hard_link(shard, scratch_ / "hard.safetensors");
  fs::create_symlink(shard, scratch_ / "soft.safetensors");
  fs::create_directory_symlink(scratch_ / "folder", scratch_ / "model");
  const std::string weights = file_text(shard);
  for (const std::string path :
       {"folder/model.safetensors", "folder/./model.safetensors", "model/model.safetensors",
        "hard.safetensors", "soft.safetensors"}) {
    EditSettings settings = deletion("folder");
    settings.save_patch = scratch_ / path;
    EXPECT_EQ(refusal(settings), "E-OUTPUT-SOURCE 73") << path;
    settings.report = std::exchange(settings.save_patch, "");
    EXPECT_EQ(refusal(settings), "E-OUTPUT-SOURCE 73") << path;
    settings = deletion("folder");
    settings.model = shard;
    settings.output = scratch_ / path;
    EXPECT_EQ(refusal(settings), "E-OUTPUT-SOURCE 73") << path;
  }
  EditSettings settings = deletion("folder");
  for (const std::string path : {"folder", "folder/", "model", "link/../folder"}) {
    settings.output = scratch_ / path;
    EXPECT_EQ(refusal(settings), "E-OUTPUT-SOURCE 73") << path;
  }
  settings.output.clear();
  for (const std::string path : {"v.npy", "folder/config.json", "there/../v.npy"}) {
    settings.report = scratch_ / path;
    settings.model_config = scratch_ / "folder/config.json";
    EXPECT_EQ(refusal(settings), "E-OUTPUT-SOURCE 73") << path;
  }
  EXPECT_EQ(file_text(shard), weights);
}

TEST_F(EditOutputs, AnAdapterThatIsReadStays) {
  EditSettings made = deletion("folder");
  made.as_lora = true;
  made.output = scratch_ / "lora";
  ASSERT_EQ(refusal(made), "");
  const std::string factors = file_text(scratch_ / "lora/adapter_model.safetensors");
  EditSettings settings;
  settings.kind = EditKind::kApply;
  settings.model = scratch_ / "folder";
  settings.patch = scratch_ / "lora";
  settings.replace = true;
  for (const std::string path : {"lora/adapter_model.safetensors", "lora/p.safetensors"}) {
    settings.save_patch = scratch_ / path;
    EXPECT_EQ(refusal(settings), "E-OUTPUT-SOURCE 73") << path;
  }
  EXPECT_EQ(file_text(scratch_ / "lora/adapter_model.safetensors"), factors);
  settings.save_patch = scratch_ / "p.safetensors";
  EXPECT_EQ(refusal(settings), "");
}

TEST_F(EditOutputs, AFileIsNoFolderBeforeTheWork) {
  EditSettings settings = deletion("folder");
  settings.output = scratch_.write("file", "text");
  EXPECT_EQ(refusal(settings), "E-OUTPUT-NOT-A-FOLDER 73");
  settings.output = scratch_ / "deep/er/edited";  // parents are made
  EXPECT_EQ(refusal(settings), "");
  EXPECT_EQ(names_in(scratch_ / "deep/er"), std::vector<std::string>{"edited"});
}

}  // namespace
}  // namespace vindex::edit::edit_outputs_test
