// Reports of benchmarks: the JSON form, the table, and the sampling behind them.
#include "throughput/report.hpp"

#include "decode/decode_matrix.hpp"
#include "decode/moments.hpp"
#include "throughput/encoded_weights.hpp"
#include "throughput/sampling.hpp"
#include <vindex/error.hpp>

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include <cmath>
#include <set>
#include <sstream>
#include <stop_token>

namespace vindex::throughput::report_test {
namespace {

Report sample_report() {
  Report report{.commit = "abc", .command = "vindex bench", .host = host_facts("none")};
  report.rows.push_back({.name = "spectra.default",
                         .route = "auto: gram32",
                         .rows = 7168,
                         .cols = 2048,
                         .unit = "ms_per_matrix",
                         .samples = {4.0, 2.0, 3.0},
                         .limit = 1.0});
  report.rows.push_back({.name = "probe.h2d",
                         .route = "pinned",
                         .backend = "cuda",
                         .unit = "gb_per_s",
                         .note = "no driver"});
  return report;
}

TEST(BenchReport, JsonHoldsEverySampleAndNoAverage) {
  const auto document = nlohmann::json::parse(report_json(sample_report()));
  EXPECT_EQ(document.at("schema"), "vindex-bench/1");
  EXPECT_TRUE(document.at("gpu").is_null());
  EXPECT_GE(document.at("host").at("cores"), 1);
  EXPECT_GT(document.at("host").at("memory_gib"), 0.0);
  const auto& row = document.at("rows").at(0);
  EXPECT_EQ(row.at("samples"), nlohmann::json({4.0, 2.0, 3.0}));
  EXPECT_EQ(row.at("limit"), 1.0);
  EXPECT_TRUE(row.at("peer").is_null());
  EXPECT_FALSE(row.contains("note"));
  EXPECT_EQ(document.at("rows").at(1).at("note"), "no driver");
  EXPECT_TRUE(document.at("rows").at(1).at("samples").empty());
}

TEST(BenchReport, RowsOfSpectraSayTheirKindAndOthersDoNot) {
  Report report = sample_report();
  report.rows[0].spectrum = "trained";
  report.rows.push_back(report.rows[0]);
  report.rows[2].spectrum = "noise";
  const auto document = nlohmann::json::parse(report_json(report));
  EXPECT_EQ(document.at("rows").at(0).at("spectrum"), "trained");
  EXPECT_EQ(document.at("rows").at(2).at("spectrum"), "noise");
  EXPECT_FALSE(document.at("rows").at(1).contains("spectrum"));
  for (const std::size_t columns : {80, 120}) {
    const std::string table = report_table(report, columns);
    EXPECT_NE(table.find("trained"), std::string::npos) << table;
    EXPECT_NE(table.find("noise"), std::string::npos) << table;
  }
}

TEST(BenchReport, TableShowsMedianBestAndShareOfTheLimit) {
  const std::string table = report_table(sample_report(), 120);
  const std::string line = table.substr(table.find("spectra.default"));
  for (const char* part : {"7168x2048", " 3 ", " 2 ms", "0.50"}) {
    EXPECT_NE(line.find(part), std::string::npos) << part << "\n" << table;
  }
  EXPECT_NE(table.find("no driver"), std::string::npos);
}

TEST(BenchReport, TheTableFitsTheTerminalAndRoutesStayApart) {
  Report report = sample_report();
  report.host.cpu = "Intel(R) Xeon(R) Platinum 8581C CPU @ 2.10GHz";
  report.host.blas = "OpenBLAS 0.3.21 NO_LAPACKE DYNAMIC_ARCH NO_AFFINITY MAX_THREADS=128";
  for (const char* route : {"two-stage", "library"}) {
    report.rows.push_back({.name = "spectra.default",
                           .route = route,
                           .rows = 7168,
                           .cols = 2048,
                           .encoding = "F8_E4M3/128x128",
                           .spectrum = "trained",
                           .unit = "ms_per_matrix",
                           .samples = {1234.5},
                           .limit = 617.2});
  }
  for (const std::size_t columns : {80, 120}) {
    const std::string table = report_table(report, columns);
    std::istringstream lines(table);
    for (std::string line; std::getline(lines, line);) {
      EXPECT_LE(line.size(), columns) << line;
    }
    EXPECT_NE(table.find("cpu: two-stage"), std::string::npos) << table;
    EXPECT_NE(table.find("cpu: library"), std::string::npos) << table;
  }
}

TEST(BenchReport, BestIsTheShortestTimeAndTheLargestRate) {
  Row row{.unit = "seconds", .samples = {2.0, 1.0}};
  EXPECT_EQ(best_of(row), 1.0);
  row.unit = "gb_per_s";
  EXPECT_EQ(best_of(row), 2.0);
  row.samples.clear();
  EXPECT_TRUE(std::isnan(best_of(row)));
}

TEST(BenchReport, MedianByHand) {
  EXPECT_EQ(median({3.0, 1.0, 2.0}), 2.0);
  EXPECT_EQ(median({4.0, 1.0, 2.0, 3.0}), 2.5);
  EXPECT_TRUE(std::isnan(median({})));
}

TEST(BenchSampling, TheWarmUpIsDroppedAndOneSampleIsAlwaysTaken) {
  double calls = 0.0;
  const auto once = [&calls] { return ++calls; };
  EXPECT_EQ(take_samples({.samples = 3}, once), (std::vector<double>{2.0, 3.0, 4.0}));
  EXPECT_EQ(take_samples({.samples = 3, .case_seconds = 0.0}, once).size(), 1U);
}

TEST(BenchSampling, AStopEndsACaseAtOnce) {
  std::stop_source stop;
  stop.request_stop();
  EXPECT_TRUE(take_samples({.samples = 3, .stop = stop.get_token()}, [] { return 1.0; }).empty());
}

TEST(BenchSampling, AnExceptionOfAWorkerComesBack) {
  EXPECT_THROW(run_together(3,
                            [](int worker) {
                              if (worker == 1) {
                                throw DeviceError("E-TEST", "broken");
                              }
                            }),
               DeviceError);
}

TEST(BenchWeights, EveryKnownEncodingDecodesAndNoiseHasItsDeviation) {
  constexpr std::int64_t kRows = 256;
  constexpr std::int64_t kCols = 512;
  int noisy = 0;
  for (const decode::Encoding& encoding : known_encodings()) {
    const EncodedWeights weights(encoding, kRows, kCols, 7);
    std::vector<std::byte> place(weights.bytes());
    std::vector<float> decoded(static_cast<std::size_t>(kRows * kCols), -1.0F);
    decode::decode_matrix(weights.copied_to(place), decoded.data(), kCols);
    if (weights.has_spectrum()) {
      ++noisy;
      const auto moments = decode::moments_of(decoded.data(), kRows, kCols, kCols);
      EXPECT_EQ(moments.nonfinite, 0) << encoding.label;
      EXPECT_NEAR(decode::standard_deviation(moments), 0.02, 0.001) << encoding.label;
    }
  }
  EXPECT_GE(noisy, 6);
}

TEST(BenchWeights, EverySpectrumHasWeightsOfItsOwn) {
  std::set<std::string> seen;
  for (const std::string& spectrum : known_spectra()) {
    for (const std::uint64_t seed : {1U, 2U}) {
      const EncodedWeights weights(encoding_of("F32"), 32, 24, seed, spectrum);
      const auto* const codes = reinterpret_cast<const char*>(weights.matrix().codes);
      EXPECT_TRUE(seen.emplace(codes, 32 * 24 * 4).second) << spectrum;
    }
  }
  EXPECT_EQ(known_spectra().front(), "trained");
}

TEST(BenchWeights, SeedsGiveDifferentWeightsAndNamesAreChecked) {
  EXPECT_EQ(noise(100, 1), noise(100, 1));
  EXPECT_NE(noise(100, 1), noise(100, 2));
  EXPECT_EQ(encoding_of("F8").label, "F8_E4M3/128x128");
  EXPECT_EQ(encoding_of("INT4").label, "INT4/g32");
  EXPECT_THROW(encoding_of("Q9_9"), UsageError);
  EXPECT_THROW(EncodedWeights(encoding_of("Q4_K"), 4, 100, 1), UsageError);
  EXPECT_THROW(EncodedWeights(encoding_of("BF16"), 4, 8, 1, "flat"), UsageError);
}

}  // namespace
}  // namespace vindex::throughput::report_test
