// Which routed experts belong side by side: stacks and tensors of their own, missing ones, odd
// shapes, encodings that cannot be decoded, what the selection wants.
#include "model/experts/expert_groups.hpp"

#include <gtest/gtest.h>

namespace vindex::model::expert_groups_test {
namespace {

MatrixRecord expert(std::int32_t layer, std::int32_t number, const std::string& role,
                    std::int64_t rows = 8, std::int64_t cols = 6) {
  MatrixRecord matrix;
  matrix.tensor = "model.layers." + std::to_string(layer) + ".mlp.experts." +
                  std::to_string(number) + "." + role + ".weight";
  matrix.layer = layer;
  matrix.expert = number;
  matrix.block = Block::kRoutedExpert;
  matrix.role = role;
  matrix.rows = rows;
  matrix.cols = cols;
  matrix.encoding = decode::plain_encoding(decode::ElementType::kBF16);
  return matrix;
}

TEST(ExpertGroups, AreOfOneLayerAndRoleInTheFilesOrder) {
  ModelIndex index;
  for (const std::int32_t layer : {3, 1}) {
    for (const char* role : {"up_proj", "down_proj", "gate_proj"}) {
      for (std::int32_t number = 0; number < 3; ++number) {
        index.matrices.push_back(expert(layer, number, role));
      }
    }
  }
  index.matrices.push_back(expert(1, -1, "up_proj"));
  index.matrices.back().block = Block::kSharedExpert;
  const std::vector<ExpertGroup> groups = expert_groups(index, {});
  ASSERT_EQ(groups.size(), 6U);
  EXPECT_EQ(groups[0].record.layer, 1);
  EXPECT_EQ(groups[3].record.layer, 3);
  EXPECT_EQ(groups[0].record.tensor,
            "model.layers.1.mlp.experts.*." + groups[0].record.role + ".weight");
  EXPECT_LT(role_rank(groups[0].record.role), role_rank(groups[1].record.role));
  for (const ExpertGroup& group : groups) {
    EXPECT_EQ(group.present(), 3U);
    EXPECT_EQ(group.record.expert, -1);
    EXPECT_EQ(group.record.rows, 8);
    EXPECT_EQ(group.record.encoding.label, "BF16");
    for (std::size_t i = 0; i < 3; ++i) {
      EXPECT_EQ(index.matrices[static_cast<std::size_t>(group.members[i].matrix)].expert,
                static_cast<std::int32_t>(i));
    }
  }
  const Selection selection = parse_selection("3", "", "up_proj", "");
  EXPECT_EQ(expert_groups(index, selection).size(), 1U);
}

TEST(ExpertGroups, NumbersElsewhereInTheNameStay) {
  ModelIndex index;
  index.matrices.push_back(expert(1, 1, "w1"));
  EXPECT_EQ(expert_groups(index, {})[0].record.tensor, "model.layers.1.mlp.experts.*.w1.weight");
}

TEST(ExpertGroups, SlicesOfAStackKeepItsName) {
  ModelIndex index;
  for (std::int32_t slice = 0; slice < 4; ++slice) {
    MatrixRecord matrix = expert(0, slice, "down_proj");
    matrix.tensor = "blk.0.ffn_down_exps.weight";
    matrix.slice = slice;
    index.matrices.push_back(matrix);
  }
  const std::vector<ExpertGroup> groups = expert_groups(index, {});
  ASSERT_EQ(groups.size(), 1U);
  EXPECT_EQ(groups[0].record.tensor, "blk.0.ffn_down_exps.weight");
  EXPECT_EQ(groups[0].record.slice, -1);
  EXPECT_EQ(groups[0].members.size(), 4U);
}

TEST(ExpertGroups, WhoIsMissingOrOddIsNamedAndTheOthersStay) {
  ModelIndex index;
  for (const std::int32_t number : {0, 1, 2, 4, 5}) {
    index.matrices.push_back(expert(0, number, "up_proj", number == 1 ? 10 : 8));
  }
  index.matrices[2].unsupported = "its scales are missing";
  index.matrices[3].transposed = true;
  index.matrices.push_back(expert(0, 6, "down_proj"));  // so there are seven in this layer
  const std::vector<ExpertGroup> groups = expert_groups(index, {});
  ASSERT_EQ(groups.size(), 2U);
  const ExpertGroup& group = groups[0].record.role == "up_proj" ? groups[0] : groups[1];
  ASSERT_EQ(group.members.size(), 7U);
  EXPECT_EQ(group.record.rows, 8);
  EXPECT_FALSE(group.record.transposed);
  EXPECT_EQ(group.present(), 2U);
  EXPECT_EQ(group.members[0].error, "");
  EXPECT_EQ(group.members[1].error, "it is 10x6, the others 8x6");
  EXPECT_EQ(group.members[2].error, "its scales are missing");
  EXPECT_EQ(group.members[3].error, "the model has no such matrix");
  EXPECT_EQ(group.members[4].error, "it is 8x6 stored as 6x8, the others 8x6");
  EXPECT_EQ(group.members[6].error, "the model has no such matrix");
  EXPECT_TRUE(group.record.unsupported.empty());
}

TEST(ExpertGroups, AreUnsupportedWhereNotOneCanBeDecoded) {
  ModelIndex index;
  for (std::int32_t number = 0; number < 2; ++number) {
    index.matrices.push_back(expert(0, number, "up_proj"));
    index.matrices.back().unsupported = "its scales are missing";
  }
  EXPECT_EQ(expert_groups(index, {})[0].record.unsupported, "its scales are missing");
  index.matrices[1].unsupported.clear();
  EXPECT_EQ(expert_groups(index, {})[0].record.unsupported, "");
}

TEST(ExpertGroups, ASecondMatrixOfAnExpertBeginsAnotherGroup) {
  ModelIndex index;
  for (const char* tower : {"a", "b"}) {
    for (std::int32_t number = 0; number < 2; ++number) {
      index.matrices.push_back(expert(0, number, "up_proj"));
      index.matrices.back().tensor = tower + index.matrices.back().tensor;
    }
  }
  const std::vector<ExpertGroup> groups = expert_groups(index, {});
  ASSERT_EQ(groups.size(), 2U);
  EXPECT_EQ(groups[0].record.tensor[0], 'a');
  EXPECT_EQ(groups[1].record.tensor[0], 'b');
  EXPECT_EQ(groups[1].present(), 2U);
}

}  // namespace
}  // namespace vindex::model::expert_groups_test
