// Models written again with tensors replaced, and what is refused.
#include "model_folders.hpp"

#include "decode/decode_matrix.hpp"
#include "decode/encoding/code_layout.hpp"
#include "synth/make_model.hpp"
#include "tests/support/expect_error.hpp"
#include "tests/support/file_size_limit.hpp"
#include "tests/support/gguf_builder.hpp"
#include "tests/support/temporary_folder.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <csignal>
#include <filesystem>
#include <string>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>
#include <vector>

namespace vindex::write::rewrite_model_test {
namespace {

namespace fs = std::filesystem;
using vindex::testing::error_of;
using vindex::testing::names_in;
using vindex::testing::TemporaryFolder;

std::vector<float> weights_of(const input::ModelFiles& files, const input::StoredTensor& tensor) {
  std::vector<std::byte> bytes(tensor.bytes);
  files.shards[static_cast<std::size_t>(tensor.shard)].source->read(tensor.offset, bytes);
  const auto encoding = decode::plain_encoding(tensor.type);
  decode::EncodedMatrix matrix;
  matrix.encoding = &encoding;
  matrix.cols = tensor.shape.back();
  matrix.row_stride_bytes = static_cast<std::int64_t>(
      decode::row_bytes(encoding, static_cast<std::uint64_t>(matrix.cols)).value());
  matrix.rows = static_cast<std::int64_t>(tensor.bytes) / matrix.row_stride_bytes;
  matrix.codes = bytes.data();
  std::vector<float> values(static_cast<std::size_t>(matrix.rows * matrix.cols));
  decode::decode_matrix(matrix, values.data(), matrix.cols);
  return values;
}

const input::StoredTensor& tensor_named(const input::ModelFiles& files, const std::string& name) {
  const auto found = std::find_if(files.tensors.begin(), files.tensors.end(),
                                  [&](const auto& tensor) { return tensor.name == name; });
  EXPECT_NE(found, files.tensors.end()) << name;
  return *found;
}

/// Names of the tensors whose bytes differ.
std::vector<std::string> changed_tensors(const std::string& a, const std::string& b) {
  const auto before = tensor_content(a);
  const auto after = tensor_content(b);
  EXPECT_EQ(before.size(), after.size());
  std::vector<std::string> names;
  for (const auto& [name, bytes] : before) {
    if (after.at(name) != bytes) {
      names.push_back(name);
    }
  }
  return names;
}

TEST(RewriteModel, BytesAndScalesOfAShardedModelAreReplacedWhereTheyLie) {
  const TemporaryFolder scratch;
  synth::make_model("kimi-k2-mini", 0, scratch / "a");
  const std::string name = "model.layers.1.mlp.experts.3.down_proj.weight";
  const std::vector<std::byte> codes(100, std::byte{0x38});
  const std::vector<std::byte> scale(4, std::byte{0x3F});
  ModelEdit edit;
  edit.bytes.push_back({name, 50, codes});
  edit.bytes.push_back({name + "_scale_inv", 0, scale});
  edit.bytes.push_back({name, 7, std::span(codes).first(3)});
  edit.bytes.push_back({name, 200, {}});
  rewrite_model(input::open_model(scratch / "a"), scratch / "b", edit);
  EXPECT_EQ(changed_tensors(scratch / "a", scratch / "b"),
            (std::vector<std::string>{name, name + "_scale_inv"}));
  std::string wanted = tensor_content(scratch / "a").at(name);
  wanted.replace(50, 100, 100, '\x38').replace(7, 3, 3, '\x38');
  EXPECT_TRUE(tensor_content(scratch / "b").at(name) == wanted);
  EXPECT_EQ(file_text(scratch / "a/model.safetensors.index.json"),
            file_text(scratch / "b/model.safetensors.index.json"));
}

TEST(RewriteModel, WeightsOfOneSliceAreEncodedAndTheRestIsKept) {
  const TemporaryFolder scratch;
  synth::make_model("kimi-k2-mini-q8_0", 0, scratch / "a");
  const input::ModelFiles before = input::open_model(scratch / "a");
  const std::string name = "blk.1.ffn_down_exps.weight";
  const input::StoredTensor& tensor = tensor_named(before, name);
  const std::int64_t cols = tensor.shape[2];
  const std::int64_t rows = tensor.shape[1];
  // Expert 5 with one row deleted and one made larger.
  const auto all = weights_of(before, tensor);
  std::vector<float> expert(all.begin() + 5 * rows * cols, all.begin() + 6 * rows * cols);
  std::fill(expert.begin() + 3 * cols, expert.begin() + 4 * cols, 0.0F);
  std::transform(expert.begin() + 9 * cols, expert.begin() + 10 * cols, expert.begin() + 9 * cols,
                 [](float value) { return value * 1.7F; });
  ModelEdit edit;
  edit.weights.push_back({name, 5 * rows, expert});
  const RewriteReport report = rewrite_model(before, scratch / "b", edit);
  EXPECT_EQ(report.counts.patched, cols / 32);
  EXPECT_EQ(report.counts.encoded, cols / 32);
  EXPECT_EQ(report.counts.kept, (rows - 2) * cols / 32);
  const input::ModelFiles after = input::open_model(scratch / "b");
  EXPECT_EQ(changed_tensors(scratch / "a", scratch / "b"), std::vector<std::string>{name});
  auto wanted = all;
  std::copy(expert.begin(), expert.end(), wanted.begin() + 5 * rows * cols);
  const auto got = weights_of(after, tensor_named(after, name));
  for (std::size_t i = 0; i < got.size(); ++i) {
    const auto row = static_cast<std::int64_t>(i) / cols;
    if (row == 5 * rows + 9) {
      ASSERT_NEAR(got[i], wanted[i], 0.01F * std::abs(wanted[i]) + 1e-3F);
    } else {
      ASSERT_EQ(got[i], wanted[i]) << i;
    }
  }
}

TEST(RewriteModel, EditsThatDoNotFitAreRefused) {
  const TemporaryFolder scratch;
  synth::make_model("kimi-k2-mini-q8_0", 0, scratch / "a");
  const input::ModelFiles files = input::open_model(scratch / "a");
  const std::string name = "output_norm.weight";
  const input::StoredTensor& norm = tensor_named(files, name);
  const std::vector<std::byte> bytes(norm.bytes + 1);
  const std::vector<float> values(static_cast<std::size_t>(norm.shape[0]) + 1, 1.0F);
  const auto id_of = [&](const ModelEdit& edit) {
    return error_of([&] { rewrite_model(files, scratch / "b", edit); });
  };
  EXPECT_EQ(id_of({.bytes = {{"absent", 0, bytes}}, .weights = {}}), "E-EDIT");
  EXPECT_EQ(id_of({.bytes = {{name, 0, bytes}}, .weights = {}}), "E-EDIT");
  EXPECT_EQ(id_of({.bytes = {{name, ~std::uint64_t{0}, bytes}}, .weights = {}}), "E-EDIT");
  EXPECT_EQ(id_of({.bytes = {}, .weights = {{name, 0, values}}}), "E-EDIT");
  EXPECT_EQ(
      id_of({.bytes = {}, .weights = {{name, 1, std::span(values).first(values.size() - 1)}}}),
      "E-EDIT");
  EXPECT_EQ(id_of({.bytes = {}, .weights = {{name, -1, {}}}}), "E-EDIT");
  EXPECT_EQ(
      id_of({.bytes = {{name, 0, std::span(bytes).first(8)}, {name, 7, std::span(bytes).first(1)}},
             .weights = {}}),
      "E-EDIT");
  EXPECT_FALSE(fs::exists(scratch / "b"));
}

TEST(RewriteModel, ChangesThatCannotBeEncodedAreRefusedAndUnchangedBlocksAreNot) {
  const TemporaryFolder scratch;
  vindex::testing::GgufBuilder builder;
  builder.key_string("general.architecture", "llama");
  builder.tensor("k", {256, 2}, 12, 0);  // Q4_K
  builder.data = std::string(288, '\x11');
  const input::ModelFiles files = input::open_model(scratch.write("a.gguf", builder.bytes()));
  auto values = weights_of(files, files.tensors[0]);
  ModelEdit edit;
  edit.weights.push_back({"k", 0, values});
  EXPECT_EQ(rewrite_model(files, scratch / "b.gguf", edit).counts.kept, 2);
  EXPECT_TRUE(file_text(scratch / "b.gguf") == builder.bytes());
  values[300] += 1.0F;
  EXPECT_EQ(error_of([&] { rewrite_model(files, scratch / "c.gguf", edit); }), "E-ENCODE-TYPE");
  EXPECT_FALSE(fs::exists(scratch / "c.gguf"));
}

TEST(RewriteModel, TheSourceIsNeverTheTarget) {
  const TemporaryFolder scratch;
  synth::make_model("kimi-k2-mini-q8_0", 0, scratch / "a");
  synth::make_model("layer:2x64x64:bf16", 0, scratch / "st");
  const std::string file = scratch / "a/kimi-k2-mini-Q8_0.gguf";
  fs::create_symlink(file, scratch / "link.gguf");
  fs::create_hard_link(file, scratch / "hard.gguf");
  fs::create_directory_symlink(scratch / "st", scratch / "folder");
  const RewriteOptions replace = {.replace = true};
  const auto id_of = [&](const std::string& source, const std::string& target) {
    return error_of([&] { rewrite_model(input::open_model(source), target, {}, replace); });
  };
  EXPECT_EQ(id_of(file, file), "E-OUTPUT-SOURCE");
  EXPECT_EQ(id_of(file, scratch / "link.gguf"), "E-OUTPUT-SOURCE");
  EXPECT_EQ(id_of(scratch / "link.gguf", file), "E-OUTPUT-SOURCE");
  EXPECT_EQ(id_of(file, scratch / "hard.gguf"), "E-OUTPUT-SOURCE");
  EXPECT_EQ(id_of(file, scratch / "a"), "E-OUTPUT-SOURCE");
  EXPECT_EQ(id_of(scratch / "st", scratch / "folder"), "E-OUTPUT-SOURCE");
  EXPECT_EQ(id_of(scratch / "st/model.safetensors", scratch / "st/config.json"), "E-OUTPUT-SOURCE");
  EXPECT_TRUE(input::open_model(file).tensors.size() > 10);
}

TEST(RewriteModel, WhatLiesThereIsReplacedOnlyOnRequest) {
  const TemporaryFolder scratch;
  const std::string text = vindex::testing::small_gguf().bytes();
  const input::ModelFiles files = input::open_model(scratch.write("a.gguf", text));
  scratch.write("b.gguf", "precious");
  EXPECT_EQ(error_of([&] { rewrite_model(files, scratch / "b.gguf"); }), "E-OUTPUT-EXISTS");
  EXPECT_EQ(file_text(scratch / "b.gguf"), "precious");
  rewrite_model(files, scratch / "b.gguf", {}, {.replace = true});
  EXPECT_TRUE(file_text(scratch / "b.gguf") == text);
  synth::make_model("layer:2x64x64:bf16", 0, scratch / "st");
  scratch.write("full/content", "precious");
  EXPECT_EQ(error_of([&] { copy_model(scratch / "st", scratch / "full"); }), "E-OUTPUT-NOT-EMPTY");
}

TEST(RewriteModel, NamesThatGgmlDoesNotLoadAreAnErrorOfTheFile) {
  const TemporaryFolder scratch;
  vindex::testing::GgufBuilder builder;
  builder.tensor(std::string(64, 'n'), {8}, 0, 0);
  builder.data = std::string(32, 'd');
  const std::string source = scratch.write("a.gguf", builder.bytes());
  try {
    copy_model(source, scratch / "b.gguf");
    FAIL() << "a name of 64 bytes was written";
  } catch (const Error& error) {
    EXPECT_EQ(error.id(), "E-GGUF-NAME");
    EXPECT_EQ(error.exit_code(), ExitCode::kMalformedInput);
  }
  EXPECT_FALSE(fs::exists(scratch / "b.gguf"));
}

TEST(RewriteModel, AFileThatChangedSinceItWasOpenedIsNoticed) {
  const TemporaryFolder scratch;
  const std::string text = vindex::testing::small_gguf().bytes();
  const input::ModelFiles files = input::open_model(scratch.write("a.gguf", text));
  scratch.write("a.gguf", text + "more");
  EXPECT_EQ(error_of([&] { rewrite_model(files, scratch / "b.gguf"); }), "E-INPUT-CHANGED");
  EXPECT_FALSE(fs::exists(scratch / "b.gguf"));
}

TEST(RewriteModel, AFullDiskLeavesNothing) {
  const TemporaryFolder scratch;
  synth::make_model("kimi-k2-mini", 0, scratch / "a");
  const input::ModelFiles files = input::open_model(scratch / "a");
  {
    const vindex::testing::FileSizeLimit limit(1'000'000);
    EXPECT_EQ(error_of([&] { rewrite_model(files, scratch / "b"); }), "E-OUTPUT-WRITE");
  }
  EXPECT_FALSE(fs::exists(scratch / "b"));
}

TEST(RewriteModel, AKillLeavesTemporaryNamesAndTheNextRunRemovesThem) {
  const TemporaryFolder scratch;
  synth::make_model("kimi-k2-mini", 0, scratch / "a");
  const pid_t child = ::fork();
  if (child == 0) {
    rlimit limit = {};
    ::getrlimit(RLIMIT_FSIZE, &limit);
    limit.rlim_cur = 3'000'000;
    ::setrlimit(RLIMIT_FSIZE, &limit);
    std::signal(SIGXFSZ, SIG_DFL);  // ends the process in the midst of a write
    rlimit no_core = {0, 0};
    ::setrlimit(RLIMIT_CORE, &no_core);
    copy_model(scratch / "a", scratch / "b");
    ::_exit(0);
  }
  int status = 0;
  ::waitpid(child, &status, 0);
  ASSERT_TRUE(WIFSIGNALED(status));
  const std::vector<std::string> left = names_in(scratch.path());
  ASSERT_EQ(left.size(), 2U);
  EXPECT_EQ(left.back().rfind("b.tmp.", 0), 0U) << left.back();
  EXPECT_FALSE(names_in(scratch / left.back()).empty());
  copy_model(scratch / "a", scratch / "b");
  EXPECT_EQ(names_in(scratch.path()), (std::vector<std::string>{"a", "b"}));
  EXPECT_TRUE(folder_content(scratch / "a") == folder_content(scratch / "b"));
}

}  // namespace
}  // namespace vindex::write::rewrite_model_test
