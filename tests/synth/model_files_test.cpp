// The models as the rest of the project sees them: opened, indexed, decoded and held against their
// truth.json and LAPACK.
#include "input/model_files.hpp"

#include "decode/decode_matrix.hpp"
#include "input/open/open_model.hpp"
#include "model/index/index_model.hpp"
#include "model/model_index.hpp"
#include "synth/make_model.hpp"
#include "synth/model_plan.hpp"
#include "tests/support/singular_values.hpp"
#include "tests/support/temporary_folder.hpp"

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include <cmath>
#include <fstream>
#include <map>
#include <span>
#include <string>
#include <utility>
#include <vector>

namespace vindex::synth::model_files_test {
namespace {

using testing::TemporaryFolder;

using Json = nlohmann::json;
using Key = std::pair<std::string, int>;  // tensor, slice

std::vector<std::byte> read_part(const input::ModelFiles& files, const model::TensorPart& part) {
  const input::StoredTensor& tensor = files.tensors[static_cast<std::size_t>(part.tensor)];
  std::vector<std::byte> bytes(part.bytes);
  files.shards[static_cast<std::size_t>(tensor.shard)].source->read(part.offset, bytes);
  return bytes;
}

std::vector<float> decoded(const input::ModelFiles& files, const model::MatrixRecord& record) {
  decode::EncodedMatrix matrix;
  matrix.encoding = &record.encoding;
  matrix.rows = record.stored_rows();
  matrix.cols = record.stored_cols();
  const auto codes = read_part(files, record.codes);
  matrix.codes = codes.data();
  matrix.row_stride_bytes = static_cast<std::int64_t>(codes.size()) / matrix.rows;
  std::vector<std::vector<std::byte>> held;
  for (const model::CompanionPart& part : record.companions) {
    held.push_back(read_part(files, part.part));
    matrix.companions[static_cast<std::size_t>(matrix.companion_count++)] = {
        part.role, part.type, part.part.rows, part.part.cols, held.back()};
  }
  std::vector<float> out(static_cast<std::size_t>(matrix.rows * matrix.cols));
  decode::decode_matrix(matrix, out.data(), matrix.cols);
  return out;
}

double norm_of(std::span<const double> values) {
  double square = 0.0;
  for (const double value : values) {
    square += value * value;
  }
  return std::sqrt(square);
}

// Planted in the miniature: 32 experts, 9 of shared experts, 12 of attention, 3 routers, one dense
// gate and the output.
constexpr int kPlantedInMini = 58;

// Holds every matrix of the model against its row of truth.json; returns how many planted spectra
// were compared. `relative`: what every singular value may be off by, in units of the largest.
int check_against_truth(const std::string& folder, double relative) {
  const input::ModelFiles files = input::open_model(folder);
  const model::ModelIndex index = model::index_model(files);
  for (const auto* warnings : {&files.warnings, &index.warnings}) {
    for (const Warning& warning : *warnings) {
      ADD_FAILURE() << warning.id << ": " << warning.text;
    }
  }
  std::ifstream in(folder + "/truth.json");
  const Json truth = Json::parse(in);
  std::map<Key, const Json*> rows;
  for (const Json& row : truth["tensors"]) {
    EXPECT_TRUE(rows.emplace(Key(row["tensor"], row["slice"]), &row).second) << row["tensor"];
  }
  EXPECT_EQ(index.matrices.size(), rows.size());

  int compared = 0;
  for (const model::MatrixRecord& record : index.matrices) {
    SCOPED_TRACE(record.tensor + "#" + std::to_string(record.slice));
    EXPECT_EQ(record.unsupported, "");
    const auto found = rows.find({record.tensor, record.slice});
    if (found == rows.end()) {
      ADD_FAILURE() << "no row in truth.json";
      continue;
    }
    const Json& row = *found->second;
    EXPECT_EQ(record.rows, row["rows"]);
    EXPECT_EQ(record.cols, row["cols"]);
    EXPECT_EQ(record.encoding.label, row["encoding"]);
    const auto weights = decoded(files, record);
    const std::vector<double> wide(weights.begin(), weights.end());
    const double norm = row["frobenius_norm"];
    const double error = row["error_norm"];
    EXPECT_NEAR(norm_of(wide), norm, error + 1e-6 * norm);
    if (!row.contains("singular_values")) {
      continue;
    }
    const std::vector<double> planted = row["singular_values"];
    const auto measured =
        vindex::testing::singular_values(weights, record.stored_rows(), record.stored_cols());
    if (planted.size() != measured.size()) {
      ADD_FAILURE() << "planted " << planted.size() << " of " << measured.size();
      continue;
    }
    std::vector<double> difference;
    double worst = 0.0;
    for (std::size_t i = 0; i < planted.size(); ++i) {
      difference.push_back(measured[i] - planted[i]);
      worst = std::max(worst, std::abs(difference.back()));
    }
    // Mirsky: the singular values move together by no more than the error's Frobenius norm.
    EXPECT_LE(norm_of(difference), error + 1e-6 * planted[0]);
    EXPECT_LE(worst, relative * planted[0]);
    ++compared;
  }
  return compared;
}

TEST(MiniModel, Bf16HoldsWhatWasPlanted) {
  const TemporaryFolder scratch;
  make_model("kimi-k2-mini-bf16", 3, scratch / "m");
  EXPECT_EQ(check_against_truth(scratch / "m", 3e-3), kPlantedInMini);
}

TEST(MiniModel, Fp8HoldsWhatWasPlantedWithinItsError) {
  const TemporaryFolder scratch;
  make_model("kimi-k2-mini", 3, scratch / "m");
  EXPECT_EQ(check_against_truth(scratch / "m", 0.03), kPlantedInMini);
}

TEST(MiniModel, Int4HoldsWhatWasPlantedWithinItsError) {
  const TemporaryFolder scratch;
  make_model("kimi-k2-mini-int4", 3, scratch / "m");
  EXPECT_EQ(check_against_truth(scratch / "m", 0.06), kPlantedInMini);
}

TEST(MiniModel, GgufHoldsWhatWasPlantedInStacksOfExperts) {
  const TemporaryFolder scratch;
  make_model("kimi-k2-mini-q8_0", 3, scratch / "m");
  EXPECT_EQ(check_against_truth(scratch / "m", 0.01), kPlantedInMini);
}

TEST(MiniModel, IsWhatItsConfigSays) {
  const TemporaryFolder scratch;
  for (const char* spec : {"kimi-k2-mini", "kimi-k2-mini-q8_0"}) {
    SCOPED_TRACE(spec);
    const std::string folder = scratch / spec;
    make_model(spec, 0, folder);
    const auto shape = model::index_model(input::open_model(folder)).shape;
    EXPECT_EQ(shape.layers, 4);
    EXPECT_EQ(shape.experts, 16);
    EXPECT_EQ(shape.experts_per_token, 4);
    EXPECT_EQ(shape.shared_experts, 1);
    EXPECT_EQ(shape.dense_first_layers, 1);
  }
}

TEST(MiniModel, KeyPartOfAHeadIsTransposedAndTheValuePartIsNot) {
  const TemporaryFolder scratch;
  make_model("kimi-k2-mini-bf16", 0, scratch / "hf");
  make_model("kimi-k2-mini-q8_0", 0, scratch / "gguf");
  const auto find = [](const model::ModelIndex& index, const std::string& name, int slice) {
    for (const model::MatrixRecord& record : index.matrices) {
      if (record.tensor == name && record.slice == slice) {
        return record;
      }
    }
    ADD_FAILURE() << name;
    return model::MatrixRecord();
  };
  const auto hf = input::open_model(scratch / "hf");
  const auto gguf = input::open_model(scratch / "gguf");
  const auto gguf_index = model::index_model(gguf);
  const auto joint =
      decoded(hf, find(model::index_model(hf), "model.layers.2.self_attn.kv_b_proj.weight", -1));
  const auto keys = decoded(gguf, find(gguf_index, "blk.2.attn_k_b.weight", 5));
  const auto values = decoded(gguf, find(gguf_index, "blk.2.attn_v_b.weight", 5));
  // Per head 32 rows of keys, then 32 of values; 64 columns.
  for (std::size_t row = 0; row < 32; ++row) {
    for (std::size_t col = 0; col < 64; ++col) {
      ASSERT_NEAR(keys[col * 32 + row], joint[(5 * 64 + row) * 64 + col], 0.01);
      ASSERT_NEAR(values[row * 64 + col], joint[(5 * 64 + 32 + row) * 64 + col], 0.01);
    }
  }
}

TEST(LayerModel, EveryEncodingTakesEveryKind) {
  const TemporaryFolder scratch;
  for (const std::string encoding : {"fp8", "int4", "bf16"}) {
    for (const std::string kind :
         {"", ":gaussian", ":powerlaw", ":spiked", ":rowscale", ":trained"}) {
      const std::string spec = "layer:2x96x64:" + encoding + kind;
      SCOPED_TRACE(spec);
      const std::string folder =
          scratch / encoding + kind.substr(std::min<std::size_t>(1, kind.size()));
      make_model(spec, 1, folder);
      const int planted = kind == ":trained" ? 6 : kind == ":powerlaw" ? 2 : 0;
      EXPECT_EQ(check_against_truth(folder, 0.06), planted);
    }
  }
}

TEST(LayerModel, ShardsStayBelowTheirLimit) {
  const TemporaryFolder scratch;
  ModelPlan plan = plan_layer(5, 96, 64, Variant::kFp8, Kind::kPowerlaw, "five", 1);
  plan.shard_bytes = 13'000;  // two matrices of 6144 bytes and their scales
  write::OutputFolder folder(scratch / "m");
  write_huggingface_model(plan, folder);
  const auto files = input::open_model(scratch / "m");
  ASSERT_EQ(files.shards.size(), 3U);
  EXPECT_EQ(files.shards[2].file_name, "model-00003-of-00003.safetensors");
  for (const auto& shard : files.shards) {
    EXPECT_LE(shard.identity.bytes, 13'000U + 1000U);
  }
  EXPECT_EQ(check_against_truth(scratch / "m", 0.03), 5);
}

TEST(LayerModel, HasPartialBlocksAtBothEdges) {
  const TemporaryFolder scratch;
  make_model("layer:1x130x200:fp8:powerlaw", 1, scratch / "m");
  EXPECT_EQ(check_against_truth(scratch / "m", 0.03), 1);
  make_model("layer:1x1x7:bf16", 1, scratch / "row");
  EXPECT_EQ(check_against_truth(scratch / "row", 0.03), 0);
}

}  // namespace
}  // namespace vindex::synth::model_files_test
