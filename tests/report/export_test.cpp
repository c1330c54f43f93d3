// Exports of a results file: CSV, JSON, WeightWatcher's table, the phase files and gate vectors.
#include "report/export/export.hpp"

#include "statistics/samples/quantile.hpp"
#include "statistics/spectrum/metric_table.hpp"
#include "tests/results/hdf5/robustness_fixture.hpp"
#include "tests/results/sample_run.hpp"
#include <vindex/error.hpp>

#include <fmt/format.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include <cmath>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <map>
#include <sstream>

namespace vindex::results::testing::export_test {
namespace {

using Table = std::vector<std::map<std::string, std::string>>;

/// A CSV file without quoted fields.
Table read_csv(const std::string& path) {
  std::istringstream file(read_file(path));
  std::vector<std::string> header;
  Table rows;
  for (std::string line; std::getline(file, line);) {
    std::vector<std::string> fields;
    std::istringstream stream(line + ",");
    for (std::string field; std::getline(stream, field, ',');) {
      fields.push_back(field);
    }
    if (header.empty()) {
      header = fields;
      continue;
    }
    EXPECT_EQ(fields.size(), header.size());
    auto& row = rows.emplace_back();
    for (std::size_t i = 0; i < fields.size() && i < header.size(); ++i) {
      row[header[i]] = fields[i];
    }
  }
  return rows;
}

class Export : public ::testing::Test {
 protected:
  void SetUp() override {
    SampleOptions options;
    options.vectors = 4;
    run_ = sample_run(options);
    write_sample(file_, run_);
  }
  TestFolder folder_;
  std::string file_ = folder_ / "out.h5";
  RunDescription run_;
};

TEST_F(Export, CsvHasOneRowPerMatrixAndEveryColumn) {
  report::export_file(file_, "csv", folder_ / "out.csv");
  const Table rows = read_csv(folder_ / "out.csv");
  ASSERT_EQ(rows.size(), run_.matrices.size());
  for (std::size_t i = 0; i < rows.size(); ++i) {
    const commands::SpectrumNumbers wanted = sample_numbers(run_, static_cast<std::int64_t>(i));
    EXPECT_EQ(rows[i].at("tensor"), run_.matrices[i].tensor);
    EXPECT_EQ(rows[i].at("status"), "measured");
    EXPECT_EQ(std::stod(rows[i].at("var_at_4")), wanted.values.var_at_k[2]);
    EXPECT_EQ(std::stod(rows[i].at("var_at_4_null")), wanted.nulls.var_at_k[2]);
    for (const statistics::MetricRow& metric : statistics::metric_rows()) {
      const double value = wanted.values[metric.metric];
      const std::string& text = rows[i].at(std::string(metric.name));
      EXPECT_TRUE(std::isnan(value) ? text.empty() : std::stod(text) == value) << metric.name;
    }
  }
}

TEST_F(Export, JsonHasTheSameNumbers) {
  report::export_file(file_, "json", folder_ / "out.json");
  const auto document = nlohmann::json::parse(read_file(folder_ / "out.json"));
  ASSERT_EQ(document["matrix"].size(), run_.matrices.size());
  const commands::SpectrumNumbers wanted = sample_numbers(run_, 3);
  EXPECT_EQ(document["matrix"][3]["var_at_k"][6].get<double>(), wanted.values.var_at_k[6]);
  EXPECT_EQ(document["matrix"][3]["layer"], 0);
  EXPECT_EQ(document["status"], "complete");
}

TEST_F(Export, WeightWatcherNamesCarryItsMeanings) {
  report::export_file(file_, "weightwatcher", folder_ / "ww.csv");
  const Table rows = read_csv(folder_ / "ww.csv");
  ASSERT_EQ(rows.size(), run_.matrices.size());
  const ResultRow wanted = sample_row(run_, 5);
  const auto number = [&](const char* name) { return std::stod(rows[5].at(name)); };
  double norm = 0.0;
  for (const double s : wanted.sigma) {
    norm += s * s;
  }
  const double top = wanted.sigma.front() * wanted.sigma.front();
  EXPECT_NEAR(number("norm"), norm, 1e-12 * norm);
  EXPECT_NEAR(number("spectral_norm"), top, 1e-12 * top);
  EXPECT_NEAR(number("log_spectral_norm"), std::log10(top), 1e-12);
  EXPECT_NEAR(number("stable_rank"), norm / top, 1e-12);
  EXPECT_EQ(number("N"), 24);
  EXPECT_EQ(number("M"), 16);
  EXPECT_EQ(number("Q"), 1.5);
  EXPECT_EQ(number("num_evals"), 16);
  EXPECT_EQ(number("weak_rank_loss"), 0);
  const double alpha = number("alpha");
  double sum = 0.0;
  for (const double s : wanted.sigma) {
    sum += std::pow(s * s, alpha);
  }
  EXPECT_NEAR(number("log_alpha_norm"), std::log10(sum), 1e-9);
  EXPECT_NEAR(number("alpha_weighted"), alpha * std::log10(top), 1e-9);
}

TEST_F(Export, PhaseFilesGiveQuantilesOverExperts) {
  report::export_file(file_, "phase-json", folder_ / "phases");
  const auto phase1 = nlohmann::json::parse(read_file(folder_ / "phases/phase1_moe_svd.json"));
  const auto& layer = phase1["layers"]["1"];
  EXPECT_EQ(layer["projection"], "down_proj");
  EXPECT_EQ(layer["count"], 3);
  std::vector<double> values;
  for (const std::int64_t index : {11, 12, 13}) {
    values.push_back(sample_numbers(run_, index).values.var_at_k[6]);
  }
  EXPECT_EQ(layer["median_var64"].get<double>(), statistics::quantile(values, 0.5));
  EXPECT_EQ(layer["q25_var64"].get<double>(), statistics::quantile(values, 0.25));
  EXPECT_EQ(layer["routed"]["gate_proj"]["matrices"].size(), 3U);
  EXPECT_EQ(layer["router"]["router"]["count"], 1);
  const auto phase2 = nlohmann::json::parse(read_file(folder_ / "phases/phase2_router_svd.json"));
  EXPECT_EQ(phase2["layers"]["0"]["top_k_variance"]["8"], 1.0);
  const auto all = nlohmann::json::parse(read_file(folder_ / "phases/phase1_moe_svd_agg.json"));
  EXPECT_EQ(all["C4"]["layers"], 2);
  EXPECT_TRUE(all["C1"].is_null());
  const auto config = nlohmann::json::parse(read_file(folder_ / "phases/moe_config.json"));
  EXPECT_EQ(config["detected"]["experts"], 3);
  EXPECT_EQ(config["layers"]["0"]["type"], "moe");
}

// The first layers of many mixtures are dense: their one matrix is no member of the figure.
TEST_F(Export, C4OfAMixtureIsOfItsExpertsAlone) {
  const auto make_dense = [&](std::int32_t layer) {
    for (model::MatrixRecord& matrix : run_.matrices) {
      if (matrix.layer == layer && matrix.block == model::Block::kRoutedExpert) {
        matrix.block = model::Block::kDenseMlp;
      }
    }
    const std::string name = fmt::format("dense{}", layer);
    write_sample(folder_ / (name + ".h5"), run_);
    report::export_file(folder_ / (name + ".h5"), "phase-json", folder_ / name);
    return nlohmann::json::parse(read_file(folder_ / (name + "/phase1_moe_svd_agg.json")))["C4"];
  };
  const auto mixture = make_dense(0);
  std::vector<double> values;
  for (const std::int64_t index : {11, 12, 13}) {
    values.push_back(sample_numbers(run_, index).values.var_at_k[6]);
  }
  EXPECT_EQ(mixture["layers"], 1);
  EXPECT_EQ(mixture["dense_layers_left_out"], 1);
  EXPECT_EQ(mixture["matrices"], "routed experts");
  EXPECT_EQ(mixture["median_var64"].get<double>(), statistics::quantile(values, 0.5));
  EXPECT_EQ(mixture["max_var64"], mixture["min_var64"]);
  const auto dense = make_dense(1);
  EXPECT_EQ(dense["layers"], 2);
  EXPECT_EQ(dense["dense_layers_left_out"], 0);
  EXPECT_EQ(dense["matrices"], "dense MLPs");
}

TEST_F(Export, GateVectorsAreFlatInLayerExpertOrder) {
  report::export_file(file_, "gate-vectors", folder_ / "gate");
  const std::string bytes = read_file(folder_ / "gate/gate_vectors.bin");
  ASSERT_EQ(bytes.size(), 2U * 3U * 4U * 24U * sizeof(float));
  const auto index = nlohmann::json::parse(read_file(folder_ / "gate/gate_vectors_index.json"));
  EXPECT_EQ(index["num_feats"], 4);
  EXPECT_EQ(index["model_config"]["moe"]["hidden_size"], 24);
  EXPECT_EQ(index["layers"]["1"]["shape"], nlohmann::json({3, 4, 24}));
  const auto offset = index["layers"]["1"]["file_offset"].get<std::size_t>();
  EXPECT_EQ(offset, 3U * 4U * 24U * sizeof(float));
  float value = 0.0F;
  std::memcpy(&value, bytes.data() + offset, sizeof value);
  EXPECT_EQ(value, sample_row(run_, 8).vectors->right.front());
}

TEST_F(Export, GateVectorsNeedVectors) {
  const std::string plain = folder_ / "plain.h5";
  write_sample(plain, sample_run());
  EXPECT_THROW(report::export_file(plain, "gate-vectors", folder_ / "gate"), UsageError);
  EXPECT_FALSE(std::filesystem::exists(folder_ / "gate"));
}

TEST_F(Export, RefusesUnknownFormatsAndItsOwnInput) {
  EXPECT_THROW(report::export_file(file_, "parquet", folder_ / "x"), UsageError);
  EXPECT_THROW(report::export_file(file_, "csv", file_), OutputError);
  EXPECT_THROW(report::export_file(file_, "phase-json", "-"), UsageError);
  EXPECT_THROW(report::export_file(file_, "csv", folder_.path()), OutputError);
  EXPECT_THROW(report::export_file(folder_ / "absent.h5", "csv", folder_ / "x"), MissingInputError);
}

}  // namespace
}  // namespace vindex::results::testing::export_test
