// Models of safetensors files: folders with and without an index, single files, configurations.
#include "input/model_files.hpp"
#include "input/open/open_model.hpp"
#include "tests/support/expect_error.hpp"
#include "tests/support/gguf_builder.hpp"
#include "tests/support/safetensors_builder.hpp"
#include "tests/support/temporary_folder.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <string>

namespace vindex::input::safetensors_model_test {
namespace {

namespace fs = std::filesystem;
using testing::braces;
using testing::safetensors_entry;
using testing::safetensors_file;
using testing::TemporaryFolder;

constexpr const char* kIndex = "model.safetensors.index.json";

/// A shard with one tensor of four bytes.
std::string shard_of(const std::string& tensor) {
  return safetensors_file(braces(safetensors_entry(tensor, "F32", "1", "0,4")), 4);
}

std::string index_of(const std::string& weight_map, const std::string& metadata = "8") {
  std::string text = R"({"metadata":{"total_size":)";
  return text.append(metadata).append("},\"weight_map\":{").append(weight_map).append("}}");
}

/// Two shards and their index.
void write_model(const TemporaryFolder& folder) {
  folder.write("a.safetensors", shard_of("x"));
  folder.write("b.safetensors", shard_of("y"));
  folder.write(kIndex, index_of(R"("x":"a.safetensors","y":"b.safetensors")"));
}

std::string error_of(const std::string& path) {
  const std::string error = testing::error_of([&] { open_model(path); });
  return error.substr(0, error.find(' '));
}

std::string message_of(const std::string& path) {
  return testing::message_of([&] { open_model(path); });
}

int exit_code_of(const std::string& path) {
  return static_cast<int>(testing::exit_code_of([&] { open_model(path); }));
}

std::string warnings_of(const std::string& path) {
  std::string ids;
  for (const Warning& warning : open_model(path).warnings) {
    ids += (ids.empty() ? "" : " ") + warning.id;
  }
  return ids;
}

TEST(SafetensorsModelTest, ShardsComeInNameOrderAndTensorsInShardOrder) {
  const TemporaryFolder folder;
  write_model(folder);
  folder.write(kIndex, index_of(R"("y":"b.safetensors","x":"a.safetensors")"));
  const ModelFiles model = open_model(folder.path());
  ASSERT_EQ(model.shards.size(), 2U);
  EXPECT_EQ(model.shards[0].file_name, "a.safetensors");
  EXPECT_EQ(model.tensors[0].name, "x");
  EXPECT_EQ(model.tensors[1].shard, 1);
  EXPECT_TRUE(model.warnings.empty());
  EXPECT_FALSE(model.config.has_value());
}

TEST(SafetensorsModelTest, AMappedFileThatIsAbsentIsMissingInput) {
  const TemporaryFolder folder;
  write_model(folder);
  fs::remove(folder / "b.safetensors");
  EXPECT_EQ(error_of(folder.path()), "E-SHARD-MISSING");
  EXPECT_EQ(exit_code_of(folder.path()), 66);
}

TEST(SafetensorsModelTest, ATensorInAnotherShardThanMappedIsRefused) {
  const TemporaryFolder folder;
  write_model(folder);
  folder.write(kIndex, index_of(R"("x":"b.safetensors","y":"a.safetensors")"));
  EXPECT_EQ(error_of(folder.path()), "E-INDEX-TENSOR");
  folder.write(kIndex, index_of(R"("x":"a.safetensors","y":"b.safetensors","z":"a.safetensors")"));
  EXPECT_EQ(error_of(folder.path()), "E-INDEX-TENSOR");
  EXPECT_EQ(exit_code_of(folder.path()), 65);
}

TEST(SafetensorsModelTest, ATensorInTwoShardsIsRefused) {
  const TemporaryFolder folder;
  write_model(folder);
  folder.write("b.safetensors",
               safetensors_file(braces(safetensors_entry("y", "F32", "1", "0,4") + "," +
                                       safetensors_entry("x", "F32", "1", "4,8")),
                                8));
  EXPECT_EQ(error_of(folder.path()), "E-TENSOR-TWICE");
}

TEST(SafetensorsModelTest, TotalSizesAndUnlistedTensorsAreWarnings) {
  const TemporaryFolder folder;
  write_model(folder);
  folder.write(kIndex, index_of(R"("x":"a.safetensors","y":"b.safetensors")", "9"));
  EXPECT_EQ(warnings_of(folder.path()), "W-INDEX-TOTAL-SIZE");
  folder.write(kIndex, index_of(R"("x":"a.safetensors","y":"b.safetensors")", "\"8\""));
  EXPECT_EQ(warnings_of(folder.path()), "W-INDEX-TOTAL-SIZE");
  folder.write(kIndex, R"({"weight_map":{"x":"a.safetensors","y":"b.safetensors"}})");
  EXPECT_EQ(warnings_of(folder.path()), "W-INDEX-TOTAL-SIZE");
  folder.write("b.safetensors",
               safetensors_file(braces(safetensors_entry("y", "F32", "1", "0,4") + "," +
                                       safetensors_entry("more", "F32", "1", "4,8")),
                                8));
  folder.write(kIndex, index_of(R"("x":"a.safetensors","y":"b.safetensors")", "12"));
  EXPECT_EQ(warnings_of(folder.path()), "W-INDEX-UNLISTED");
}

// transformers issue 47176, CVE-2024-27318 and others: file names that leave the folder.
TEST(SafetensorsModelTest, MappedNamesThatLeaveTheFolderAreRefusedCve2024_27318) {
  const TemporaryFolder folder;
  write_model(folder);
  folder.write("sub/a.safetensors", shard_of("x"));
  for (const char* name : {"../a.safetensors", "/etc/passwd", "sub/a.safetensors", "..", ".", "",
                           "./a.safetensors", "sub\\\\a.safetensors", "a.safetensors\\u0000"}) {
    std::string map = R"("y":"b.safetensors","x":")";
    folder.write(kIndex, index_of(map.append(name).append("\"")));
    EXPECT_EQ(error_of(folder.path()), "E-INDEX-PATH") << name;
    EXPECT_EQ(exit_code_of(folder.path()), 65) << name;
  }
}

TEST(SafetensorsModelTest, IndexesOfOtherForms) {
  const TemporaryFolder folder;
  write_model(folder);
  for (const char* text : {"{}", R"({"weight_map":{}})", R"({"weight_map":{"x":1}})",
                           R"({"weight_map":{"x":null}})"}) {
    folder.write(kIndex, text);
    EXPECT_EQ(error_of(folder.path()), "E-INDEX-FIELD") << text;
  }
  folder.write(kIndex, index_of(R"("x":"a.safetensors","x":"b.safetensors")"));
  EXPECT_EQ(error_of(folder.path()), "E-JSON-DUPLICATE-KEY");
  folder.write(kIndex, index_of(R"("x":"a.safetensors")", "-1"));
  EXPECT_EQ(error_of(folder.path()), "E-JSON-NUMBER");
  folder.write(kIndex, R"({"metadata":{"a":{"b":{"c":{}}}}})");
  EXPECT_EQ(error_of(folder.path()), "E-JSON-DEPTH");
  folder.write(kIndex, "\xEF\xBB\xBF{}");
  EXPECT_EQ(error_of(folder.path()), "E-JSON-BOM");
  folder.write(kIndex, "version https://git-lfs.github.com/spec/v1\noid sha256:00\nsize 1\n");
  EXPECT_EQ(error_of(folder.path()), "E-FILE-LFS-POINTER");
}

TEST(SafetensorsModelTest, AShardThatIsAPointerIsNamed) {
  const TemporaryFolder folder;
  write_model(folder);
  folder.write("b.safetensors", "version https://git-lfs.github.com/spec/v1\noid sha256:00\n");
  EXPECT_EQ(error_of(folder.path()), "E-FILE-LFS-POINTER");
  EXPECT_NE(message_of(folder.path()).find("b.safetensors"), std::string::npos);
}

TEST(SafetensorsModelTest, WithoutAnIndexOneFileIsAModelAndSeveralAreListed) {
  const TemporaryFolder folder;
  folder.write("model.safetensors", shard_of("x"));
  EXPECT_EQ(open_model(folder.path()).tensors.size(), 1U);
  folder.write("other.safetensors", shard_of("y"));
  const std::string message = message_of(folder.path());
  EXPECT_EQ(error_of(folder.path()), "E-FOLDER-SEVERAL");
  EXPECT_NE(message.find("model.safetensors, other.safetensors"), std::string::npos) << message;
  fs::remove(folder / "other.safetensors");
  folder.write("other.gguf", testing::small_gguf().bytes());
  EXPECT_EQ(error_of(folder.path()), "E-FOLDER-SEVERAL");
}

TEST(SafetensorsModelTest, ShardsWithoutAnIndexGoByTheirNamesIfComplete) {
  const TemporaryFolder folder;
  folder.write("model-00001-of-00002.safetensors", shard_of("x"));
  EXPECT_EQ(warnings_of(folder / "model-00001-of-00002.safetensors"), "W-SHARD-ALONE");
  folder.write("model-00002-of-00002.safetensors", shard_of("y"));
  EXPECT_EQ(warnings_of(folder.path()), "W-INDEX-MISSING");
  EXPECT_EQ(open_model(folder.path()).tensors.size(), 2U);
  folder.write("model-00002-of-00002.safetensors", shard_of("x"));
  EXPECT_EQ(error_of(folder.path()), "E-TENSOR-TWICE");
}

TEST(SafetensorsModelTest, ShardsOfAnIncompleteSetAreNoModel) {
  const TemporaryFolder folder;
  folder.write("model-00001-of-00003.safetensors", shard_of("x"));
  EXPECT_EQ(error_of(folder.path()), "E-SHARD-SET");
  folder.write("model-00003-of-00003.safetensors", shard_of("z"));
  EXPECT_EQ(error_of(folder.path()), "E-SHARD-SET");
  EXPECT_EQ(exit_code_of(folder.path()), 65);
  folder.write("other-00002-of-00003.safetensors", shard_of("y"));
  EXPECT_EQ(error_of(folder.path()), "E-FOLDER-SEVERAL");
}

TEST(SafetensorsModelTest, AShardNameOfMegabytesIsAShortMessage) {
  const TemporaryFolder folder;
  folder.write(kIndex, index_of("\"x\":\"" + std::string(20'000'000, '\x7f') + "\""));
  EXPECT_EQ(error_of(folder.path()), "E-SHARD-MISSING");
  EXPECT_EQ(exit_code_of(folder.path()), 66);
  EXPECT_LT(message_of(folder.path()).size(), 2000U);
}

TEST(SafetensorsModelTest, WhatIsThereAndCannotBeReadIsNotPassedOver) {
  const TemporaryFolder folder;
  folder.write("model.safetensors", shard_of("x"));
  fs::create_directory(folder / kIndex);
  EXPECT_EQ(error_of(folder.path()), "E-FILE-KIND");
  fs::remove(folder / kIndex);
  for (const char* name : {"config.json", "hf_quant_config.json"}) {
    fs::create_symlink("absent", folder / name);
    EXPECT_EQ(error_of(folder.path()), "E-SHARD-MISSING") << name;
    fs::remove(folder / name);
  }
  EXPECT_EQ(error_of(folder.path()), "none");
}

TEST(SafetensorsModelTest, AnIndexDecidesAndOtherFilesAreNamed) {
  const TemporaryFolder folder;
  write_model(folder);
  folder.write("consolidated.safetensors", shard_of("z"));
  folder.write("model-q8_0.gguf", testing::small_gguf().bytes());
  EXPECT_EQ(warnings_of(folder.path()), "W-FOLDER-OTHERS");
  folder.write("consolidated.safetensors.index.json", "{}");
  EXPECT_EQ(open_model(folder.path()).tensors.size(), 2U);
  fs::remove(folder / kIndex);
  folder.write("second.safetensors.index.json", "{}");
  EXPECT_EQ(error_of(folder.path()), "E-FOLDER-SEVERAL");
}

TEST(SafetensorsModelTest, FoldersWithoutAModel) {
  const TemporaryFolder folder;
  EXPECT_EQ(error_of(folder.path()), "E-FOLDER-EMPTY");
  EXPECT_EQ(exit_code_of(folder.path()), 66);
  folder.write("pytorch_model.bin", "PK");
  EXPECT_EQ(error_of(folder.path()), "E-FILE-PICKLE");
  EXPECT_EQ(exit_code_of(folder.path()), 65);
  EXPECT_EQ(error_of(folder / "absent"), "E-FILE-MISSING");
  folder.write("model.safetensors", safetensors_file("{}", 0));
  EXPECT_EQ(error_of(folder.path()), "E-NO-TENSORS");
  EXPECT_EQ(exit_code_of(folder.path()), 66);
}

TEST(ConfigTest, IsAnObjectOrOfNoUse) {
  const TemporaryFolder folder;
  folder.write("model.safetensors", shard_of("x"));
  for (const char* text : {"[]", "null", "1", "\"x\""}) {
    folder.write("config.json", text);
    EXPECT_EQ(warnings_of(folder.path()), "W-CONFIG-KIND") << text;
  }
}

TEST(ConfigTest, OfMoreValuesThanAnyModelHasTheBeginningIsUsedAndAllIsChecked) {
  const TemporaryFolder folder;
  folder.write("model.safetensors", shard_of("x"));
  std::string many = "{\"a\":[";
  for (int i = 0; i < 1'100'000; ++i) {
    many += "0,";
  }
  folder.write("config.json", many + R"(0],"b":1})");
  const ModelFiles model = open_model(folder.path());
  EXPECT_EQ(warnings_of(folder.path()), "W-CONFIG-LONG");
  EXPECT_EQ(model.config->find("a")->as_array()->size(), 999'998U);  // besides it and the root
  EXPECT_EQ(model.config->find("b"), nullptr);
  folder.write("config.json", many + R"(0],"b":1,"a":2})");
  EXPECT_EQ(error_of(folder.path()), "E-JSON-DUPLICATE-KEY");
}

TEST(ConfigTest, IsLookedForBesideThenByStemAndAnExplicitOneWins) {
  const TemporaryFolder folder;
  const std::string path = folder.write("m.safetensors", shard_of("x"));
  const auto from = [&](const ModelFiles& model) {
    return model.config ? *model.config->find("from")->as_string() : std::string("none");
  };
  EXPECT_EQ(from(open_model(path)), "none");
  folder.write("m.config.json", R"({"from":"stem"})");
  EXPECT_EQ(from(open_model(path)), "stem");
  folder.write("config.json", R"({"from":"beside"})");
  EXPECT_EQ(from(open_model(path)), "beside");
  EXPECT_EQ(from(open_model(folder.path())), "beside");
  const std::string given = folder.write("given", R"({"from":"given"})");
  EXPECT_EQ(from(open_model(path, {given})), "given");
  EXPECT_EQ(testing::error_of([&] { open_model(path, {folder / "absent"}); }), "E-FILE-MISSING");
}

TEST(ConfigTest, LimitsAndStrictness) {
  const TemporaryFolder folder;
  const std::string path = folder.write("m.safetensors", shard_of("x"));
  const auto error_with = [&](const std::string& config) {
    folder.write("config.json", config);
    return error_of(path);
  };
  EXPECT_EQ(error_with(std::string(16, '[') + std::string(16, ']')), "none");
  EXPECT_EQ(error_with(std::string(17, '[') + std::string(17, ']')), "E-JSON-DEPTH");
  EXPECT_EQ(error_with(R"({"a":1,"a":2})"), "E-JSON-DUPLICATE-KEY");
  EXPECT_EQ(error_with(R"({"rope_theta":-1.5e6,"eps":1e-06})"), "none");
  EXPECT_EQ(error_with(R"({"a":NaN,"time_step_limit":[0.0,Infinity],"b":-Infinity})"), "none");
  EXPECT_EQ(error_with(R"({"a":nan})"), "E-JSON-SYNTAX");
  EXPECT_EQ(error_with(R"({"a":1e999})"), "E-JSON-NUMBER");
  EXPECT_EQ(error_with(std::string((16U << 20U) + 1, ' ')), "E-JSON-SIZE");
  EXPECT_EQ(error_with("<html>"), "E-FILE-HTML");
  EXPECT_EQ(error_with(""), "E-FILE-EMPTY");
}

}  // namespace
}  // namespace vindex::input::safetensors_model_test
