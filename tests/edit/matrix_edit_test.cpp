// One stored matrix and its edit: encodings, slices, transposed storage, figures.
#include "support/expect_error.hpp"
#include "support/file_content.hpp"
#include "support/float_model.hpp"
#include "support/temporary_folder.hpp"

#include <vindex/edit/edit_model.hpp>
#include <vindex/run/matrix_loader.hpp>
#include <vindex/synth/synth.hpp>

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <map>

namespace vindex::edit {
namespace {

using testing::error_of;
using testing::TemporaryFolder;

std::map<std::string, std::string> tensor_bytes(const std::string& model) {
  const shard::ModelFiles files = shard::open_model(model);
  std::map<std::string, std::string> content;
  for (const shard::StoredTensor& tensor : files.tensors) {
    std::string& bytes = content[tensor.name];
    bytes.resize(tensor.bytes);
    files.shards[static_cast<std::size_t>(tensor.shard)].source->read(
        tensor.offset, std::as_writable_bytes(std::span(bytes)));
  }
  return content;
}

std::vector<std::string> changed(const std::string& a, const std::string& b) {
  const auto before = tensor_bytes(a);
  const auto after = tensor_bytes(b);
  EXPECT_EQ(before.size(), after.size());
  std::vector<std::string> names;
  for (const auto& [name, bytes] : before) {
    if (after.at(name) != bytes) {
      names.push_back(name);
    }
  }
  return names;
}

/// The patch of a random rank-2 edit of `tensor`, `size` of a normal's.
std::string patch_of(const TemporaryFolder& scratch, const std::string& tensor, std::int32_t slice,
                     std::int64_t rows, std::int64_t cols, float size) {
  PatchEntry entry;
  entry.tensor = tensor;
  entry.slice = slice;
  entry.edit = {rows, cols, 2, testing::noise_tensor("a", {2, cols}, 5).values,
                testing::noise_tensor("b", {rows, 2}, 6).values};
  for (float& value : entry.edit.b) {
    value *= size;
  }
  AtomicFile file(scratch / "patch.safetensors");
  write_patch(file, {entry}, "test");
  file.publish();
  return scratch / "patch.safetensors";
}

EditSettings apply(const std::string& model, const std::string& patch, const std::string& out) {
  EditSettings settings;
  settings.verb = EditVerb::kApply;
  settings.model = model;
  settings.patch = patch;
  settings.output = out;
  return settings;
}

struct Case {
  const char* spec;
  const char* tensor;
  std::int32_t slice;
  std::vector<std::string> touched;
};

class WritableEncodings : public ::testing::TestWithParam<Case> {};

TEST_P(WritableEncodings, ChangeCodesAndScalesOfTheMatrixAlone) {
  const Case& the = GetParam();
  const TemporaryFolder scratch;
  synth::make_model(the.spec, 0, scratch / "model");
  const shard::ModelFiles files = shard::open_model(scratch / "model");
  const model::ModelIndex index = model::index_model(files);
  const auto matrix = std::find_if(
      index.matrices.begin(), index.matrices.end(),
      [&](const auto& record) { return record.tensor == the.tensor && record.slice == the.slice; });
  ASSERT_NE(matrix, index.matrices.end());
  const std::string patch = patch_of(scratch, the.tensor, the.slice, matrix->rows, matrix->cols, 1);
  const EditResult result = edit_model(apply(scratch / "model", patch, scratch / "out"));
  EXPECT_EQ(changed(scratch / "model", scratch / "out"), the.touched);
  ASSERT_EQ(result.matrices.size(), 1U);
  const MatrixChange& change = result.matrices[0].change;
  EXPECT_LT(change.encoding_norm, 0.2 * change.norm);
  EXPECT_GT(change.arrived, 0.9);
  // What the report says is what the file holds.
  const shard::ModelFiles after = shard::open_model(scratch / "out");
  const model::ModelIndex after_index = model::index_model(after);
  run::SourceWatch watch(after);
  const auto written = std::find_if(
      after_index.matrices.begin(), after_index.matrices.end(),
      [&](const auto& record) { return record.tensor == the.tensor && record.slice == the.slice; });
  EXPECT_EQ(weights_digest(watch, *written), change.after);
  EXPECT_NE(change.before, change.after);
}

INSTANTIATE_TEST_SUITE_P(
    EditMatrix, WritableEncodings,
    ::testing::Values(Case{"kimi-k2-mini",
                           "model.layers.1.mlp.experts.3.down_proj.weight",
                           -1,
                           {"model.layers.1.mlp.experts.3.down_proj.weight",
                            "model.layers.1.mlp.experts.3.down_proj.weight_scale_inv"}},
                      Case{"kimi-k2-mini-int4",
                           "model.layers.1.mlp.experts.3.down_proj.weight",
                           -1,
                           {"model.layers.1.mlp.experts.3.down_proj.weight_packed",
                            "model.layers.1.mlp.experts.3.down_proj.weight_scale"}},
                      Case{"kimi-k2-mini-bf16",
                           "model.layers.1.mlp.experts.3.up_proj.weight",
                           -1,
                           {"model.layers.1.mlp.experts.3.up_proj.weight"}},
                      Case{"kimi-k2-mini-q8_0",
                           "blk.1.ffn_down_exps.weight",
                           5,
                           {"blk.1.ffn_down_exps.weight"}}));

TEST(EditMatrix, AnEditBelowTheStepIsLostAndSaidSo) {
  const TemporaryFolder scratch;
  synth::make_model("kimi-k2-mini-bf16", 0, scratch / "model");
  const std::string name = "model.layers.1.mlp.experts.3.up_proj.weight";
  const shard::ModelFiles files = shard::open_model(scratch / "model");
  const model::ModelIndex index = model::index_model(files);
  const auto matrix = std::find_if(index.matrices.begin(), index.matrices.end(),
                                   [&](const auto& record) { return record.tensor == name; });
  for (const float size : {1.0F, 1e-7F}) {
    const std::string patch = patch_of(scratch, name, -1, matrix->rows, matrix->cols, size);
    EditSettings settings =
        apply(scratch / "model", patch, scratch / (size == 1.0F ? "large" : "small"));
    const EditResult result = edit_model(settings);
    EXPECT_EQ(result.matrices[0].lost, size != 1.0F);
    const bool said = std::any_of(result.warnings.begin(), result.warnings.end(),
                                  [](const auto& warning) { return warning.id == "W-EDIT-LOST"; });
    EXPECT_EQ(said, size != 1.0F);
  }
  // Nothing arrived, so nothing changed.
  EXPECT_TRUE(changed(scratch / "model", scratch / "small").empty());
}

TEST(EditMatrix, ACollateralOfRandomDirectionsIsTheRelativeNorm) {
  // Over many inputs |D X| / |W X| tends to |D| / |W|; 256 of them give it to some percent.
  const TemporaryFolder scratch;
  testing::write_safetensors(
      scratch / "m.safetensors",
      {testing::noise_tensor("model.layers.0.mlp.up_proj.weight", {300, 200}, 3)});
  const std::string patch =
      patch_of(scratch, "model.layers.0.mlp.up_proj.weight", -1, 300, 200, 1.0F);
  const EditResult result =
      edit_model(apply(scratch / "m.safetensors", patch, scratch / "out.safetensors"));
  const MatrixChange& change = result.matrices[0].change;
  const ProbeChange& random = change.probes[0];
  EXPECT_NEAR(random.change / random.before / (change.edit_norm / change.norm), 1.0, 0.15);
  // The draw is the same in every run.
  const Probe again = random_probe(200);
  EXPECT_EQ(again.inputs, random_probe(200).inputs);
  double sum = 0.0;
  double squares = 0.0;
  for (const float value : again.inputs) {
    sum += value;
    squares += static_cast<double>(value) * value;
  }
  const auto count = static_cast<double>(again.inputs.size());
  EXPECT_NEAR(sum / count, 0.0, 4.0 / std::sqrt(count));
  EXPECT_NEAR(squares / count, 1.0, 4.0 * std::sqrt(2.0 / count));
}

TEST(EditMatrix, UndoneToRoundingInFloat32) {
  const TemporaryFolder scratch;
  const std::string name = "model.layers.0.mlp.up_proj.weight";
  testing::write_safetensors(scratch / "m.safetensors", {testing::noise_tensor(name, {60, 40}, 3)});
  const std::string patch = patch_of(scratch, name, -1, 60, 40, 1.0F);
  EditSettings there = apply(scratch / "m.safetensors", patch, scratch / "there.safetensors");
  there.save_patch = scratch / "saved.safetensors";
  edit_model(there);
  EditSettings back = apply(scratch / "there.safetensors", scratch / "saved.safetensors",
                            scratch / "back.safetensors");
  back.alpha = -1.0;
  edit_model(back);
  const auto before = tensor_bytes(scratch / "m.safetensors").at(name);
  const auto after = tensor_bytes(scratch / "back.safetensors").at(name);
  for (std::size_t i = 0; i < before.size(); i += sizeof(float)) {
    float a = 0.0F;
    float b = 0.0F;
    std::memcpy(&a, before.data() + i, sizeof a);
    std::memcpy(&b, after.data() + i, sizeof b);
    ASSERT_NEAR(a, b, 1e-7F) << i;
  }
}

TEST(EditMatrix, WeightsThatAreNotFiniteAreRefused) {
  const TemporaryFolder scratch;
  auto tensor = testing::noise_tensor("model.layers.0.mlp.up_proj.weight", {4, 4}, 3);
  tensor.values[7] = std::numeric_limits<float>::infinity();
  testing::write_safetensors(scratch / "m.safetensors", {tensor});
  const std::string patch = patch_of(scratch, tensor.name, -1, 4, 4, 1.0F);
  EXPECT_EQ(error_of([&] {
              edit_model(apply(scratch / "m.safetensors", patch, scratch / "out.safetensors"));
            }),
            "E-EDIT-VALUES");
  EXPECT_EQ(testing::names_in(scratch.path()),
            (std::vector<std::string>{"m.safetensors", "patch.safetensors"}));
}

TEST(EditMatrix, AStopLeavesNothing) {
  const TemporaryFolder scratch;
  const std::string name = "model.layers.0.mlp.up_proj.weight";
  testing::write_safetensors(scratch / "m.safetensors", {testing::noise_tensor(name, {60, 40}, 3)});
  const std::string patch = patch_of(scratch, name, -1, 60, 40, 1.0F);
  const std::atomic<int> stop = 15;
  EditSettings settings = apply(scratch / "m.safetensors", patch, scratch / "out.safetensors");
  settings.save_patch = scratch / "saved.safetensors";
  settings.stop = &stop;
  EXPECT_TRUE(edit_model(settings).stopped);
  EXPECT_EQ(testing::names_in(scratch.path()),
            (std::vector<std::string>{"m.safetensors", "patch.safetensors"}));
}

}  // namespace
}  // namespace vindex::edit
