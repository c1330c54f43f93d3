// Models written again with nothing changed: the same bytes where the source is as its own library
// writes it, else the same model in that form.
#include "model_folders.hpp"

#include "input/model_store.hpp"
#include "input/stores/open_store.hpp"
#include "synth/make_model.hpp"
#include "tests/support/gguf_builder.hpp"
#include "tests/support/safetensors_builder.hpp"
#include "tests/support/temporary_folder.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <string>
#include <vector>

namespace vindex::write::rewrite_same_test {
namespace {

namespace fs = std::filesystem;
using vindex::testing::GgufBuilder;
using vindex::testing::TemporaryFolder;

/// Whether `text`, a file of this name, comes out as it went in; `wanted`, where given, is what
/// else it must become.
void expect_becomes(const std::string& name, const std::string& text, const std::string& wanted) {
  const TemporaryFolder scratch;
  copy_model(scratch.write(name, text), scratch / "out");
  EXPECT_TRUE(file_text(scratch / "out") == wanted) << name;
}

TEST(RewriteSame, SynthesisedModelsOfEveryLayout) {
  for (const char* spec :
       {"kimi-k2-mini", "kimi-k2-mini-int4", "kimi-k2-mini-bf16", "layer:2x96x160:fp8"}) {
    const TemporaryFolder scratch;
    synth::make_model(spec, 3, scratch / "a");
    const RewriteReport report = copy_model(scratch / "a", scratch / "b");
    EXPECT_TRUE(folder_content(scratch / "a") == folder_content(scratch / "b")) << spec;
    EXPECT_EQ(report.files.size(), folder_content(scratch / "a").size()) << spec;
  }
}

TEST(RewriteSame, OneGgufFileAsFileAndAsFolder) {
  const TemporaryFolder scratch;
  synth::make_model("kimi-k2-mini-q8_0", 3, scratch / "a");
  copy_model(scratch / "a", scratch / "b");
  EXPECT_TRUE(folder_content(scratch / "a") == folder_content(scratch / "b"));
  copy_model(scratch / "a/kimi-k2-mini-Q8_0.gguf", scratch / "c.gguf");
  EXPECT_TRUE(file_text(scratch / "c.gguf") == file_text(scratch / "a/kimi-k2-mini-Q8_0.gguf"));
}

TEST(RewriteSame, GgufFilesInTheForm) {
  expect_becomes("small.gguf", vindex::testing::small_gguf().bytes(),
                 vindex::testing::small_gguf().bytes());
  for (const std::uint32_t alignment : {1U, 8U, 64U, 4096U}) {
    GgufBuilder builder;
    builder.alignment = alignment;
    builder.key_string("general.architecture", "llama").key_u32("general.alignment", alignment);
    builder.tensor("scalar", {}, 0, 0);
    const std::uint64_t second = (4 + alignment - 1) / alignment * alignment;
    builder.tensor("none", {0, 3}, 0, second).tensor("w", {4}, 0, second);
    builder.data = std::string(4, 's') + std::string(second - 4, '\0') + std::string(16, 'w');
    builder.data.resize((builder.data.size() + alignment - 1) / alignment * alignment, '\0');
    expect_becomes("aligned.gguf", builder.bytes(), builder.bytes());
  }
}

TEST(RewriteSame, GgufFilesOfAnotherFormBecomeTheForm) {
  const std::string form = vindex::testing::small_gguf().bytes();
  for (const auto& [version, big_endian] :
       std::vector<std::pair<std::uint32_t, bool>>{{1, false}, {2, false}}) {
    expect_becomes("old.gguf", vindex::testing::small_gguf(version, big_endian).bytes(), form);
  }
  GgufBuilder trailing = vindex::testing::small_gguf();
  trailing.data += "bytes after the last tensor";
  expect_becomes("trailing.gguf", trailing.bytes(), form);
  GgufBuilder cut = vindex::testing::small_gguf();
  cut.data.resize(68);
  expect_becomes("cut.gguf", cut.bytes(), form);
  GgufBuilder dirty = vindex::testing::small_gguf();
  dirty.data.back() = 'x';
  expect_becomes("dirty.gguf", dirty.bytes(), form);
  const auto with_offsets = [](std::uint64_t a, std::uint64_t b, const std::string& data) {
    GgufBuilder builder;
    builder.key_string("general.architecture", "llama").key_u32("llama.block_count", 1);
    builder.tensor("a.weight", {4, 2}, 0, a).tensor("b.weight", {64}, 2, b);
    builder.data = data;
    return builder.bytes();
  };
  expect_becomes("gap.gguf",
                 with_offsets(0, 96,
                              std::string(32, 'a') + std::string(64, '\0') + std::string(36, 'b') +
                                  std::string(28, '\0')),
                 form);
  expect_becomes(
      "order.gguf",
      with_offsets(64, 0, std::string(36, 'b') + std::string(28, '\0') + std::string(32, 'a')),
      form);
}

TEST(RewriteSame, ABigEndianFileBecomesLittleEndian) {
  const TemporaryFolder scratch;
  const std::string source = scratch.write("be.gguf", vindex::testing::small_gguf(3, true).bytes());
  copy_model(source, scratch / "le.gguf");
  EXPECT_EQ(file_text(scratch / "le.gguf").substr(4, 4), std::string("\3\0\0\0", 4));
  EXPECT_EQ(tensor_content(source), tensor_content(scratch / "le.gguf"));
  copy_model(scratch / "le.gguf", scratch / "again.gguf");
  EXPECT_TRUE(file_text(scratch / "le.gguf") == file_text(scratch / "again.gguf"));
}

TEST(RewriteSame, SplitSetsKeepTheirKeysAndTheirEmptyFirstFile) {
  const TemporaryFolder scratch;
  const auto split = [&](std::uint16_t number) {
    GgufBuilder builder;
    if (number == 0) {
      builder.key_string("general.architecture", "llama");
    }
    builder.key_u16("split.no", number).key_u16("split.count", 3).key_i32("split.tensors.count", 2);
    if (number > 0) {
      builder.tensor("t" + std::to_string(number), {8}, 0, 0);
      builder.data = std::string(32, static_cast<char>('0' + number));
    }
    return builder.bytes();
  };
  for (std::uint16_t i = 0; i < 3; ++i) {
    scratch.write("m/x-0000" + std::to_string(i + 1) + "-of-00003.gguf", split(i));
  }
  copy_model(scratch / "m", scratch / "folder");
  EXPECT_TRUE(folder_content(scratch / "folder") == folder_content(scratch / "m"));
  // Given by one of its files it is a set all the same.
  copy_model(scratch / "m/x-00002-of-00003.gguf", scratch / "set");
  EXPECT_TRUE(folder_content(scratch / "set") == folder_content(scratch / "m"));
}

TEST(RewriteSame, SafetensorsInTheForm) {
  const auto entry = vindex::testing::safetensors_entry;
  // The keys of metadata in no order, names beyond ASCII, types whose order is the given one.
  std::string header = vindex::testing::braces(
      R"("__metadata__":{"z":"\"1\"\n","a":"","format":"pt"},)" +
      entry("b\xC3\xA9", "BF16", "2,1", "0,4") + "," + entry("none", "F32", "0,7", "4,4") + "," +
      entry("a", "F64", "", "4,12"));
  header.resize((header.size() + 7) / 8 * 8, ' ');
  const std::string text = vindex::testing::safetensors_file(header, 12);
  expect_becomes("m.safetensors", text, text);
}

TEST(RewriteSame, SafetensorsOfAnotherFormBecomeTheForm) {
  const auto entry = vindex::testing::safetensors_entry;
  const std::string a = entry("a", "F32", "2,2", "0,16");
  const std::string b = entry("b", "BF16", "4", "16,24");
  const std::string metadata = R"("__metadata__":{"k":"v"})";
  std::string form = vindex::testing::braces(metadata + "," + a + "," + b);
  form.resize((form.size() + 7) / 8 * 8, ' ');
  form = vindex::testing::safetensors_file(form, 24);
  for (const std::string& other :
       {metadata + "," + a + "," + b, b + "," + metadata + "," + a,
        R"( "\u0061" : {"shape":[2, 2],"dtype":"F32","data_offsets":[0,16]},)" + b + "," +
            metadata}) {
    expect_becomes("m.safetensors",
                   vindex::testing::safetensors_file(vindex::testing::braces(other), 24), form);
  }
}

TEST(RewriteSame, WhatLiesBesideTheWeightsIsCopied) {
  const TemporaryFolder scratch;
  synth::make_model("layer:2x64x64:bf16", 0, scratch / "a");
  for (const char* name :
       {"tokenizer.json", "tokenizer.model", "README.md", "LICENSE", "chat_template.jinja"}) {
    scratch.write(std::string("a/") + name, name);
  }
  for (const char* name : {".gitattributes", "pytorch_model.bin", "pytorch_model.bin.index.json",
                           "tf_model.h5", "onnx/model.onnx"}) {
    scratch.write(std::string("a/") + name, name);
  }
  copy_model(scratch / "a", scratch / "b");
  std::vector<std::string> names;
  for (const auto& [name, text] : folder_content(scratch / "b")) {
    names.push_back(name);
    EXPECT_TRUE(text == file_text(scratch / ("a/" + name))) << name;
  }
  EXPECT_EQ(names, (std::vector<std::string>{"LICENSE", "README.md", "chat_template.jinja",
                                             "config.json", "model.safetensors", "tokenizer.json",
                                             "tokenizer.model", "truth.json"}));
}

TEST(RewriteSame, AModelFromAStoreTakesWhatLiesBesideItFromThere) {
  const TemporaryFolder scratch;
  synth::make_model("kimi-k2-mini-int4", 1, scratch / "a");
  scratch.write("a/tokenizer.json", "{}");
  const auto wanted = folder_content(scratch / "a");
  fs::create_directory_symlink(scratch.path(), scratch / "a/linked");
  fs::create_symlink(scratch / "nothing", scratch / "a/dangling.txt");
  const auto store = input::make_prefetching_store(input::open_store(scratch / "a"));
  const input::ModelFiles model = input::open_model(store);
  rewrite_model(model, scratch / "b");
  EXPECT_TRUE(folder_content(scratch / "b") == wanted);
}

class RealModels : public ::testing::Test {
 protected:
  void SetUp() override {
    if (!fs::exists(kData + "/gguf")) {
      GTEST_SKIP() << "no models in " << kData;
    }
  }
  const std::string kData = VINDEX_SHARED_DATA;
};

TEST_F(RealModels, ContainersOfOtherProgramsComeOutAsTheyWentIn) {
  std::vector<std::string> sources = {
      kData + "/gguf/full/kjv-moe-Q4_K_M.gguf", kData + "/gguf/full/stories260K-Q4_K_M.gguf",
      kData + "/moe/kjv-moe-7.6M-BF16.gguf", kData + "/stories260k/stories260K.gguf",
      kData + "/silero/silero_vad_16k.safetensors"};
  for (const char* folder : {"/gguf/conformance", "/st_quant"}) {
    for (const auto& entry : fs::directory_iterator(kData + folder)) {
      const std::string path = entry.path();
      if (path.ends_with(".gguf") || path.ends_with(".safetensors")) {
        sources.push_back(path);
      }
    }
  }
  ASSERT_GT(sources.size(), 60U);
  for (const std::string& source : sources) {
    const TemporaryFolder scratch;
    copy_model(source, scratch / "out");
    EXPECT_TRUE(file_text(scratch / "out") == file_text(source)) << source;
  }
}

TEST_F(RealModels, FoldersOfShardsAndSplitsComeOutAsTheyWentIn) {
  for (const char* folder : {"/moe", "/gguf/split"}) {
    const TemporaryFolder scratch;
    copy_model(kData + folder, scratch / "out");
    auto wanted = folder_content(kData + folder);
    wanted.erase("kjv-moe-7.6M-BF16.gguf");  // another model's weights
    EXPECT_TRUE(folder_content(scratch / "out") == wanted) << folder;
  }
}

TEST_F(RealModels, OldContainersBecomeTheForm) {
  for (const char* name : {"q4_0.v1.gguf", "q4_0.v2.gguf", "q4_K.be.gguf", "mxfp4.be.gguf"}) {
    const TemporaryFolder scratch;
    const std::string source = kData + "/gguf/variants/" + name;
    copy_model(source, scratch / "out");
    EXPECT_EQ(file_text(scratch / "out").substr(4, 4), std::string("\3\0\0\0", 4)) << name;
    EXPECT_EQ(tensor_content(source), tensor_content(scratch / "out")) << name;
  }
}

}  // namespace
}  // namespace vindex::write::rewrite_same_test
