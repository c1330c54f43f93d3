// What lets results files be joined: coordinates on every column, files written before there were
// any, WeightWatcher's fits where a hand calculation can follow them.
#include "report/export/export.hpp"
#include "report/export/weightwatcher_fits.hpp"
#include "results/reading/results_reader.hpp"
#include "results/reading/validate.hpp"
#include "tests/results/hdf5/forget_digests.hpp"
#include "tests/results/sample_run.hpp"

#include <gtest/gtest.h>
#include <hdf5.h>
#include <hdf5_hl.h>

#include <cmath>
#include <fstream>
#include <sstream>

namespace vindex::results::testing::joining_test {
namespace {

TEST(Coordinates, EveryColumnNamesThoseOfItsTable) {
  const TestFolder folder;
  write_sample(folder / "out.h5", sample_run());
  const ResultsReader reader(folder / "out.h5");
  const h5::File& file = reader.file();
  for (const auto& [group, names, dimension] :
       std::vector<std::tuple<std::string, std::string, std::string>>{
           {"/matrix", "layer expert block role tensor", "matrix"},
           {"/tensor", "layer block role name", "entry"},
           {"/layer", "layer block role", "group"}}) {
    std::size_t columns = 0;
    for (const std::string& name : file.list(group)) {
      const std::string path = group + "/" + name;
      const bool is_name = (" " + names + " ").find(" " + name + " ") != std::string::npos;
      const bool is_data = !is_name && name != dimension && name != "k";
      EXPECT_EQ(file.has_attribute(path, "coordinates"), is_data) << path;
      if (is_data) {
        EXPECT_EQ(file.text_attribute(path, "coordinates"), names) << path;
        ++columns;
      }
    }
    EXPECT_GT(columns, 10U) << group;
  }
  EXPECT_FALSE(file.exists("/tensor/tensor"));
  EXPECT_TRUE(file.has_scale(file.open_dataset("/tensor/name"), 0, "/tensor/entry"));
  EXPECT_FALSE(file.has_scale(file.open_dataset("/tensor/name"), 0, "/matrix/matrix"));
  EXPECT_FALSE(file.has_scale(file.open_dataset("/tensor/entry"), 0, "/tensor/entry"));
}

// Both lists are ours: a dataset names its scales and a scale its users. The library asks both.
TEST(DimensionScales, NameTheirUsersAsTheirUsersNameThem) {
  const TestFolder folder;
  write_sample(folder / "out.h5", sample_run());
  std::vector<std::pair<std::string, std::string>> uses = {{"/matrix/var_at_k", "/matrix/k"}};
  {
    const ResultsReader reader(folder / "out.h5");
    for (const auto& [group, dimension] : std::vector<std::pair<std::string, std::string>>{
             {"/matrix", "matrix"}, {"/tensor", "entry"}, {"/layer", "group"}}) {
      for (const std::string& name : reader.file().list(group)) {
        if (name != dimension && name != "k") {
          uses.emplace_back(group + "/" + name, group + "/" + dimension);
        }
      }
    }
  }
  const hid_t file = H5Fopen((folder / "out.h5").c_str(), H5F_ACC_RDONLY, H5P_DEFAULT);
  ASSERT_GE(file, 0);
  for (const auto& [user, scale] : uses) {
    const hid_t dataset = H5Dopen2(file, user.c_str(), H5P_DEFAULT);
    const hid_t other = H5Dopen2(file, scale.c_str(), H5P_DEFAULT);
    const unsigned dimension = scale == "/matrix/k" ? 1 : 0;
    EXPECT_EQ(H5DSget_num_scales(dataset, dimension), 1) << user;
    EXPECT_GT(H5DSis_attached(dataset, other, dimension), 0) << user << " " << scale;
    H5Dclose(other);
    H5Dclose(dataset);
  }
  H5Fclose(file);
}

TEST(Coordinates, AFileWithTheFormerDimensionIsValidAndRead) {
  const TestFolder folder;
  const std::string path = folder / "out.h5";
  write_sample(path, sample_run());
  const hid_t file = H5Fopen(path.c_str(), H5F_ACC_RDWR, H5P_DEFAULT);
  H5Lmove(file, "/tensor/entry", file, "/tensor/tensor", H5P_DEFAULT, H5P_DEFAULT);
  forget_digests(file);
  H5Fclose(file);
  EXPECT_EQ(validate_file(path), std::vector<std::string>());
  EXPECT_FALSE(ResultsReader(path).description().tensors.empty());
}

TEST(SmallPowerLaw, FewerThanEightValuesAreOneTail) {
  const double e = std::exp(1.0);
  const std::vector<double> values = {1.0, e, e * e};  // logarithms 0, 1, 2
  const report::SmallPowerLaw fit = report::fit_small_power_law(values);
  EXPECT_DOUBLE_EQ(fit.alpha, 1.0 + 2.0 / 3.0);
  EXPECT_EQ(fit.xmin, 1.0);
  EXPECT_EQ(fit.tail, 3.0);
  // |j/3 - (1 - x^(1 - alpha))| at x = 1, e, e^2.
  const double at_e = std::abs(1.0 / 3.0 - (1.0 - std::pow(e, -2.0 / 3.0)));
  const double at_e2 = std::abs(2.0 / 3.0 - (1.0 - std::pow(e, -4.0 / 3.0)));
  EXPECT_NEAR(fit.ks, std::max(at_e, at_e2), 1e-15);
  EXPECT_TRUE(std::isnan(report::fit_small_power_law(std::span(values).first(1)).alpha));
  EXPECT_TRUE(std::isnan(report::fit_small_power_law(std::vector<double>(5, 2.0)).alpha));
  EXPECT_TRUE(std::isnan(report::fit_small_power_law({}).alpha));
}

TEST(SmallPowerLaw, TailsOfLessThanEightAreNoCandidates) {
  std::vector<double> values;
  for (int i = 0; i < 10; ++i) {
    values.push_back(std::pow(1.0 - (i + 0.5) / 10.0, -0.5));  // quantiles of x^-3
  }
  const report::SmallPowerLaw fit = report::fit_small_power_law(values);
  EXPECT_GE(fit.tail, 8.0);
  EXPECT_NEAR(fit.alpha, 3.0, 0.5);
}

TEST(Determinant, IsTheShortestTailWithAProductBelowOne) {
  // Mean 1 already: 4 * 1 = 4, * 0.5 = 2, * 0.25 = 0.5.
  const std::vector<double> values = {0.05, 0.2, 0.25, 0.5, 1.0, 4.0};
  const report::DeterminantFit fit = report::fit_determinant(values);
  EXPECT_EQ(fit.count, 4.0);
  EXPECT_EQ(fit.value, 0.25);
  EXPECT_NEAR(fit.rescaled, 0.25, 1e-15);
  std::vector<double> doubled = values;
  for (double& value : doubled) {
    value *= 2.0;
  }
  EXPECT_EQ(report::fit_determinant(doubled).count, 4.0);
  EXPECT_EQ(report::fit_determinant(doubled).value, 0.5);
  EXPECT_NEAR(report::fit_determinant(doubled).rescaled, 0.25, 1e-15);
  EXPECT_TRUE(std::isnan(report::fit_determinant(std::vector<double>{1.0, 1.0}).count));
  EXPECT_TRUE(std::isnan(report::fit_determinant({}).count));
}

TEST(Determinant, DoesNotOverflowWhereProductsDo) {
  std::vector<double>
      values;  // 20,000 values of which the upper half alone have a product of 2^10000
  values.insert(values.end(), 10'000, 1e-6);
  values.insert(values.end(), 10'000, 2.0);
  const report::DeterminantFit fit = report::fit_determinant(values);
  EXPECT_GT(fit.count, 10'000.0);
  EXPECT_LT(fit.count, 11'000.0);
}

TEST(Bulk, NothingToFitIsAbsent) {
  EXPECT_TRUE(std::isnan(report::fit_bulk({}, 5).sigma));
  EXPECT_TRUE(std::isnan(report::fit_bulk(std::vector<double>(4, 0.0), 5).sigma));
}

TEST(Bulk, OfNoiseHasItsEdgesAndNoSpikes) {
  // Quantiles of the Marchenko-Pastur law at ratio 1/4, by its cumulated density.
  std::vector<double> values;
  const double low = 0.25;
  const double high = 2.25;
  double cumulated = 0.0;
  constexpr int kSteps = 200'000;
  for (int i = 0; i < kSteps; ++i) {
    const double x = low + (high - low) * (i + 0.5) / kSteps;
    cumulated +=
        std::sqrt((high - x) * (x - low)) / (2.0 * M_PI * x * 0.25) * (high - low) / kSteps;
    if (cumulated >= (static_cast<double>(values.size()) + 0.5) / 400.0 && values.size() < 400) {
      values.push_back(7.0 * x);
    }
  }
  ASSERT_EQ(values.size(), 400U);
  report::BulkFit fit = report::fit_bulk(values, 1600);
  EXPECT_NEAR(fit.sigma, 1.0, 0.02);
  EXPECT_NEAR(fit.bulk_min, 7.0 * low, 0.1);
  EXPECT_NEAR(fit.bulk_max, 7.0 * high, 0.5);
  EXPECT_EQ(fit.spikes, 0.0);
  EXPECT_NEAR(fit.softrank, fit.bulk_max / values.back(), 1e-12);
  values.back() = 70.0;
  EXPECT_EQ(report::fit_bulk(values, 1600).spikes, 1.0);
}

/// Lines of the export, split at commas (no field of the sample is quoted).
std::vector<std::vector<std::string>> exported(const std::string& path) {
  std::ifstream file(path);
  std::vector<std::vector<std::string>> lines;
  for (std::string line; std::getline(file, line);) {
    std::istringstream stream(line + ",");
    lines.emplace_back();
    for (std::string field; std::getline(stream, field, ',');) {
      lines.back().push_back(field);
    }
  }
  return lines;
}

TEST(WeightWatcherExport, HasItsOrderAndItsNames) {
  const TestFolder folder;
  SampleOptions options;
  options.sign_flip_draws = 1;
  write_sample(folder / "out.h5", sample_run(options));
  report::export_file(folder / "out.h5", "weightwatcher", folder / "ww.csv");
  const auto lines = exported(folder / "ww.csv");
  const std::vector<std::string>& header = lines.at(0);
  ASSERT_GT(header.size(), 40U);
  EXPECT_EQ(header[0], "layer_id");
  EXPECT_EQ(header[1], "name");
  EXPECT_TRUE(std::is_sorted(header.begin() + 2, header.end()));
  const auto at = [&](const char* name) {
    return static_cast<std::size_t>(std::find(header.begin(), header.end(), name) - header.begin());
  };
  for (std::size_t i = 1; i < lines.size(); ++i) {
    EXPECT_FALSE(lines[i].at(at("longname")).ends_with(".weight"));
    EXPECT_EQ(lines[i].at(at("rand_distance")), "0.125");
    const double random = std::stod(lines[i].at(at("max_rand_eval")));
    EXPECT_NEAR(
        std::stod(lines[i].at(at("ww_softrank"))) * std::stod(lines[i].at(at("lambda_max"))),
        random, 1e-12 * random);
  }
  EXPECT_EQ(lines.at(1).at(at("longname")), "model.layers.0.mlp.gate");
}

TEST(WeightWatcherExport, WithoutSpectraWhatNeedsThemIsEmpty) {
  const TestFolder folder;
  SampleOptions options;
  options.spectra = false;
  write_sample(folder / "out.h5", sample_run(options));
  report::export_file(folder / "out.h5", "weightwatcher", folder / "ww.csv");
  const auto lines = exported(folder / "ww.csv");
  for (std::size_t c = 0; c < lines.at(0).size(); ++c) {
    const std::string& name = lines[0][c];
    for (const char* needs :
         {"alpha", "num_spikes", "detX_num", "log_alpha_norm", "rand_distance"}) {
      // The sample's matrices have 16 and 8 eigenvalues: another estimator than the stored one.
      EXPECT_TRUE(name != needs || lines[1].at(c).empty()) << name;
    }
    EXPECT_TRUE(name != "stable_rank" || !lines[1].at(c).empty());
  }
}

}  // namespace
}  // namespace vindex::results::testing::joining_test
