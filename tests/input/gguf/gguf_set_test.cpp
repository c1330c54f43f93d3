// GGUF models: single files, split sets, folders.
#include "input/gguf/gguf_set.hpp"

#include "input/model_files.hpp"
#include "input/open/open_model.hpp"
#include "tests/support/expect_error.hpp"
#include "tests/support/gguf_builder.hpp"
#include "tests/support/temporary_folder.hpp"

#include <gtest/gtest.h>

#include <filesystem>
#include <functional>
#include <string>
#include <vector>

namespace vindex::input::gguf_set_test {
namespace {

namespace fs = std::filesystem;
using testing::gguf_string;
using testing::GgufBuilder;
using testing::small_gguf;
using testing::TemporaryFolder;

/// One file of a set: `number` from 0; holds the named tensors of 32 bytes each.
std::string split(std::uint16_t number, std::uint16_t count, std::int32_t total,
                  const std::vector<std::string>& tensors) {
  GgufBuilder builder;
  builder.key_u16("split.no", number).key_u16("split.count", count);
  builder.key_i32("split.tensors.count", total);
  if (number == 0) {
    builder.key_string("general.architecture", "llama");
  }
  for (std::size_t i = 0; i < tensors.size(); ++i) {
    builder.tensor(tensors[i], {32}, 24, 32 * i);
  }
  builder.data = std::string(32 * tensors.size(), '\0');
  return builder.bytes();
}

std::string name_of(int number, int count) {
  return "m-0000" + std::to_string(number) + "-of-0000" + std::to_string(count) + ".gguf";
}

/// Three files, the first without tensors.
void write_set(const TemporaryFolder& folder) {
  folder.write(name_of(1, 3), split(0, 3, 3, {}));
  folder.write(name_of(2, 3), split(1, 3, 3, {"a", "b"}));
  folder.write(name_of(3, 3), split(2, 3, 3, {"c"}));
}

std::string error_of(const std::string& path) {
  const std::string error = testing::error_of([&] { open_model(path); });
  return error.substr(0, error.find(' '));
}

std::string message_of(const std::string& path, const OpenOptions& options = {}) {
  try {
    open_model(path, options);
  } catch (const Error& error) {
    return error.what();
  }
  return "none";
}

int exit_code_of(const std::string& path) {
  try {
    open_model(path);
  } catch (const Error& error) {
    return static_cast<int>(error.exit_code());
  }
  return 0;
}

std::string warnings_of(const std::string& path) {
  std::string ids;
  for (const Warning& warning : open_model(path).warnings) {
    ids += (ids.empty() ? "" : " ") + warning.id;
  }
  return ids;
}

TEST(SplitNameTest, IsPrefixNumberAndCount) {
  const auto name = parse_split_name("big-model-00002-of-00010.gguf");
  ASSERT_TRUE(name.has_value());
  EXPECT_EQ(name->prefix, "big-model");
  EXPECT_EQ(name->number, 2U);
  EXPECT_EQ(name->count, 10U);
  EXPECT_EQ(name->file_name(10), "big-model-00010-of-00010.gguf");
  for (const char* other :
       {"m.gguf", "m-00000-of-00002.gguf", "m-00003-of-00002.gguf", "m-0001-of-0002.gguf",
        "m-00001-of-00002.bin", "-00001-of-00002.gguf", "m_00001-of-00002.gguf",
        "m-0x001-of-00002.gguf", "m-00001-of-0000a.gguf", "m-000001-of-00002.gguf", ""}) {
    EXPECT_FALSE(parse_split_name(other).has_value()) << other;
  }
}

TEST(GgufModelTest, ShapesAreOutermostFirst) {
  const TemporaryFolder folder;
  const ModelFiles model = open_model(folder.write("m.gguf", small_gguf().bytes()));
  EXPECT_EQ(model.format, ContainerFormat::kGguf);
  EXPECT_EQ(model.tensors[0].shape, (std::vector<std::int64_t>{2, 4}));
  EXPECT_EQ(model.keys.size(), 2U);
  EXPECT_EQ(model.shards[0].file_name, "m.gguf");
}

TEST(GgufModelTest, TensorsComeInFileOffsetOrder) {
  GgufBuilder builder;
  builder.tensor("late", {32}, 24, 32).tensor("early", {32}, 24, 0);
  builder.data = std::string(64, '\0');
  const TemporaryFolder folder;
  EXPECT_EQ(open_model(folder.write("m.gguf", builder.bytes())).tensors[0].name, "early");
}

TEST(GgufModelTest, AnyFileOfASetFindsTheRest) {
  const TemporaryFolder folder;
  write_set(folder);
  for (const std::string& path :
       {folder / name_of(1, 3), folder / name_of(3, 3), folder.path().string()}) {
    const ModelFiles model = open_model(path);
    ASSERT_EQ(model.shards.size(), 3U);
    ASSERT_EQ(model.tensors.size(), 3U);
    EXPECT_EQ(model.tensors[0].shard, 1);
    EXPECT_EQ(model.tensors[2].name, "c");
    EXPECT_NE(find_key(model.keys, "general.architecture"), nullptr);
    EXPECT_TRUE(model.warnings.empty());
  }
}

TEST(GgufModelTest, AFirstFileWithoutMatricesIsReadAsTheOthersOfItsSet) {
  for (const bool with_norm : {false, true}) {
    const TemporaryFolder folder;
    GgufBuilder first;
    first.key_string("general.architecture", "llama");
    first.key_u16("split.no", 0)
        .key_u16("split.count", 2)
        .key_i32("split.tensors.count", with_norm ? 2 : 1);
    if (with_norm) {
      first.tensor("norm", {8}, 0, 0);
      first.data = std::string(32, '\0');
    }
    folder.write(name_of(1, 2), first.bytes());
    folder.write(name_of(2, 2), split(1, 2, with_norm ? 2 : 1, {"a"}));
    const std::string path = folder / name_of(1, 2);
    OpenOptions for_matrices;
    for_matrices.for_matrices = true;
    const ModelFiles all = open_model(path), measured = open_model(path, for_matrices);
    ASSERT_EQ(measured.tensors.size(), all.tensors.size());
    EXPECT_EQ(measured.shards[0].header_sha256, all.shards[0].header_sha256);
    EXPECT_EQ(measured.shards[0].header_sha256.size(), 64U);
  }
}

TEST(GgufModelTest, IncompleteSetsAreRefusedNamingTheFile) {
  for (int missing = 1; missing <= 3; ++missing) {
    const TemporaryFolder folder;
    write_set(folder);
    fs::remove(folder / name_of(missing, 3));
    for (int given = 1; given <= 3; ++given) {
      if (given != missing) {
        EXPECT_EQ(error_of(folder / name_of(given, 3)), "E-SPLIT-INCOMPLETE");
        EXPECT_EQ(exit_code_of(folder / name_of(given, 3)), 65);
      }
    }
    EXPECT_EQ(error_of(folder.path()), "E-SPLIT-INCOMPLETE");
  }
}

TEST(GgufModelTest, MisnumberedDoubledAndMixedSetsAreRefused) {
  const TemporaryFolder folder;
  write_set(folder);
  const auto with_third = [&](const std::string& bytes) {
    folder.write(name_of(3, 3), bytes);
    return error_of(folder / name_of(1, 3));
  };
  EXPECT_EQ(with_third(split(1, 3, 3, {"c"})), "E-SPLIT-NUMBER");
  EXPECT_EQ(with_third(split(0, 3, 3, {"c"})), "E-SPLIT-NUMBER");
  EXPECT_EQ(with_third(split(2, 4, 3, {"c"})), "E-SPLIT-MIXED");
  EXPECT_EQ(with_third(split(2, 3, 9, {"c"})), "E-SPLIT-MIXED");
  EXPECT_EQ(with_third(split(2, 3, 3, {"a"})), "E-TENSOR-TWICE");
  EXPECT_EQ(with_third(split(2, 3, 3, {"c", "d"})), "E-SPLIT-TENSORS");
  EXPECT_EQ(with_third(split(2, 3, 3, {})), "E-SPLIT-TENSORS");
  EXPECT_EQ(with_third(small_gguf().bytes()), "E-SPLIT-KEYS");
  EXPECT_EQ(with_third("version https://git-lfs.github.com/spec/v1\n"), "E-FILE-LFS-POINTER");
  EXPECT_EQ(with_third(split(2, 3, 3, {"c"})), "none");
}

TEST(GgufModelTest, ALaterSplitOfAnotherModelIsRefusedNamingBothValues) {
  const auto error_with = [](const std::function<void(GgufBuilder&)>& later,
                             const std::function<void(GgufBuilder&)>& first = {}) {
    const TemporaryFolder folder;
    for (std::uint16_t i = 0; i < 2; ++i) {
      GgufBuilder builder;
      builder.key_u16("split.no", i).key_u16("split.count", 2).key_i32("split.tensors.count", 2);
      if (i == 0) {
        builder.key_string("general.architecture", "llama").key_u32("llama.block_count", 2);
        builder.key_array("tokenizer.ggml.tokens", 8, 2, gguf_string("a") + gguf_string("b"));
      }
      if (const auto& keys = i == 0 ? first : later; keys) {
        keys(builder);
      }
      builder.tensor(i == 0 ? "a" : "b", {32}, 24, 0);
      builder.data = std::string(32, '\0');
      folder.write(name_of(1 + i, 2), builder.bytes());
    }
    return message_of(folder / name_of(1, 2));
  };
  const auto expect_mixed = [](const std::string& error, const std::string& why) {
    EXPECT_EQ(error.rfind("E-SPLIT-MIXED: ", 0), 0U) << error;
    EXPECT_NE(error.find(why), std::string::npos) << error;
  };
  expect_mixed(error_with([](GgufBuilder& b) { b.key_string("general.architecture", "qwen3"); }),
               "general.architecture is \"qwen3\", in the first split \"llama\"");
  expect_mixed(error_with([](GgufBuilder& b) { b.key_u32("llama.block_count", 3); }),
               "llama.block_count is 3, in the first split 2");
  expect_mixed(error_with([](GgufBuilder& b) { b.key_u16("llama.block_count", 2); }),
               "llama.block_count is 2");
  expect_mixed(error_with([](GgufBuilder& b) { b.key_u32("qwen3.block_count", 2); }),
               "qwen3.block_count is 2, the first split has no such key");
  expect_mixed(error_with([](GgufBuilder& b) {
                 b.key_array("tokenizer.ggml.tokens", 8, 2, gguf_string("a") + gguf_string("c"));
               }),
               "tokenizer.ggml.tokens is an array of 2");
  expect_mixed(error_with([](GgufBuilder& b) {
                 b.version = 2;
                 b.key_string("general.architecture", "llama");
               }),
               "another version");
  // What repeats the first split's keys, or says how this file is laid out, is no other model.
  EXPECT_EQ(error_with([](GgufBuilder& b) {
              b.key_string("general.architecture", "llama").key_u32("general.alignment", 32);
              b.key_array("tokenizer.ggml.tokens", 8, 2, gguf_string("a") + gguf_string("b"));
            }),
            "none");
}

TEST(GgufModelTest, ACountOfNoSplitsBesideANameOfManyIsAWarning) {
  const TemporaryFolder folder;
  for (int i = 1; i <= 3; ++i) {
    folder.write(name_of(i, 3), split(0, 0, 1, {"a"}));
  }
  const ModelFiles model = open_model(folder / name_of(2, 3));
  ASSERT_EQ(model.warnings.size(), 1U);
  EXPECT_EQ(model.warnings[0].id, "W-SPLIT-COUNT");
  EXPECT_EQ(model.warnings[0].text,
            name_of(2, 3) + ": split.count is 0, its name says 3: read alone");
}

TEST(GgufModelTest, WithoutAMatrixNoNameIsKeptForMeasuring) {
  const TemporaryFolder folder;
  OpenOptions options;
  options.for_matrices = true;
  const std::string path = folder.write("flat.gguf", split(0, 1, 2, {"a", "b"}));
  EXPECT_EQ(message_of(path, options),
            "E-NOTHING: " + path + ": nothing to measure: the model has no weight matrix");
  EXPECT_EQ(open_model(path).tensors.size(), 2U);
  EXPECT_EQ(message_of(folder.write("m.gguf", small_gguf().bytes()), options), "none");
  // One file of a set may have no matrix where another has.
  write_set(folder);
  EXPECT_EQ(message_of(folder / name_of(2, 3), options), "none");
}

TEST(GgufModelTest, SplitKeysMustBeCounts) {
  const TemporaryFolder folder;
  GgufBuilder real = small_gguf();
  real.key("split.count", 6, std::string(4, '\0'));
  EXPECT_EQ(error_of(folder.write("m.gguf", real.bytes())), "E-SPLIT-KEYS");
  GgufBuilder text = small_gguf();
  text.key_string("split.count", "2");
  EXPECT_EQ(error_of(folder.write("m.gguf", text.bytes())), "E-SPLIT-KEYS");
  GgufBuilder negative = small_gguf();
  negative.key_i32("split.count", -1);
  EXPECT_EQ(error_of(folder.write("m.gguf", negative.bytes())), "E-SPLIT-KEYS");
  GgufBuilder boolean = small_gguf();
  boolean.key("split.count", 7, std::string(1, '\1'));
  EXPECT_EQ(error_of(folder.write("m.gguf", boolean.bytes())), "E-SPLIT-KEYS");
}

TEST(GgufModelTest, AWholeFileThatStillCarriesSplitKeysIsAccepted) {
  const TemporaryFolder folder;
  EXPECT_EQ(warnings_of(folder.write("merged.gguf", split(0, 3, 2, {"a", "b"}))),
            "W-SPLIT-LEFTOVER");
  EXPECT_EQ(warnings_of(folder.write(name_of(1, 3), split(0, 3, 2, {"a", "b"}))),
            "W-SPLIT-LEFTOVER");
  EXPECT_EQ(error_of(folder.write("renamed.gguf", split(0, 3, 3, {"a", "b"}))), "E-SPLIT-NAME");
  EXPECT_EQ(error_of(folder.write("x-00001-of-00002.gguf", small_gguf().bytes())), "E-SPLIT-KEYS");
  EXPECT_EQ(error_of(folder.write("y-00001-of-00002.gguf", split(0, 0, 1, {"a"}))), "none");
  EXPECT_EQ(error_of(folder.write("x-00001-of-00001.gguf", split(0, 1, 1, {"a"}))), "none");
}

TEST(GgufModelTest, AFileWithoutTensorsAloneIsNothingToMeasure) {
  const TemporaryFolder folder;
  const std::string path = folder.write("m.gguf", GgufBuilder().key_u32("k", 1).bytes());
  EXPECT_EQ(error_of(path), "E-NO-TENSORS");
  EXPECT_EQ(exit_code_of(path), 66);
}

TEST(GgufModelTest, CompanionFilesAreNamed) {
  const TemporaryFolder folder;
  const auto error_with = [&](const char* key, const char* value) {
    GgufBuilder builder;
    builder.key_string(key, value).tensor("a", {32}, 24, 0);
    builder.data = std::string(32, '\0');
    return error_of(folder.write("m.gguf", builder.bytes()));
  };
  EXPECT_EQ(error_with("general.type", "imatrix"), "E-GGUF-KIND");
  EXPECT_EQ(error_with("general.type", "adapter"), "E-GGUF-KIND");
  EXPECT_EQ(error_with("general.type", "mmproj"), "E-GGUF-KIND");
  EXPECT_EQ(error_with("general.architecture", "clip"), "E-GGUF-KIND");
  EXPECT_EQ(error_with("general.type", "model"), "none");
  EXPECT_EQ(error_with("general.architecture", "never-heard-of"), "none");
}

TEST(GgufModelTest, FoldersWithSeveralModelsAreRefusedAndProjectorsPassedOver) {
  const TemporaryFolder folder;
  folder.write("model.gguf", small_gguf().bytes());
  GgufBuilder projector = small_gguf();
  projector.key_string("general.type", "mmproj");
  folder.write("mmproj.gguf", projector.bytes());
  EXPECT_EQ(warnings_of(folder.path()), "W-FOLDER-OTHERS");
  EXPECT_EQ(open_model(folder.path()).shards[0].file_name, "model.gguf");
  folder.write("other.gguf", small_gguf().bytes());
  EXPECT_EQ(error_of(folder.path()), "E-FOLDER-SEVERAL");
  EXPECT_EQ(exit_code_of(folder.path()), 65);
}

TEST(GgufModelTest, AModelConfigIsNotRead) {
  const TemporaryFolder folder;
  const std::string path = folder.write("m.gguf", small_gguf().bytes());
  const ModelFiles model = open_model(path, {"/absent"});
  EXPECT_EQ(model.warnings.at(0).id, "W-CONFIG-UNUSED");
}

}  // namespace
}  // namespace vindex::input::gguf_set_test
