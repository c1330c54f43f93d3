// Integers packed into words: the logical matrix of a packed set, and how a broken set reads.
#include "schemes_fixture.hpp"

#include <array>
#include <cstring>
#include <string>
#include <utility>
#include <vector>

namespace vindex::model::packed_int_test {
namespace {

using decode::ElementType;

/// INT4 weights of 6 x 64 in groups of 32, with `shape_value` in weight_shape.
ModelFixture packed(std::array<std::int64_t, 2> shape_value,
                    std::vector<std::int64_t> scale_shape) {
  ModelFixture fixture = deepseek();
  fixture.add(kBase + "_shape", ElementType::kI64, {2});
  fixture.add(kBase + "_packed", ElementType::kI32, {6, 8});
  fixture.add(kBase + "_scale", ElementType::kBF16, std::move(scale_shape));
  std::vector<std::byte> bytes(4096);
  std::memcpy(bytes.data() + fixture.files().tensors[0].offset, shape_value.data(), 16);
  fixture.bytes(std::move(bytes));
  return fixture;
}

TEST(PackedIntTest, LogicalNameAndShapeComeFromThePackedSet) {
  const ModelFixture fixture = packed({6, 64}, {6, 2});
  const ModelIndex index = fixture.index();
  const MatrixRecord& matrix = only_matrix(index);
  EXPECT_EQ(matrix.tensor, kBase);
  EXPECT_EQ(describe(matrix), "1/routed_expert/up_proj/0/-1 6x64");
  EXPECT_EQ(matrix.encoding.label, "INT4/g32");
  EXPECT_EQ(matrix.encoding.bits, 4);
  EXPECT_EQ(matrix.unsupported, "");
  EXPECT_EQ(matrix.codes.cols, 8);
  ASSERT_EQ(matrix.companions.size(), 1U);
  EXPECT_EQ(matrix.companions[0].part.cols, 2);
  ASSERT_EQ(index.tensors.size(), 1U);
  EXPECT_EQ(index.tensors[0].stored, (std::vector<std::int32_t>{1, 0, 2}));
  EXPECT_EQ(index.tensors[0].count, 384);
  EXPECT_EQ(index.shape.quantisation, "compressed-tensors INT4 g32");
}

TEST(PackedIntTest, OneScalePerRowIsPerChannel) {
  const ModelFixture fixture = packed({6, 64}, {6, 1});
  EXPECT_EQ(only_matrix(fixture.index()).encoding.label, "INT4/channel");
}

TEST(PackedIntTest, ColumnsNeedNotFillTheLastWord) {
  const ModelFixture fixture = packed({6, 60}, {6, 2});
  const ModelIndex index = fixture.index();
  EXPECT_EQ(describe(only_matrix(index)), "1/routed_expert/up_proj/0/-1 6x60");
  EXPECT_EQ(only_matrix(index).encoding.label, "INT4/g30");
}

TEST(PackedIntTest, ShapesThatContradictFailClosed) {
  EXPECT_EQ(only_matrix(packed({7, 64}, {6, 2}).index()).unsupported,
            "weight_shape contradicts the codes: it says 7x64, " + kBase + "_packed is [6, 8]");
  EXPECT_EQ(only_matrix(packed({6, 6400}, {6, 2}).index()).unsupported,
            "weight_shape contradicts the codes: no width packs 6400 columns into 8 words");
  EXPECT_EQ(only_matrix(packed({6, -64}, {6, 2}).index()).unsupported,
            "weight_shape contradicts the codes: it says 6x-64, " + kBase + "_packed is [6, 8]");
  EXPECT_EQ(only_matrix(packed({6, 64}, {5, 2}).index()).unsupported,
            "scale misshapen: " + kBase +
                "_scale is [5, 2], 6 rows of equal groups of 64 columns are needed");
}

TEST(PackedIntTest, MissingCompanionsFailClosed) {
  ModelFixture fixture = deepseek();
  fixture.add(kBase + "_packed", ElementType::kI32, {6, 8});
  const ModelIndex index = fixture.index();
  EXPECT_EQ(only_matrix(index).unsupported, "weight_shape missing");
  EXPECT_EQ(only_matrix(index).tensor, kBase);
}

TEST(PackedIntTest, ZeroPointsAndGroupIndicesAreChecked) {
  const auto with = [](const std::string& suffix, ElementType type,
                       std::vector<std::int64_t> shape) {
    ModelFixture fixture = packed({6, 64}, {6, 2});
    fixture.add(kBase + suffix, type, std::move(shape));
    return fixture.index();
  };
  const ModelIndex asymmetric = with("_zero_point", ElementType::kI32, {1, 2});
  EXPECT_EQ(only_matrix(asymmetric).encoding.label, "INT4/g32/asym");
  EXPECT_EQ(only_matrix(asymmetric).unsupported, "");
  EXPECT_EQ(only_matrix(asymmetric).companions.size(), 2U);
  EXPECT_EQ(only_matrix(with("_g_idx", ElementType::kI32, {64})).unsupported, "");
  EXPECT_EQ(
      only_matrix(with("_zero_point", ElementType::kI32, {6, 2})).unsupported,
      "scale misshapen: " + kBase + "_zero_point is [6, 2], 1x2 words of zero points are needed");
  EXPECT_EQ(only_matrix(with("_zero_point", ElementType::kI8, {6, 2})).unsupported,
            "scale of wrong type: " + kBase + "_zero_point is I8");
  EXPECT_EQ(only_matrix(with("_g_idx", ElementType::kI32, {63})).unsupported,
            "scale misshapen: " + kBase + "_g_idx is [63], 64 group indices are needed");
  EXPECT_EQ(only_matrix(with("_g_idx", ElementType::kI64, {64})).unsupported,
            "scale of wrong type: " + kBase + "_g_idx is I64");
}

TEST(PackedIntTest, PlainWeightOfTheSameNameIsAmbiguous) {
  ModelFixture fixture = packed({6, 64}, {6, 2});
  fixture.bf16(kBase, {6, 64});
  const ModelIndex index = fixture.index();
  ASSERT_EQ(index.matrices.size(), 2U);
  EXPECT_EQ(index.matrices[0].unsupported + index.matrices[1].unsupported,
            "ambiguous: " + kBase + " is stored both plainly and packed");
}

}  // namespace
}  // namespace vindex::model::packed_int_test
