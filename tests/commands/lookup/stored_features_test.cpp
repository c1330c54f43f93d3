// A file of gate vectors beside the weights that it was made of, and files that are none.
#include "commands/lookup/store/stored_features.hpp"

#include "feature_model.hpp"

#include "commands/lookup/store/store_features.hpp"
#include "tests/support/expect_error.hpp"
#include "tests/support/file_content.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <cstdint>
#include <cstring>
#include <filesystem>
#include <limits>
#include <random>
#include <string>
#include <utility>
#include <vector>

namespace vindex::commands::stored_features_test {
namespace {

constexpr std::int64_t kWidth = 12, kFeatures = 20, kVocabulary = 15;

std::vector<float> noise(std::int64_t count, unsigned seed) {
  std::mt19937 random(seed);
  std::normal_distribution<float> normal;
  std::vector<float> values(static_cast<std::size_t>(count));
  for (float& value : values) {
    value = normal(random);
  }
  return values;
}

class StoredFeaturesTest : public ::testing::Test {
 protected:
  StoredFeaturesTest() {
    std::vector<testing::TypedTensor> tensors = {
        testing::float_tensor("model.embed_tokens.weight", kVocabulary, kWidth,
                              noise(kVocabulary * kWidth, 1)),
        testing::float_tensor("lm_head.weight", kVocabulary, kWidth, output_)};
    for (int layer = 0; layer < 2; ++layer) {
      tensors.push_back(testing::float_tensor(testing::mlp_name(layer, "gate_proj"), kFeatures,
                                              kWidth, gates_.at(static_cast<std::size_t>(layer))));
      tensors.push_back(testing::float_tensor(testing::mlp_name(layer, "down_proj"), kWidth,
                                              kFeatures,
                                              downs_.at(static_cast<std::size_t>(layer))));
    }
    StoreSettings settings;
    settings.run.model = testing::write_feature_model(folder_, "model", tensors);
    settings.run.output = file_;
    settings.run.threads = 1;
    settings.run.ram_budget = std::uint64_t{1} << 30U;
    settings.tokens_out = 4;
    store_features(settings, {});
  }
  /// The file with `count` bytes put over it at `at`.
  void damage(std::size_t at, char by) const {
    std::string bytes = testing::file_text(file_);
    bytes.at(at) = static_cast<char>(bytes.at(at) ^ by);
    folder_.write("gates.h5", bytes);
  }

  const std::vector<float> output_ = noise(kVocabulary * kWidth, 2);
  const std::vector<std::vector<float>> gates_ = {noise(kFeatures * kWidth, 3),
                                                  noise(kFeatures* kWidth, 4)};
  const std::vector<std::vector<float>> downs_ = {noise(kFeatures * kWidth, 5),
                                                  noise(kFeatures* kWidth, 6)};
  testing::TemporaryFolder folder_;
  const std::string file_ = folder_.file("gates.h5");
};

TEST_F(StoredFeaturesTest, ItsMatricesHoldTheRowsOfGateProj) {
  ASSERT_TRUE(is_stored_features(file_));
  const auto stored = open_stored_features(file_);
  EXPECT_EQ(stored->made_of(), folder_.file("model"));
  EXPECT_EQ(stored->most_tokens(), 4);
  EXPECT_EQ(stored->output(), -1);
  ASSERT_GE(stored->embedding(), 0);
  const auto features = stored->features({}, model::FeatureRole::kGate);
  ASSERT_EQ(features.size(), 2U);
  for (std::size_t layer = 0; layer < features.size(); ++layer) {
    const auto& record =
        stored->index().matrices.at(static_cast<std::size_t>(features[layer].matrix));
    EXPECT_EQ(record.layer, static_cast<int>(layer));
    EXPECT_EQ(record.rows, kFeatures);
    EXPECT_EQ(record.cols, kWidth);
    std::vector<float> rows(kFeatures * kWidth);
    stored->files().shards.at(0).source->read(record.codes.offset,
                                              std::as_writable_bytes(std::span(rows)));
    EXPECT_EQ(rows, gates_[layer]);
  }
  EXPECT_EQ(testing::outcome_of([&] { (void)stored->features({}, model::FeatureRole::kUp); }),
            "E-NOTHING 66");
}

// cos(gate, down) and the entries that down raises, from their definitions in float64.
TEST_F(StoredFeaturesTest, DescribesFeaturesAsTheirDefinitionsDo) {
  const auto stored = open_stored_features(file_);
  const auto features = stored->features({}, model::FeatureRole::kGate);
  std::vector<FeatureKey> keys;
  for (std::int64_t layer = 0; layer < 2; ++layer) {
    for (std::int64_t feature = 0; feature < kFeatures; feature += 3) {
      keys.emplace_back(layer, feature);
    }
  }
  const FeatureDescriptions found = stored->describe({}, features, keys, 3);
  EXPECT_EQ(found.no_tokens, "");
  for (const FeatureKey& key : keys) {
    const std::vector<float>& gate = gates_.at(static_cast<std::size_t>(key.first));
    const std::vector<float>& down = downs_.at(static_cast<std::size_t>(key.first));
    std::vector<float> row(kWidth), column(kWidth);
    for (std::int64_t i = 0; i < kWidth; ++i) {
      row[static_cast<std::size_t>(i)] = gate[static_cast<std::size_t>(key.second * kWidth + i)];
      column[static_cast<std::size_t>(i)] =
          down[static_cast<std::size_t>(i * kFeatures + key.second)];
    }
    const FeatureDescriptions::One& one = found.of.at(key);
    EXPECT_NEAR(one.gate_down_cosine, cosine_of(row, column), 1e-12);
    std::vector<std::pair<double, std::int64_t>> products;
    for (std::int64_t token = 0; token < kVocabulary; ++token) {
      double product = 0.0;
      for (std::int64_t i = 0; i < kWidth; ++i) {
        product -= static_cast<double>(output_[static_cast<std::size_t>(token * kWidth + i)]) *
                   static_cast<double>(column[static_cast<std::size_t>(i)]);
      }
      products.emplace_back(product, token);
    }
    std::sort(products.begin(), products.end());
    ASSERT_EQ(one.tokens.size(), 3U);
    for (std::size_t i = 0; i < 3; ++i) {
      EXPECT_EQ(one.tokens[i].token, products[i].second);
      EXPECT_NEAR(one.tokens[i].score, -products[i].first, 1e-5);
    }
  }
}

TEST_F(StoredFeaturesTest, ADamagedVectorIsRefusedWhereItIsReadAndNowhereElse) {
  std::uint64_t place = 0;
  {
    const auto stored = open_stored_features(file_);
    place = stored->index().matrices.at(0).codes.offset;
  }
  damage(place + 5, 1);
  const auto stored = open_stored_features(file_);
  std::vector<std::byte> row(kWidth * sizeof(float));
  EXPECT_EQ(testing::outcome_of([&] { stored->files().shards.at(0).source->read(place, row); }),
            "E-RESULTS-DATA 65");
  const auto& embedding =
      stored->index().matrices.at(static_cast<std::size_t>(stored->embedding()));
  EXPECT_EQ(testing::outcome_of(
                [&] { stored->files().shards.at(0).source->read(embedding.codes.offset, row); }),
            "");
}

TEST_F(StoredFeaturesTest, WhatIsNoWholeFileOfVectorsIsRefused) {
  const std::string whole = testing::file_text(file_);
  EXPECT_FALSE(is_stored_features(folder_.write("text.h5", "no HDF5 file")));
  EXPECT_FALSE(is_stored_features(folder_.file("absent.h5")));
  EXPECT_FALSE(is_stored_features(folder_.file("model")));
  for (const double part : {0.1, 0.5, 0.9, 0.999}) {
    const std::string cut = folder_.write(
        "cut.h5",
        whole.substr(0, static_cast<std::size_t>(part * static_cast<double>(whole.size()))));
    EXPECT_EQ(testing::exit_code_of([&] { (void)open_stored_features(cut); }),
              ExitCode::kMalformedInput)
        << part;
  }
}

}  // namespace
}  // namespace vindex::commands::stored_features_test
