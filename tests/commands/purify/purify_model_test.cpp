// Whole models purified: what changes, what keeps its bytes and why, and what a stop leaves.
#include "commands/purify/purify.hpp"
#include "cpu/cpu_backend.hpp"
#include "organ/opening/open_gguf.hpp"
#include "tests/support/expect_error.hpp"
#include "tests/support/file_content.hpp"
#include "tests/support/gguf_builder.hpp"
#include "tests/support/temporary_folder.hpp"
#include <vindex/error.hpp>

#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <limits>
#include <random>
#include <stop_token>

namespace vindex::purify::purify_model_test {
namespace {

using testing::error_of;
using testing::file_text;
using testing::names_in;
using testing::TemporaryFolder;

constexpr std::uint64_t kRows = 64;
constexpr std::uint64_t kCols = 96;

/// kRows x kCols: rank 2 with a little noise, which passes the gate, or noise alone.
std::vector<float> matrix(bool has_signal, unsigned seed, float scale = 1.0F) {
  std::mt19937 random(seed);
  std::normal_distribution<float> normal;
  std::vector<float> left(2 * kRows);
  std::vector<float> right(2 * kCols);
  std::generate(left.begin(), left.end(), [&] { return normal(random); });
  std::generate(right.begin(), right.end(), [&] { return normal(random); });
  std::vector<float> out;
  for (std::uint64_t i = 0; i < kRows; ++i) {
    for (std::uint64_t j = 0; j < kCols; ++j) {
      const float signal = left[2 * i] * right[2 * j] + left[2 * i + 1] * right[2 * j + 1];
      out.push_back(scale * (has_signal ? signal + 0.2F * normal(random) : normal(random)));
    }
  }
  return out;
}

/// A model of F32 tensors [kCols, kRows, ...].
class ModelOfMatrices {
 public:
  ModelOfMatrices& add(const std::string& name, const std::vector<std::vector<float>>& stack) {
    std::vector<std::uint64_t> dimensions = {kCols, kRows};
    if (stack.size() > 1) {
      dimensions.push_back(stack.size());
    }
    builder_.tensor(name, dimensions, 0, builder_.data.size());
    for (const std::vector<float>& values : stack) {
      builder_.data.append(reinterpret_cast<const char*>(values.data()),
                           values.size() * sizeof(float));
    }
    return *this;
  }
  std::string bytes() {
    builder_.key_string("general.architecture", "llama").key_u32("llama.block_count", 1);
    return builder_.bytes();
  }

 private:
  testing::GgufBuilder builder_;
};

Backend& backend() {
  static const auto kBackend = cpu::make_cpu_backend(2);
  return *kBackend;
}

PurifyOptions options_in(const TemporaryFolder& folder) {
  PurifyOptions options;
  options.ram_budget = std::uint64_t{1} << 30U;
  options.scratch_folder = folder.path();
  return options;
}

std::string tensor_bytes(const std::string& path, const std::string& name) {
  const auto model = organ::open_gguf(path);
  const organ::OrganTensor& tensor = model->tensors().at(model->find(name).value());
  std::string out(tensor.bytes, '\0');
  model->read(tensor, 0, std::as_writable_bytes(std::span(out)));
  return out;
}

TEST(PurifyModelTest, NoiseComesBackByteForByteAndSoDoesTheFile) {
  const TemporaryFolder folder;
  const std::string bytes =
      ModelOfMatrices().add("blk.0.attn_q.weight", {matrix(false, 1)}).bytes();
  const auto source = organ::open_gguf(folder.write("noise.gguf", bytes));
  for (const PurifyMethod method :
       {PurifyMethod::kSvdShrink, PurifyMethod::kSvdGd, PurifyMethod::kLaser, PurifyMethod::kFft,
        PurifyMethod::kHaar, PurifyMethod::kHaarBayes}) {
    PurifyOptions options = options_in(folder);
    options.rule.method = method;
    const PurifyResult result = purify_model(*source, backend(), options);
    ASSERT_EQ(result.tensors.size(), 1U);
    EXPECT_EQ(result.tensors[0].matrices[0].outcome, "no rank") << method_name(method);
    EXPECT_EQ(result.tensors[0].noise_kept.value(),
              noise_kept(options.rule, result.tensors[0].rows, result.tensors[0].cols));
    EXPECT_NE(purify_text(*source, result, {}, 80).find("of pure noise of these shapes"),
              std::string::npos);
    EXPECT_TRUE(write_results(*source, result, {.output = folder / "out.gguf", .replace = true}));
    EXPECT_EQ(file_text(folder / "out.gguf"), bytes) << method_name(method);
  }
  // Shrinkage of noise would be the zero matrix: not even --accept-findings writes that.
  PurifyOptions forced = options_in(folder);
  forced.gate.force = true;
  const PurifyResult result = purify_model(*source, backend(), forced);
  EXPECT_EQ(result.changed_count(), 0U);
}

TEST(PurifyModelTest, AStackChangesMatrixByMatrix) {
  const TemporaryFolder folder;
  std::vector<float> holed = matrix(true, 4);
  holed[7] = std::numeric_limits<float>::quiet_NaN();
  const std::vector<std::vector<float>> stack = {matrix(true, 2), matrix(false, 3), holed};
  const auto source = organ::open_gguf(
      folder.write("stack.gguf", ModelOfMatrices().add("blk.0.ffn_up_exps.weight", stack).bytes()));
  const PurifyResult result = purify_model(*source, backend(), options_in(folder));
  const std::vector<PurifiedMatrix>& matrices = result.tensors.at(0).matrices;
  ASSERT_EQ(matrices.size(), 3U);
  EXPECT_EQ(matrices[0].outcome, "purified");
  EXPECT_EQ(matrices[0].rank, 2);
  EXPECT_LT(matrices[0].residual, 1e-5);
  EXPECT_EQ(matrices[1].outcome, "no rank");
  EXPECT_EQ(matrices[2].outcome, "not finite");
  EXPECT_FALSE(matrices[2].reason.empty());
  ASSERT_TRUE(write_results(*source, result, {.output = folder / "out.gguf"}));
  const std::string before = tensor_bytes(folder / "stack.gguf", "blk.0.ffn_up_exps.weight");
  const std::string after = tensor_bytes(folder / "out.gguf", "blk.0.ffn_up_exps.weight");
  const std::size_t one = before.size() / 3;
  EXPECT_NE(before.substr(0, one), after.substr(0, one));
  EXPECT_EQ(before.substr(one), after.substr(one));

  // A new type is one for the whole stack, and NaN has no block code.
  PurifyOptions typed = options_in(folder);
  typed.out_type = decode::ElementType::kQ8_0;
  const PurifyResult refused = purify_model(*source, backend(), typed);
  EXPECT_EQ(refused.changed_count(), 0U);
  EXPECT_EQ(refused.tensors.at(0).matrices[0].reason,
            "matrix 2 of the stack cannot be stored as Q8_0");
}

TEST(PurifyModelTest, WhatATypeCannotHoldStays) {
  const TemporaryFolder folder;
  const auto source = organ::open_gguf(folder.write(
      "large.gguf", ModelOfMatrices().add("blk.0.ffn_up.weight", {matrix(true, 5, 1e5F)}).bytes()));
  PurifyOptions options = options_in(folder);
  options.out_type = decode::ElementType::kF16;
  const PurifyResult result = purify_model(*source, backend(), options);
  EXPECT_EQ(result.changed_count(), 0U);
  EXPECT_EQ(result.tensors.at(0).matrices[0].reason, "a weight is beyond what F16 holds");
  options.out_type = decode::ElementType::kBF16;
  EXPECT_EQ(purify_model(*source, backend(), options).changed_count(), 1U);
  options.out_type = decode::ElementType::kQ4_K;
  EXPECT_EQ(purify_model(*source, backend(), options).tensors.at(0).skipped,
            "no encoder for Q4_K: --out-type F16, BF16, Q8_0 or Q4_0 stores it");
}

TEST(PurifyModelTest, FactorsAloneAskForNoEncoder) {
  const TemporaryFolder folder;
  const auto source = organ::open_gguf(folder.write(
      "m.gguf", ModelOfMatrices().add("blk.0.ffn_up.weight", {matrix(true, 5)}).bytes()));
  PurifyOptions options = options_in(folder);
  options.encode = false;
  options.keep_weights = false;
  options.keep_factors = true;
  options.factor_type = decode::ElementType::kF16;
  const PurifyResult result = purify_model(*source, backend(), options);
  EXPECT_FALSE(result.tensors.at(0).matrices[0].requantisation_error.has_value());
  ASSERT_TRUE(write_results(*source, result, {.factors = folder / "f.safetensors"}));
  const std::string text = file_text(folder / "f.safetensors");
  EXPECT_NE(text.find(R"("blk.0.ffn_up.weight.a":{"dtype":"F16","shape":[2,96])"),
            std::string::npos);
  EXPECT_NE(text.find(R"("blk.0.ffn_up.weight.b":{"dtype":"F16","shape":[64,2])"),
            std::string::npos);
  EXPECT_LT(text.size(), kRows * kCols);  // the only form that saves memory
}

TEST(PurifyModelTest, AStopLeavesNothing) {
  const TemporaryFolder folder;
  const auto source = organ::open_gguf(folder.write(
      "m.gguf", ModelOfMatrices().add("blk.0.ffn_up.weight", {matrix(true, 5)}).bytes()));
  std::stop_source stop;
  PurifyOptions options = options_in(folder);
  options.stop = stop.get_token();
  options.keep_factors = true;
  const PurifyResult whole = purify_model(*source, backend(), options);
  EXPECT_FALSE(whole.stopped);
  stop.request_stop();
  EXPECT_TRUE(purify_model(*source, backend(), options).stopped);
  EXPECT_FALSE(write_results(*source, whole,
                             {.output = folder / "o.gguf", .factors = folder / "f.safetensors"}));
  EXPECT_EQ(names_in(folder.path()), std::vector<std::string>{"m.gguf"});
}

TEST(PurifyModelTest, TheBudgetNamesWhatIsNeeded) {
  const TemporaryFolder folder;
  const auto source = organ::open_gguf(folder.write(
      "m.gguf", ModelOfMatrices().add("blk.0.ffn_up.weight", {matrix(true, 5)}).bytes()));
  PurifyOptions options = options_in(folder);
  options.ram_budget = 1000;
  const std::string error = error_of([&] { purify_model(*source, backend(), options); });
  EXPECT_EQ(error.rfind("E-BUDGET", 0), 0U) << error;
}

TEST(PurifyModelTest, MatricesOfLowRankAreNoReasonToStop) {
  const TemporaryFolder folder;
  std::vector<float> rank_two = matrix(true, 6, 1.0F);
  for (std::uint64_t i = 0; i < kRows; ++i) {
    for (std::uint64_t j = 0; j < kCols; ++j) {
      rank_two[i * kCols + j] = static_cast<float>(i % 5) * static_cast<float>(j % 7) +
                                static_cast<float>(i % 3) * static_cast<float>(j % 2);
    }
  }
  std::vector<float> one(kRows * kCols, 0.0F);
  one[7] = 1.0F;
  const std::vector<std::vector<float>> stack = {std::vector<float>(kRows * kCols, 0.0F),
                                                 std::vector<float>(kRows * kCols, 0.5F), rank_two,
                                                 one};
  const auto source = organ::open_gguf(
      folder.write("m.gguf", ModelOfMatrices().add("blk.0.ffn_up_exps.weight", stack).bytes()));
  for (int i = 0; i < static_cast<int>(PurifyMethod::kCount); ++i) {
    PurifyOptions options = options_in(folder);
    options.rule.method = static_cast<PurifyMethod>(i);
    options.rule.rank_share = 0.5;
    options.gate.force = true;
    options.gate.energy_cap = 1.0;
    options.keep_weights = true;
    const std::string_view name = method_name(options.rule.method);
    const PurifyResult result = purify_model(*source, backend(), options);
    const std::vector<PurifiedMatrix>& matrices = result.tensors.at(0).matrices;
    EXPECT_EQ(matrices[0].outcome, "zero") << name;
    EXPECT_FALSE(matrices[0].changed) << name;
    for (std::size_t k = 1; k < matrices.size(); ++k) {
      EXPECT_NE(matrices[k].outcome, "failed") << name << " " << k << ": " << matrices[k].reason;
    }
    if (options.rule.method == PurifyMethod::kLaser) {  // half of the values; there are two at most
      EXPECT_EQ(matrices[1].rank, 1);
      EXPECT_EQ(matrices[2].rank, 2);
      EXPECT_LT(matrices[2].change->relative_change, 1e-6);
    }
    ASSERT_TRUE(write_results(*source, result, {.output = folder / "out.gguf", .replace = true}));
    const auto written = tensor_bytes(folder / "out.gguf", "blk.0.ffn_up_exps.weight");
    EXPECT_EQ(written.substr(0, kRows * kCols * 4), std::string(kRows * kCols * 4, '\0')) << name;
  }
}

TEST(PurifyModelTest, NoInputIsWrittenOver) {
  const TemporaryFolder folder;
  const std::string path = folder.write(
      "m.gguf", ModelOfMatrices().add("blk.0.ffn_up.weight", {matrix(true, 5)}).bytes());
  const auto source = organ::open_gguf(path);
  for (const PurifyTargets& targets :
       {PurifyTargets{.output = path, .replace = true}, PurifyTargets{.factors = path}}) {
    const std::string error = error_of([&] { require_free_targets(*source, targets); });
    EXPECT_EQ(error.rfind("E-OUTPUT-SOURCE", 0), 0U) << error;
  }
  folder.write("there.gguf", "x");
  const std::string error =
      error_of([&] { require_free_targets(*source, {.output = folder / "there.gguf"}); });
  EXPECT_EQ(error.rfind("E-OUTPUT-EXISTS", 0), 0U) << error;
}

}  // namespace
}  // namespace vindex::purify::purify_model_test
