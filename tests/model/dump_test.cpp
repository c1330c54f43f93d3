// Dumps of activations: names, shapes and prompts that are read, and those that disagree.
#include "model/dump/dump.hpp"

#include "tests/support/expect_error.hpp"
#include "tests/support/npy_builder.hpp"
#include "tests/support/safetensors_builder.hpp"
#include "tests/support/temporary_folder.hpp"

#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace vindex::model::dump_test {
namespace {

using testing::npy_array;
using testing::TemporaryFolder;

std::string floats(std::int64_t rows, std::int64_t cols) {
  return npy_array(std::vector<float>(static_cast<std::size_t>(rows * cols), 0.5F), {rows, cols});
}

std::string numbers(const std::vector<std::int64_t>& values) {
  return npy_array(values, {static_cast<std::int64_t>(values.size())});
}

std::string error_of(const TemporaryFolder& folder) {
  return testing::error_of([&] { open_dump(folder.path()); });
}

TEST(DumpTest, ArraysAreMatricesByRoleAndLayer) {
  const TemporaryFolder folder;
  folder.write("hidden.0.npy", floats(3, 4));
  folder.write("hidden.10.npy", floats(3, 4));
  folder.write("hidden.2.npy", floats(3, 4));
  folder.write("mlp.2.npy", floats(3, 6));
  folder.write("mlp.0.npy", floats(3, 5));
  folder.write("router_logits.2.npy", floats(3, 8));
  folder.write("logits.npy", floats(3, 9));
  folder.write("token_ids.npy", npy_array<std::int32_t>({7, 8, 9}, {3}));
  folder.write("prompt.npy", numbers({4, 4, 2}));
  const Dump dump = open_dump(folder.path());
  EXPECT_EQ(dump.tokens, 3);
  EXPECT_EQ(dump.token_ids, (std::vector<std::int64_t>{7, 8, 9}));
  ASSERT_EQ(dump.prompts.size(), 2U);
  EXPECT_EQ(dump.prompts[0].prompt, 4);
  EXPECT_EQ(dump.prompts[0].count, 2);
  EXPECT_EQ(dump.prompts[1].first, 2);
  EXPECT_EQ(dump.index.matrices.size(), 7U);
  EXPECT_EQ(dump.index.tensors.size(), 7U);
  std::vector<std::int32_t> layers;
  for (const std::int64_t i : matrices_of_role(dump, kHiddenRole)) {
    const MatrixRecord& matrix = dump.index.matrices[static_cast<std::size_t>(i)];
    EXPECT_EQ(matrix.rows, 3);
    EXPECT_EQ(matrix.cols, 4);
    EXPECT_EQ(matrix.encoding.label, "F32");
    layers.push_back(matrix.layer);
  }
  EXPECT_EQ(layers, (std::vector<std::int32_t>{0, 2, 10}));
  const Dump& same = dump;
  EXPECT_EQ(
      same.index.matrices[static_cast<std::size_t>(matrices_of_role(dump, "logits")[0])].layer, -1);
  EXPECT_TRUE(dump.index.warnings.empty());
}

TEST(DumpTest, ASafetensorsFileIsADump) {
  const TemporaryFolder folder;
  folder.write("part.safetensors",
               testing::safetensors_file(
                   testing::braces(testing::safetensors_entry("hidden.0", "BF16", "2,4", "0,16") +
                                   "," + testing::safetensors_entry("prompt", "U8", "2", "16,18")),
                   18));
  folder.write("hidden.1.npy", npy_array<double>({1, 2}, {2, 1}));
  EXPECT_EQ(error_of(folder), "E-DUMP-SHAPE");  // 4 and 1 columns
  const Dump dump = open_dump(folder / "part.safetensors");
  EXPECT_EQ(dump.index.matrices.front().encoding.label, "BF16");
  ASSERT_EQ(dump.prompts.size(), 1U);
  EXPECT_EQ(dump.prompts[0].prompt, 'd');
  EXPECT_TRUE(dump.token_ids.empty());
}

TEST(DumpTest, OtherNamesAreWarnedOf) {
  const TemporaryFolder folder;
  folder.write("hidden.0.npy", floats(2, 2));
  folder.write("hidden.npy", floats(5, 2));
  folder.write("hidden.-1.npy", floats(5, 2));
  folder.write("hidden.1x.npy", floats(5, 2));
  folder.write("mask.npy", floats(5, 2));
  const Dump dump = open_dump(folder.path());
  EXPECT_EQ(dump.index.matrices.size(), 1U);
  ASSERT_EQ(dump.index.warnings.size(), 1U);
  EXPECT_EQ(dump.index.warnings[0].id, "W-DUMP-OTHERS");
  EXPECT_NE(dump.index.warnings[0].text.find("mask"), std::string::npos);
}

TEST(DumpTest, WhatDisagreesIsRefused) {
  const auto with = [](const std::string& name, const std::string& content) {
    const TemporaryFolder folder;
    folder.write("hidden.0.npy", floats(3, 4));
    folder.write(name, content);
    return error_of(folder);
  };
  EXPECT_EQ(with("hidden.1.npy", floats(2, 4)), "E-DUMP-SHAPE");
  EXPECT_EQ(with("hidden.1.npy", floats(3, 5)), "E-DUMP-SHAPE");
  EXPECT_EQ(with("hidden.00.npy", floats(3, 4)), "E-TENSOR-TWICE");
  EXPECT_EQ(with("mlp.0.npy", floats(3, 5)), "none");
  EXPECT_EQ(with("mlp.0.npy", floats(4, 5)), "E-DUMP-SHAPE");
  EXPECT_EQ(with("mlp.0.npy", floats(3, 0)), "E-DUMP-SHAPE");
  EXPECT_EQ(with("mlp.0.npy", npy_array<float>({1, 2, 3}, {3})), "E-DUMP-SHAPE");
  EXPECT_EQ(with("mlp.0.npy", npy_array<float>({1, 2, 3}, {3, 1, 1})), "E-DUMP-SHAPE");
  EXPECT_EQ(with("mlp.0.npy", npy_array<std::int64_t>({1, 2, 3}, {3, 1})), "E-DUMP-TYPE");
  EXPECT_EQ(with("token_ids.npy", numbers({1, 2})), "E-DUMP-SHAPE");
  EXPECT_EQ(with("token_ids.npy", npy_array<std::int64_t>({1, 2, 3}, {3, 1})), "E-DUMP-SHAPE");
  EXPECT_EQ(with("token_ids.npy", npy_array<float>({1, 2, 3}, {3})), "E-DUMP-TYPE");
  EXPECT_EQ(with("token_ids.npy", npy_array<std::uint64_t>({1, 2, 1ULL << 63U}, {3})),
            "E-DUMP-TYPE");
  EXPECT_EQ(with("prompt.npy", numbers({1, 2, 1})), "E-DUMP-PROMPT");
  EXPECT_EQ(with("prompt.npy", numbers({-1, -1, 1})), "none");
}

TEST(DumpTest, WithoutAMatrixThereIsNoDump) {
  const TemporaryFolder folder;
  folder.write("token_ids.npy", numbers({1, 2}));
  EXPECT_EQ(error_of(folder), "E-DUMP-EMPTY");
  folder.write("hidden.0.npy", npy_array<float>({}, {0, 4}));
  EXPECT_EQ(error_of(folder), "E-DUMP-SHAPE");
}

}  // namespace
}  // namespace vindex::model::dump_test
