// One stored matrix and its edit: encodings, slices, transposed storage, figures.
#include "commands/edit/edit_model.hpp"
#include "engine/units/matrix_loader.hpp"
#include "model/index/index_model.hpp"
#include "synth/make_model.hpp"
#include "tests/support/expect_error.hpp"
#include "tests/support/file_content.hpp"
#include "tests/support/float_model.hpp"
#include "tests/support/npy_builder.hpp"
#include "tests/support/temporary_folder.hpp"
#include "tests/write/model_folders.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <fstream>
#include <limits>
#include <map>
#include <stop_token>

namespace vindex::edit::matrix_edit_test {
namespace {

using testing::error_of;
using testing::TemporaryFolder;

std::vector<std::string> changed(const std::string& a, const std::string& b) {
  const auto before = write::tensor_content(a);
  const auto after = write::tensor_content(b);
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
  settings.kind = EditKind::kApply;
  settings.model = model;
  settings.patch = patch;
  settings.accept_unknown_base = true;
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
  const input::ModelFiles files = input::open_model(scratch / "model");
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
  const input::ModelFiles after = input::open_model(scratch / "out");
  const model::ModelIndex after_index = model::index_model(after);
  engine::SourceWatch watch(after);
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
  const input::ModelFiles files = input::open_model(scratch / "model");
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

std::string npy(const TemporaryFolder& scratch, const std::string& name, std::int64_t rows,
                std::int64_t cols, const std::vector<double>& values) {
  return scratch.write(name, testing::npy_array(values, {rows, cols}));
}

TEST(EditMatrix, CollateralIsTheSameByItsInputsAndByTheirCovariance) {
  // Over C = X^T X / n the expected squares are those over the rows of X, stored either way round;
  // the relative norm is both where C is the identity.
  const TemporaryFolder scratch;
  const std::string turned = "model.layers.0.mlp.experts.down_proj";  // gpt-oss: in x out
  const std::string plain = "model.layers.0.mlp.up_proj.weight";
  constexpr std::int64_t kIn = 40;
  constexpr std::int64_t kOut = 60;
  constexpr std::int64_t kRows = 30;
  scratch.write("plain/config.json", R"({"model_type":"llama"})");
  scratch.write("turned/config.json",
                R"({"model_type":"gpt_oss","num_local_experts":2,"hidden_size":60})");
  testing::write_safetensors(scratch / "plain/model.safetensors",
                             {testing::noise_tensor(plain, {kOut, kIn}, 3)});
  testing::write_safetensors(scratch / "turned/model.safetensors",
                             {testing::noise_tensor(turned, {2, kIn, kOut}, 4)});
  const std::vector<float> x = testing::noise_tensor("x", {kRows, kIn}, 7).values;
  std::vector<double> covariance(kIn * kIn);
  std::vector<double> identity(kIn * kIn);
  for (std::size_t i = 0; i < kIn; ++i) {
    identity[i * (kIn + 1)] = 1.0;
    for (std::size_t j = 0; j < kIn; ++j) {
      for (std::size_t row = 0; row < kRows; ++row) {
        covariance[i * kIn + j] +=
            static_cast<double>(x[row * kIn + i]) * static_cast<double>(x[row * kIn + j]) / kRows;
      }
    }
  }
  for (const bool is_turned : {false, true}) {
    const std::string patch =
        patch_of(scratch, is_turned ? turned : plain, is_turned ? 1 : -1, kOut, kIn, 1.0F);
    EditSettings settings = apply(scratch / (is_turned ? "turned" : "plain"), patch, "");
    settings.probe = npy(scratch, "x.npy", kRows, kIn, {x.begin(), x.end()});
    settings.covariance = npy(scratch, "c.npy", kIn, kIn, covariance);
    const EditResult result = edit_model(settings);
    const MatrixChange& change = result.matrices[0].change;
    ASSERT_EQ(change.probes.size(), 1U);
    const ProbeChange& probe = change.probes[0];
    ASSERT_TRUE(change.covariance);
    EXPECT_NEAR(change.covariance->change / change.covariance->before, probe.change / probe.before,
                1e-6);
    EXPECT_NEAR(change.covariance->before, probe.before / std::sqrt(double{kRows}), 1e-6);
    EXPECT_GT(probe.standard_error, 0.0);
    EXPECT_LT(probe.standard_error, 0.2 * probe.change / probe.before);
    settings.covariance = npy(scratch, "i.npy", kIn, kIn, identity);
    const MatrixChange isotropic = edit_model(settings).matrices[0].change;
    EXPECT_NEAR(isotropic.covariance->change / isotropic.covariance->before,
                isotropic.written_norm / isotropic.norm, 1e-8);
  }
}

TEST(EditMatrix, AnErrorNeedsTwoProbesAndACovarianceItsShape) {
  const TemporaryFolder scratch;
  const std::string name = "model.layers.0.mlp.up_proj.weight";
  testing::write_safetensors(scratch / "m.safetensors", {testing::noise_tensor(name, {6, 4}, 3)});
  EditSettings settings =
      apply(scratch / "m.safetensors", patch_of(scratch, name, -1, 6, 4, 1.0F), "");
  settings.probe = npy(scratch, "x.npy", 1, 4, {1.0, 2.0, 3.0, 4.0});
  const EditResult one = edit_model(settings);
  EXPECT_TRUE(std::isnan(one.matrices[0].change.probes[0].standard_error));
  EXPECT_NE(edit_json(one).find("\"standard_error\": null"), std::string::npos);
  // Two that are one: no difference between them.
  settings.probe = npy(scratch, "x.npy", 2, 4, {1.0, 2.0, 3.0, 4.0, 1.0, 2.0, 3.0, 4.0});
  EXPECT_NEAR(edit_model(settings).matrices[0].change.probes[0].standard_error, 0.0, 1e-7);
  settings.covariance = npy(scratch, "c.npy", 3, 3, std::vector<double>(9, 1.0));
  EXPECT_EQ(error_of([&] { edit_model(settings); }), "E-EDIT-SHAPE");
  settings.covariance =
      npy(scratch, "c.npy", 4, 4, {1, 1, 0, 0, 0, 1, 0, 0, 0, 0, 1, 0, 0, 0, 0, 1});
  EXPECT_EQ(error_of([&] { edit_model(settings); }), "E-EDIT-VALUES");
}

TEST(EditMatrix, NumbersThatAreNotFiniteAreRefused) {
  const double nan = std::numeric_limits<double>::quiet_NaN();
  const double infinity = std::numeric_limits<double>::infinity();
  for (const double number : {nan, infinity, -infinity}) {
    EditSettings settings;
    settings.alpha = number;
    EXPECT_EQ(error_of([&] { edit_model(settings); }), "E-USAGE");
    settings.alpha = 1.0;
    settings.ridge = number;
    EXPECT_EQ(error_of([&] { edit_model(settings); }), "E-USAGE");
  }
}

/// Groups of INT4 with the code -8, which our encoder does not write.
TEST(EditMatrix, AnEditOfNoSizeKeepsEveryByteAndATinyOneItsGroups) {
  const TemporaryFolder scratch;
  for (const std::string spec : {"kimi-k2-mini-int4", "kimi-k2-mini", "kimi-k2-mini-q8_0"}) {
    const std::string model = scratch / spec;
    synth::make_model(spec, 0, model);
    const bool gguf = spec.ends_with("q8_0");
    const bool int4 = spec.ends_with("int4");
    const std::string name =
        gguf ? "blk.1.ffn_down_exps.weight" : "model.layers.1.mlp.experts.3.down_proj.weight";
    if (int4) {  // a code of -8 in every group
      const input::ModelFiles files = input::open_model(model);
      for (const input::StoredTensor& tensor : files.tensors) {
        if (tensor.name == name + "_packed") {
          const std::string path = files.shards[static_cast<std::size_t>(tensor.shard)].path;
          std::fstream file(path, std::ios::in | std::ios::out | std::ios::binary);
          for (std::uint64_t i = 0; i < tensor.bytes; i += 16) {
            file.seekp(static_cast<std::streamoff>(tensor.offset + i));
            file.put('\0');
          }
        }
      }
    }
    const input::ModelFiles files = input::open_model(model);
    const model::ModelIndex index = model::index_model(files);
    const auto matrix =
        std::find_if(index.matrices.begin(), index.matrices.end(), [&](const auto& record) {
          return record.tensor == name && record.slice == (gguf ? 5 : -1);
        });
    ASSERT_NE(matrix, index.matrices.end()) << spec;
    const std::string patch =
        patch_of(scratch, name, gguf ? 5 : -1, matrix->rows, matrix->cols, 1.0F);
    for (const double alpha : {0.0, 2e-4}) {
      EditSettings settings = apply(model, patch, scratch / (spec + std::to_string(alpha)));
      settings.alpha = alpha;
      const EditResult result = edit_model(settings);
      const MatrixChange& change = result.matrices[0].change;
      EXPECT_LE(change.written_norm, 2.0 * change.edit_norm) << spec;
      EXPECT_EQ(change.counts.encoded, 0) << spec;
      if (alpha == 0.0 || int4) {
        EXPECT_TRUE(changed(model, settings.output).empty()) << spec << alpha;
        EXPECT_EQ(result.matrices[0].lost, alpha != 0.0);
      }
    }
  }
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
  const auto before = write::tensor_content(scratch / "m.safetensors").at(name);
  const auto after = write::tensor_content(scratch / "back.safetensors").at(name);
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
  std::stop_source stop;
  stop.request_stop();
  EditSettings settings = apply(scratch / "m.safetensors", patch, scratch / "out.safetensors");
  settings.save_patch = scratch / "saved.safetensors";
  settings.stop = stop.get_token();
  EXPECT_TRUE(edit_model(settings).stopped);
  EXPECT_EQ(testing::names_in(scratch.path()),
            (std::vector<std::string>{"m.safetensors", "patch.safetensors"}));
}

}  // namespace
}  // namespace vindex::edit::matrix_edit_test
