// Two small models that differ in known ways; tensors beside each other, whole and sampled.
#include "organ/difference/model_difference.hpp"

#include "decode/encode/encode.hpp"
#include "input/local/file_source.hpp"
#include "organ/difference/difference_report.hpp"
#include "organ/source/tensor_pair.hpp"
#include "tests/support/expect_error.hpp"
#include "tests/support/float_model.hpp"
#include "tests/support/program/program.hpp"
#include <vindex/error.hpp>

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include <cmath>
#include <limits>
#include <string>
#include <vector>

namespace vindex::organ::model_difference_test {
namespace {

using testing::FloatTensor;
using testing::GgufBuilder;
using testing::noise_tensor;
using testing::TemporaryFolder;

const auto kKeys = [](GgufBuilder& builder) {
  builder.key_string("general.architecture", "llama").key_u32("llama.block_count", 1);
};

std::vector<FloatTensor> small_model() {
  return {noise_tensor("token_embd.weight", {10, 8}, 1),
          noise_tensor("blk.0.attn_q.weight", {8, 8}, 2),
          noise_tensor("blk.0.ffn_up.weight", {16, 8}, 3),
          noise_tensor("blk.0.ffn_norm.weight", {8}, 4)};
}

class ModelDifferenceTest : public ::testing::Test {
 protected:
  std::string written(const std::string& name, const std::vector<FloatTensor>& tensors,
                      const std::function<void(GgufBuilder&)>& keys = kKeys) {
    testing::write_gguf(folder_.file(name), tensors, keys);
    return folder_.file(name);
  }
  static ModelDifference diff(const std::string& a, const std::string& b,
                              const std::string& tensors = "") {
    return diff_models({.a = a, .b = b, .tensors = tensors});
  }

  TemporaryFolder folder_;
};

TEST_F(ModelDifferenceTest, AModelIsTheSameAsItself) {
  const std::string a = written("a.gguf", small_model());
  const ModelDifference same = diff(a, a);
  EXPECT_TRUE(same.is_same());
  EXPECT_EQ(same.same_keys, 2U);
  ASSERT_EQ(same.tensors.size(), 4U);
  EXPECT_EQ(same.tensors[0].state, TensorState::kSameBytes);
  EXPECT_EQ(same.tensors[0].report.cosine, 1.0);
  EXPECT_EQ(same.tensors[0].report.relative_error, 0.0);
}

TEST_F(ModelDifferenceTest, KeysByKind) {
  const std::string a = written("a.gguf", small_model(), [](GgufBuilder& builder) {
    kKeys(builder);
    builder.key_u32("x.type", 5).key_string("x.gone", "old").key_u32("x.value", 1);
    builder.key_array("x.list", 5, 2, builder.number(std::int32_t{1}) + builder.number(2));
  });
  const std::string b = written("b.gguf", small_model(), [](GgufBuilder& builder) {
    kKeys(builder);
    builder.key_i32("x.type", 5).key_u32("x.value", 2).key_string("x.new", "fresh");
    builder.key_array("x.list", 5, 2, builder.number(std::int32_t{1}) + builder.number(3));
    builder.key_u16("split.no", 0).key_u16("split.count", 1).key_i32("split.tensors.count", 4);
  });
  const ModelDifference found = diff(a, b);
  EXPECT_FALSE(found.is_same());
  EXPECT_EQ(found.same_keys, 2U);
  ASSERT_EQ(found.keys.size(), 5U);
  EXPECT_EQ(found.keys[0].name, "x.type");
  EXPECT_EQ(found.keys[0].a->type + " " + found.keys[0].b->type, "u32 i32");
  EXPECT_FALSE(found.keys[1].b);
  EXPECT_EQ(found.keys[2].a->text + found.keys[2].b->text, "12");
  EXPECT_EQ(found.keys[3].first->index, 1U);
  EXPECT_EQ(found.keys[3].a->count, 2U);
  EXPECT_FALSE(found.keys[4].a);
  const std::string text = difference_text(found, {});
  EXPECT_NE(text.find("~ x.type: u32 5 -> i32 5"), std::string::npos) << text;
  EXPECT_NE(text.find("- x.gone: str \"old\""), std::string::npos) << text;
  EXPECT_NE(text.find("+ x.new: str \"fresh\""), std::string::npos) << text;
  EXPECT_NE(text.find("first at 1: 2 -> 3"), std::string::npos) << text;
}

TEST_F(ModelDifferenceTest, TensorsByKind) {
  auto other = small_model();
  for (float& value : other[1].values) {
    value *= -2.0F;
  }
  other[2] = noise_tensor("blk.0.ffn_up.weight", {32, 8}, 3);
  other[3].values[5] = std::numeric_limits<float>::quiet_NaN();
  other.push_back(noise_tensor("output.weight", {10, 8}, 9));
  auto left = small_model();
  left.push_back(noise_tensor("blk.0.attn_q.bias", {8}, 8));
  const ModelDifference found = diff(written("a.gguf", left), written("b.gguf", other));
  ASSERT_EQ(found.tensors.size(), 4U);
  EXPECT_EQ(found.tensors[0].state, TensorState::kSameBytes);
  EXPECT_EQ(found.tensors[1].state, TensorState::kDifferent);
  EXPECT_DOUBLE_EQ(found.tensors[1].report.cosine, -1.0);
  EXPECT_NEAR(found.tensors[1].report.relative_error, 3.0, 1e-12);
  EXPECT_EQ(found.tensors[2].state, TensorState::kShape);
  EXPECT_TRUE(std::isnan(found.tensors[2].report.cosine));
  EXPECT_EQ(found.tensors[3].state, TensorState::kNotFinite);
  ASSERT_EQ(found.only_a.size(), 1U);
  EXPECT_EQ(found.only_a[0].name, "blk.0.attn_q.bias");
  ASSERT_EQ(found.only_b.size(), 1U);
  EXPECT_EQ(found.only_b[0].name, "output.weight");
  const auto json = nlohmann::json::parse(difference_json(found));
  EXPECT_EQ(json["schema"], "organ-diff/1");
  EXPECT_EQ(json["same"], false);
  EXPECT_EQ(json["tensors"][2]["b"]["ne"], (std::vector<int>{8, 32}));
  EXPECT_TRUE(json["tensors"][3]["cosine"].is_null());
  EXPECT_EQ(json["only_b"][0]["class"], "embed");
}

TEST_F(ModelDifferenceTest, OrderIsToldAndDoesNotCount) {
  auto other = small_model();
  std::swap(other[0], other[3]);
  const ModelDifference found = diff(written("a.gguf", small_model()), written("b.gguf", other));
  EXPECT_TRUE(found.is_same());
  EXPECT_FALSE(found.same_order);
}

TEST_F(ModelDifferenceTest, APatternChoosesTensors) {
  auto other = small_model();
  other[1].values[0] += 1.0F;
  const std::string a = written("a.gguf", small_model());
  const std::string b = written("b.gguf", other);
  EXPECT_TRUE(diff(a, b, "blk\\.0\\.ffn_.*").is_same());
  EXPECT_FALSE(diff(a, b, ".*attn_q.*").is_same());
  EXPECT_EQ(testing::error_of([&] { diff(a, b, "attn_q"); }), "E-SELECTION");
  EXPECT_EQ(testing::error_of([&] { diff(a, b, "("); }), "E-SELECTION");
}

TEST_F(ModelDifferenceTest, SafetensorsBesideSafetensorsAndGguf) {
  testing::write_safetensors(folder_.file("a.safetensors"), small_model());
  auto other = small_model();
  other[0].values[0] += 1.0F;
  testing::write_safetensors(folder_.file("b.safetensors"), other);
  const ModelDifference found = diff(folder_.file("a.safetensors"), folder_.file("b.safetensors"));
  EXPECT_EQ(found.tensors.size(), 4U);
  EXPECT_FALSE(found.is_same());
  // Shapes are the same the other way round.
  const ModelDifference mixed =
      diff(folder_.file("a.safetensors"), written("a.gguf", small_model()));
  for (const TensorDifference& tensor : mixed.tensors) {
    EXPECT_EQ(tensor.state, TensorState::kSameBytes) << tensor.name;
  }
  EXPECT_EQ(mixed.keys.size(), 2U);
}

/// `values` as `rows` rows of `type`, in memory.
struct Stored {
  Stored(const std::vector<float>& values, std::int64_t rows, decode::ElementType type)
      : encoding(decode::plain_encoding(type)) {
    const auto cols = static_cast<std::int64_t>(values.size()) / rows;
    bytes.resize(decode::encoded_size(encoding, rows, cols)->code_bytes);
    decode::encode_matrix(encoding, values.data(), rows, cols, cols, bytes, {});
    source = input::make_memory_source("memory", bytes);
    tensor = {{{"t", type, {static_cast<std::uint64_t>(cols), static_cast<std::uint64_t>(rows)}},
               0,
               bytes.size()},
              source.get()};
  }
  decode::Encoding encoding;
  std::vector<std::byte> bytes;
  std::unique_ptr<ByteSource> source;
  PlacedTensor tensor;
};

TEST(TensorPair, TypesMayDiffer) {
  const std::vector<float> values = noise_tensor("t", {64, 64}, 5).values;
  const Stored f32(values, 64, decode::ElementType::kF32);
  const Stored q8(values, 64, decode::ElementType::kQ8_0);
  EXPECT_FALSE(same_bytes(f32.tensor, q8.tensor));
  const PairSample sample = compare_tensors(f32.tensor, q8.tensor);
  EXPECT_EQ(sample.values, 4096U);
  EXPECT_GT(sample.report.cosine, 0.9999);
  EXPECT_NEAR(sample.report.relative_error, 0.0053, 0.002);
  std::vector<float> whole(values.size(), 2.0F);  // what bfloat16 holds is the same afterwards
  EXPECT_TRUE(compare_tensors(Stored(whole, 64, decode::ElementType::kF32).tensor,
                              Stored(whole, 64, decode::ElementType::kBF16).tensor)
                  .report.same_bits);
}

TEST(TensorPair, ASampleHasEvenlySpacedRowsAndBothEnds) {
  std::vector<float> values(100 * 32, 1.0F);
  const Stored plain(values, 100, decode::ElementType::kF32);
  std::vector<float> ends = values;
  ends[0] = -1.0F;             // the first row
  ends[99 * 32 + 31] = -1.0F;  // the last
  ends[50 * 32] = -1.0F;       // between two of the sample
  const Stored other(ends, 100, decode::ElementType::kF32);
  const PairSample whole = compare_tensors(plain.tensor, other.tensor);
  EXPECT_NEAR(whole.report.cosine, 1.0 - 2.0 * 3 / 3200, 1e-12);
  const PairSample some = compare_tensors(plain.tensor, other.tensor, 4 * 32);  // 0, 33, 66, 99
  EXPECT_EQ(some.values, 4U * 32U);
  EXPECT_EQ(some.of, 3200U);
  EXPECT_NEAR(some.report.cosine, 1.0 - 2.0 * 2 / 128, 1e-12);
  EXPECT_EQ(compare_tensors(plain.tensor, other.tensor, 1).values, 32U);  // a row at the least
}

TEST(TensorPair, LongRowsAreCut) {
  const std::size_t length = (std::size_t{1} << 20U) * 3;
  std::vector<float> values(length, 1.0F);
  const Stored a(values, 1, decode::ElementType::kQ8_0);
  values[length - 1] = -1.0F;
  const Stored b(values, 1, decode::ElementType::kF32);
  const PairSample sample = compare_tensors(a.tensor, b.tensor);
  EXPECT_EQ(sample.values, length);
  EXPECT_NEAR(sample.report.max_abs_difference, 2.0, 1e-3);
}

TEST(TensorPair, UnrelatedAndRelatedWeights) {
  const auto base = noise_tensor("t", {128, 64}, 1).values;
  auto tuned = base;
  const auto step = noise_tensor("t", {128, 64}, 2).values;
  for (std::size_t i = 0; i < tuned.size(); ++i) {
    tuned[i] += 0.1F * step[i];
  }
  const Stored original(base, 128, decode::ElementType::kF32);
  EXPECT_GT(compare_tensors(original.tensor, Stored(tuned, 128, decode::ElementType::kF32).tensor)
                .report.cosine,
            0.99);
  EXPECT_LT(
      std::abs(compare_tensors(original.tensor, Stored(step, 128, decode::ElementType::kF32).tensor)
                   .report.cosine),
      0.05);
}

TEST(TensorPair, Shapes) {
  using Ne = std::vector<std::uint64_t>;
  EXPECT_TRUE(same_shape(Ne{4}, Ne{4, 1, 1}));
  EXPECT_TRUE(same_shape(Ne{}, Ne{1}));
  EXPECT_FALSE(same_shape(Ne{4, 2}, Ne{2, 4}));
  EXPECT_FALSE(same_shape(Ne{4}, Ne{4, 0}));
  EXPECT_EQ(shape_text(Ne{4, 2}), "4 x 2");
}

}  // namespace
}  // namespace vindex::organ::model_difference_test
