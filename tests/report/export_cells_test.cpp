// Exports of files whose rows are cells: tables, and phase-json from all kinds together.
#include "commands/token_tables/activations_cells.hpp"
#include "commands/token_tables/routing_cells.hpp"
#include "report/cells/cells_json.hpp"
#include "report/cells/cells_text.hpp"
#include "report/export/export.hpp"
#include "results/reading/validate.hpp"
#include "results/schema/schema.hpp"
#include "results/view/results_view.hpp"
#include "statistics/samples/quantile.hpp"
#include "tests/results/cell_run.hpp"
#include "tests/results/hdf5/robustness_fixture.hpp"
#include "tests/results/sample_run.hpp"
#include <vindex/error.hpp>

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include <cmath>
#include <sstream>

namespace vindex::results::testing::export_cells_test {
namespace {

using Json = nlohmann::json;

class ExportCells : public ::testing::Test {
 protected:
  std::string file_of(FileSchema schema) {
    const std::string path = folder_ / (std::string(writing_command(schema)) + ".h5");
    write_cells(path, cell_run(schema));
    return path;
  }
  /// The weights of a model whose routers know `experts`; layer `dense` has none.
  std::string weights(std::int64_t experts = 4, std::int32_t dense = -1) {
    const std::string path = folder_ / "weights.h5";
    RunDescription run = sample_run();
    for (model::MatrixRecord& record : run.matrices) {
      record.rows = record.block == model::Block::kRouter ? experts : record.rows;
      if (record.layer == dense && record.block == model::Block::kRoutedExpert) {
        record.block = model::Block::kDenseMlp;
      }
    }
    write_sample(path, run);
    return path;
  }
  Json phase(const std::string& name) {
    return Json::parse(read_file(folder_ / ("phases/" + name)));
  }
  std::vector<std::string> phases() { return files_in(folder_ / "phases"); }
  TestFolder folder_;
};

TEST_F(ExportCells, CsvHasEveryNumberJsonTheArraysToo) {
  const std::string path = file_of(FileSchema::kRouting);
  const ResultRow wanted = cell_row(cell_run(FileSchema::kRouting), 1);
  report::export_file(path, "csv", folder_ / "out.csv");
  std::istringstream lines(read_file(folder_ / "out.csv"));
  std::string head, line;
  std::getline(lines, head);
  EXPECT_TRUE(head.starts_with("entry,tensor,layer,block,role,rows,cols,")) << head;
  EXPECT_EQ(head.find("coactivation_lift,"), std::string::npos);
  std::getline(lines, line);
  std::getline(lines, line);
  EXPECT_TRUE(line.starts_with("1,router_logits.1,1,other,router_logits,64,4,")) << line;
  EXPECT_EQ(std::count(head.begin(), head.end(), ','), std::count(line.begin(), line.end(), ','));
  report::export_file(path, "json", folder_ / "out.json");
  const Json document = Json::parse(read_file(folder_ / "out.json"));
  EXPECT_EQ(document["kind"], "routing");
  EXPECT_EQ(document["expert"], Json({0, 1, 2, 3}));
  const Json& row = document["entry"][1];
  EXPECT_EQ(row["gini"].get<double>(), wanted.cells[engine::routing_cell("gini")]);
  EXPECT_EQ(row["load"].get<std::vector<double>>(),
            wanted.arrays[engine::routing_array("load")].doubles);
  EXPECT_EQ(row["coactivation_lift"].size(), 4U);
  EXPECT_EQ(row["coactivation_lift"][0].size(), 4U);
  EXPECT_EQ(row["coactivation_lift"][1][2].get<float>(),
            wanted.arrays[engine::routing_array("coactivation_lift")].floats[6]);
  EXPECT_TRUE(row["mean_weight"][0].is_null());
  EXPECT_EQ(document["entry"][1]["status"], "measured");
}

TEST_F(ExportCells, WeightsAloneLeaveTheRestNullWithTheReason) {
  report::export_file(weights(), "phase-json", folder_ / "phases");
  EXPECT_EQ(phases(),
            (std::vector<std::string>{"moe_config.json", "phase1_moe_svd.json",
                                      "phase1_moe_svd_agg.json", "phase2_router_svd.json"}));
  const Json all = phase("phase1_moe_svd_agg.json");
  for (const char* name : {"C1", "C2", "C3", "C5"}) {
    EXPECT_TRUE(all[name].is_null()) << name;
    EXPECT_FALSE(all["not_measured"][name].get<std::string>().empty()) << name;
  }
  EXPECT_TRUE(all["C4"]["neuron_variance"].is_null());
  EXPECT_EQ(all["C4"]["measured_from"]["verb"], "measure");
  EXPECT_EQ(all["C4"]["layers"], 2);
  EXPECT_EQ(all["same_model_by"], "none");
}

TEST_F(ExportCells, C4OfAMixtureLeavesItsDenseLayersOut) {
  report::export_file(weights(4, 1), "phase-json", folder_ / "phases", true, "matrix",
                      {.activations = file_of(FileSchema::kActivations)});
  const Json c4 = phase("phase1_moe_svd_agg.json")["C4"];
  EXPECT_EQ(c4["layers"], 1);
  EXPECT_EQ(c4["dense_layers_left_out"], 1);
  EXPECT_EQ(c4["neuron_variance"]["layers"], 3);
}

TEST_F(ExportCells, EveryNumberSaysWhatItWasMeasuredFrom) {
  const std::string activations = file_of(FileSchema::kActivations);
  const std::string cka = file_of(FileSchema::kCka);
  const std::string routing = file_of(FileSchema::kRouting);
  report::export_file(weights(), "phase-json", folder_ / "phases", true, "matrix",
                      {.activations = activations, .cka = cka, .routing = routing});
  EXPECT_EQ(phases().size(), 5U);
  const Json all = phase("phase1_moe_svd_agg.json");
  EXPECT_EQ(all["not_measured"], Json::object());
  const RunDescription run = cell_run(FileSchema::kActivations);
  std::vector<double> shares, gates, variances;
  for (std::int64_t row = 0; row < 4; ++row) {
    const ResultRow measured = cell_row(run, row);
    shares.push_back(measured.arrays[engine::activations_array("sparsity")].doubles[2]);
    gates.push_back(measured.cells[engine::activations_cell("gate_adjacent_cosine")]);
    variances.push_back(measured.cells[engine::activations_cell("neuron_variance")]);
  }
  EXPECT_EQ(all["C1"]["measured_from"]["file"], activations);
  EXPECT_EQ(all["C1"]["thresholds"][2]["t"], 0.1);
  EXPECT_EQ(all["C1"]["thresholds"][2]["median"].get<double>(), statistics::quantile(shares, 0.5));
  EXPECT_EQ(all["C2"]["top8_mass"].get<double>(),
            cell_row(run, 0).cells[engine::activations_cell("top8_mass")]);
  EXPECT_EQ(all["C3"]["median"].get<double>(), statistics::quantile(gates, 0.5));
  EXPECT_EQ(all["C4"]["neuron_variance"]["median"].get<double>(),
            statistics::quantile(variances, 0.5));
  EXPECT_TRUE(all["C4"]["median_var64"].is_number());
  EXPECT_EQ(all["C4"]["neuron_variance"]["layers"], 4);
  EXPECT_EQ(all["C5"]["measured_from"]["file"], cka);
  EXPECT_EQ(all["C5"]["stages"], 1);
  const Json stats = phase("phase3_routing_stats.json");
  EXPECT_EQ(stats["measured_from"]["file"], routing);
  EXPECT_EQ(stats["settings"]["rule"], "softmax, top 2");
  EXPECT_EQ(stats["layers"]["2"]["tokens"], 64);
  EXPECT_EQ(stats["layers"]["2"]["load"].get<std::vector<double>>(),
            cell_row(cell_run(FileSchema::kRouting), 2).arrays[0].doubles);
  EXPECT_TRUE(stats["summary"]["median_gini"].is_number());
}

// Files of vindex-routing 1.0 have neither maxima's nulls nor tails.
TEST_F(ExportCells, OlderFilesOfRoutingAreStillRead) {
  RunDescription run = cell_run(FileSchema::kRouting);
  run.optional_columns.clear();
  const std::string path = folder_ / "old.h5";
  write_cells(path, run);
  EXPECT_EQ(validate_file(path), std::vector<std::string>());
  const ResultsView shown = read_view(path);
  EXPECT_FALSE(report::cells_text(shown, 200).empty());
  const Json document = Json::parse(report::cells_json(shown));
  EXPECT_TRUE(document["rows"][0]["gini"].is_number());
  EXPECT_FALSE(document["rows"][0].value("margin_null_sd", Json()).is_number());
  report::export_file(path, "phase-json", folder_ / "phases");
  const Json stats = phase("phase3_routing_stats.json");
  EXPECT_TRUE(stats["layers"]["0"]["coactivation_lift_max"].is_number());
  EXPECT_TRUE(stats["layers"]["0"]["coactivation_lift_max_null"].is_null());
}

TEST_F(ExportCells, AFileAloneGivesItsOwnPhase) {
  report::export_file(file_of(FileSchema::kRouting), "phase-json", folder_ / "phases");
  EXPECT_EQ(phases(), std::vector<std::string>{"phase3_routing_stats.json"});
  const TestFolder other;
  report::export_file(file_of(FileSchema::kCka), "phase-json", other.path());
  const Json all = Json::parse(read_file(other / "phase1_moe_svd_agg.json"));
  EXPECT_EQ(all["C5"]["stages"], 1);
  EXPECT_TRUE(all["C4"].is_null());
  EXPECT_EQ(all["not_measured"].size(), 5U);
}

TEST_F(ExportCells, FilesOfDifferentModelsAreRefused) {
  const std::string routing = file_of(FileSchema::kRouting);
  const auto join = [&](const std::string& spectra) {
    return outcome_of([&] {
      report::export_file(spectra, "phase-json", folder_ / "phases", true, "matrix",
                          {.routing = routing});
    });
  };
  const Outcome refused = join(weights(3));  // the dump has 4 experts
  EXPECT_EQ(refused.id, "E-EXPORT-MODEL");
  EXPECT_EQ(refused.code, ExitCode::kBadConfiguration);
  EXPECT_FALSE(fs::exists(folder_ / "phases"));
}

TEST_F(ExportCells, OtherFilesOfWeightsAreAnotherModel) {
  RunDescription spectra = sample_run();
  spectra.fingerprint.emplace_back("file model.safetensors", "100 bytes");
  RunDescription run = cell_run(FileSchema::kActivations);
  run.fingerprint.emplace_back("model file model.safetensors", "100 bytes");
  const std::string activations = folder_ / "activations.h5";
  write_sample(folder_ / "weights.h5", spectra);
  write_cells(activations, run);
  const auto join = [&] {
    return outcome_of([&] {
      report::export_file(folder_ / "weights.h5", "phase-json", folder_ / "phases", true, "matrix",
                          {.activations = activations});
    });
  };
  EXPECT_EQ(join().code, ExitCode::kOk);
  EXPECT_EQ(phase("phase1_moe_svd_agg.json")["same_model_by"], "files");
  fs::remove(activations);
  run.fingerprint.back().second = "101 bytes";
  write_cells(activations, run);
  EXPECT_EQ(join().id, "E-EXPORT-MODEL");
}

TEST_F(ExportCells, WhatAFileCannotServeIsRefused) {
  const std::string experts = file_of(FileSchema::kExperts);
  const std::string cka = file_of(FileSchema::kCka);
  const auto id = [&](const std::string& path, const char* format,
                      const report::PhaseInputs& others) {
    return outcome_of(
               [&] { report::export_file(path, format, folder_ / "x", true, "matrix", others); })
        .id;
  };
  EXPECT_EQ(id(experts, "phase-json", {}), "E-EXPORT-KIND");
  EXPECT_EQ(id(cka, "weightwatcher", {}), "E-EXPORT-KIND");
  EXPECT_EQ(id(weights(), "csv", {.cka = cka}), "E-EXPORT-INPUTS");
  EXPECT_EQ(id(weights(), "phase-json", {.routing = cka}), "E-RESULTS-KIND");
  EXPECT_EQ(id(cka, "phase-json", {.cka = cka}), "E-EXPORT-TWICE");
  EXPECT_EQ(outcome_of([&] { report::export_file(cka, "csv", folder_ / "x", true, "product"); }).id,
            "E-EXPORT-TABLE");
  for (const char* format : {"parquet", "arrow"}) {
    const Outcome refused =
        outcome_of([&] { report::export_file(weights(), format, folder_ / "x"); });
    EXPECT_EQ(refused.id, "E-EXPORT-PYTHON");
    EXPECT_EQ(refused.code, ExitCode::kUsage);
  }
}

}  // namespace
}  // namespace vindex::results::testing::export_cells_test
