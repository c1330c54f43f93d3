// Manifests that somebody else wrote: nothing outside of the folder is read, and every lie is
// named.
#include "organ_fixture.hpp"

#include "organ/extract/extract.hpp"
#include "organ/opening/open_gguf.hpp"
#include "tests/support/expect_error.hpp"
#include "tests/support/file_content.hpp"
#include "tests/support/temporary_folder.hpp"

#include <gtest/gtest.h>

#include <filesystem>
#include <sys/stat.h>

namespace vindex::organ::manifest_hostile_test {
namespace {

using testing::error_of;
using testing::file_text;
using testing::TemporaryFolder;

class ManifestHostileTest : public ::testing::Test {
 protected:
  ManifestHostileTest() {
    ExtractSettings settings;
    settings.model = folder.write("m.gguf", small_llama(1, 1.0F, true).bytes());
    settings.output = folder / "organs";
    extract(settings);
    manifest = file_text(folder / "organs/manifest.json");
  }
  /// The error of opening the folder after `from` was replaced by `to` in its manifest, once.
  std::string with(const std::string& from, const std::string& to) {
    std::string text = manifest;
    const std::size_t at = text.find(from);
    EXPECT_NE(at, std::string::npos) << from;
    folder.write("organs/manifest.json", text.replace(at, from.size(), to));
    return error_of([&] { open_gguf(folder / "organs"); });
  }

  TemporaryFolder folder;
  std::string manifest;
};

TEST_F(ManifestHostileTest, PathsStayInTheFolder) {
  folder.write("secret.bin", file_text(folder / "organs/norm/output_norm.bin"));
  const std::string own = "\"norm/output_norm.bin\"";
  for (const std::string& path :
       {std::string("../secret.bin"), std::string("norm/../../secret.bin"), folder / "secret.bin",
        std::string(""), std::string("."), std::string("./norm/x")}) {
    EXPECT_EQ(with(own, "\"" + path + "\""), "E-ORGAN-PATH") << path;
  }
  std::filesystem::create_symlink("../secret.bin", folder / "organs/link.bin");
  EXPECT_EQ(with(own, "\"link.bin\""), "E-ORGAN-PATH");
  EXPECT_EQ(with(own, "\"norm/absent.bin\""), "E-FILE-MISSING");
  EXPECT_EQ(with(own, "\"norm/blk_0_attn_norm.bin\""), "E-ORGAN-FILE");
}

TEST_F(ManifestHostileTest, WhatIsNoManifestIsNamed) {
  EXPECT_EQ(with("organ-manifest/1", "organ-manifest/9"), "E-ORGAN-SCHEMA");
  EXPECT_EQ(with("\"tensors\": [", "\"tensors\": true, \"more\": ["), "E-ORGAN-MANIFEST");
  EXPECT_EQ(with("\"storage\": \"files\"", "\"storage\": \"cloud\""), "E-ORGAN-MANIFEST");
  EXPECT_EQ(with("\"tensors_total\": 11", "\"tensors_total\": 12"), "E-ORGAN-MANIFEST");
  EXPECT_EQ(with("\"tensors_total\": 11", "\"tensors_total\": -1"), "E-ORGAN-MANIFEST");
  EXPECT_EQ(with("\"tensors_total\": 11", "\"tensors_total\": 99999999999999999999999"),
            "E-ORGAN-MANIFEST");
  EXPECT_EQ(with("\"source_file\": 0", "\"source_file\": 18446744073709551615"),
            "E-ORGAN-MANIFEST");
  EXPECT_EQ(with("\"type\": \"F32\"", "\"type\": \"Q99\""), "E-ORGAN-MANIFEST");
  EXPECT_EQ(with("\"type\": \"F32\"", "\"type\": \"F16\""), "E-ORGAN-CHANGED");
  EXPECT_EQ(with("\"sha256\": \"", "\"sha256\": \"Z"), "E-ORGAN-MANIFEST");
  EXPECT_EQ(with("\"container\": \"gguf\"", "\"container\": \"safetensors\""),
            "E-ORGAN-SAFETENSORS");
}

TEST_F(ManifestHostileTest, KeysThatDoNotFitTheirTypeAreNamed) {
  const std::string count =
      "\"key\": \"llama.block_count\",\n   \"type\": \"u32\",\n   \"value\": 1";
  for (const char* wrong :
       {"\"key\": \"llama.block_count\", \"type\": \"u32\", \"value\": 4294967296",
        "\"key\": \"llama.block_count\", \"type\": \"u32\", \"value\": -1",
        "\"key\": \"llama.block_count\", \"type\": \"u32\", \"value\": 1.5",
        "\"key\": \"llama.block_count\", \"type\": \"i8\", \"value\": 128",
        "\"key\": \"llama.block_count\", \"type\": \"u33\", \"value\": 1",
        "\"key\": \"llama.block_count\", \"type\": \"str\", \"value\": 1",
        "\"key\": \"llama.block_count\", \"type\": \"bool\", \"value\": 2",
        "\"key\": \"llama.block_count\", \"type\": \"f32\", \"value\": 1e39",
        "\"key\": \"llama.block_count\", \"type\": \"f32\", \"value\": {\"bits\": \"0x1\"}",
        "\"key\": \"llama.block_count\", \"type\": \"arr\", \"subtype\": \"arr\", \"value\": []",
        "\"key\": \"llama.block_count\", \"type\": \"arr\", \"value\": [1]",
        "\"key\": \"llama.block_count\", \"type\": \"u32\""}) {
    EXPECT_EQ(with(count, wrong), "E-ORGAN-MANIFEST") << wrong;
  }
  EXPECT_EQ(with(count, "\"key\": \"general.architecture\", \"type\": \"u32\", \"value\": 1"),
            "E-GGUF-KEY");
  EXPECT_EQ(with(count, "\"key\": \"x\", \"type\": \"u32\", \"array_ref\": \"kv.gguf\""),
            "E-FILE-MISSING");
  EXPECT_EQ(with(count, "\"key\": \"llama.block_count\", \"type\": \"i64\", \"value\": -1"),
            "none");
}

TEST_F(ManifestHostileTest, CountsOfArraysAreThoseOfTheirElements) {
  const std::string count = "\"subtype\": \"i32\",\n   \"count\": 1,";
  EXPECT_EQ(with(count, "\"subtype\": \"i32\", \"count\": 1152921504606846976,"),
            "E-ORGAN-MANIFEST");
  EXPECT_EQ(with(count, "\"subtype\": \"i32\", \"count\": 0,"), "E-ORGAN-MANIFEST");
  EXPECT_EQ(with(count, "\"subtype\": \"i32\","), "E-ORGAN-MANIFEST");
  EXPECT_EQ(with(count, "\"subtype\": \"i32\", \"count\": 1,"), "none");
}

TEST_F(ManifestHostileTest, ADigestIsNotLostToItsSpelling) {
  EXPECT_EQ(with("\"sha256\": \"", "\"sha265\": \""), "E-ORGAN-MANIFEST");
}

TEST_F(ManifestHostileTest, AFolderWithoutItsManifestIsNoModel) {
  namespace fs = std::filesystem;
  // Long keys lie beside the manifest, in a file that looks like a model without tensors.
  folder.write("organs/kv.gguf", Canonical().bytes());
  const std::string path = folder / "organs/manifest.json";
  fs::remove(path);
  EXPECT_EQ(error_of([&] { open_gguf(folder / "organs"); }), "E-ORGAN-MANIFEST");
  ASSERT_EQ(::mkfifo(path.c_str(), 0600), 0);
  EXPECT_EQ(error_of([&] { open_gguf(folder / "organs"); }), "E-FILE-KIND");
  EXPECT_EQ(error_of([&] { open_gguf(path); }), "E-FILE-KIND");
  fs::remove(path);
  fs::create_directory(path);
  EXPECT_EQ(error_of([&] { open_gguf(folder / "organs"); }), "E-FILE-KIND");
}

TEST_F(ManifestHostileTest, WhatIsTooMuchIsRefused) {
  std::string values = "[0";
  for (int i = 0; i < 2000; ++i) {
    values += ",0";
  }
  EXPECT_EQ(with("\"ne\": [", "\"more\": " + values + "], \"ne\": [").substr(0, 12),
            "E-JSON-LIMIT");
}

TEST_F(ManifestHostileTest, EveryCutIsAnError) {
  for (std::size_t bytes = 0; bytes + 2 < manifest.size(); bytes += 97) {
    folder.write("organs/manifest.json", manifest.substr(0, bytes));
    EXPECT_NE(error_of([&] { open_gguf(folder / "organs"); }), "none") << bytes;
  }
}

}  // namespace
}  // namespace vindex::organ::manifest_hostile_test
