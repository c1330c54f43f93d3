// What a page holds of files of `vindex measure`: the numbers of the file, its names as data, and
// nothing from elsewhere.
#include "page_reader.hpp"

#include "core/digest.hpp"
#include "report/page/page_spectra.hpp"
#include "report/page/page_values.hpp"
#include "report/page/write_page.hpp"
#include "results/reading/query.hpp"
#include "statistics/spectrum/metric_table.hpp"
#include "statistics/spectrum/metrics.hpp"
#include "tests/results/sample_run.hpp"
#include "tests/support/expect_error.hpp"
#include "tests/support/program/program.hpp"

#include <cmath>
#include <fstream>
#include <map>

namespace vindex::report::testing::page_test {
namespace {

using results::testing::measure_rows;
using results::testing::sample_numbers;
using results::testing::sample_row;
using results::testing::sample_run;
using results::testing::SampleOptions;
using results::testing::TestFolder;
using results::testing::write_sample;
using vindex::testing::error_of;
using vindex::testing::file_text;

class Page : public ::testing::Test {
 protected:
  std::string sample(const std::string& name, const SampleOptions& options = {}) {
    const std::string path = folder_ / name;
    write_sample(path, sample_run(options));
    return path;
  }
  std::string page_of(const std::vector<std::string>& paths) {
    write_page(paths, folder_ / "page.html", true);
    return file_text(folder_ / "page.html");
  }
  TestFolder folder_;
};

std::map<std::string, std::vector<double>> metrics_of(const Document& main) {
  std::map<std::string, std::vector<double>> metrics;
  for (const Document& metric : main.at("metrics")) {
    metrics[metric.at("name")] = numbers_of(metric.at("values"));
  }
  return metrics;
}

/// Equal as float32.
void expect_same(double read, double wanted, const std::string& what) {
  EXPECT_TRUE(std::isnan(wanted) ? std::isnan(read)
                                 : static_cast<float>(read) == static_cast<float>(wanted))
      << what << ": " << read << " for " << wanted;
}

TEST_F(Page, HasEveryNumberOfTheFile) {
  const SampleOptions options = {.layers = 3, .experts = 4, .rows = 90, .cols = 70};
  const results::RunDescription run = sample_run(options);
  const Document main = block_of(page_of({sample("out.h5", options)}), 0, "main");
  const auto metrics = metrics_of(main);
  const Document& rows = main.at("rows");
  const std::vector<std::string> names = names_of(rows);
  const std::vector<double> shapes = numbers_of(rows.at("shape"));
  ASSERT_EQ(names.size(), run.matrices.size());
  for (std::size_t i = 0; i < names.size(); ++i) {
    const model::MatrixRecord& matrix = run.matrices[i];
    EXPECT_EQ(names[i], matrix.tensor);
    EXPECT_EQ(numbers_of(rows.at("layer"))[i], matrix.layer);
    EXPECT_EQ(numbers_of(rows.at("expert"))[i], matrix.expert);
    EXPECT_EQ(texts_of(rows.at("role"))[i], matrix.role);
    EXPECT_EQ(texts_of(rows.at("block"))[i], model::block_name(matrix.block));
    EXPECT_EQ(texts_of(rows.at("status"))[i], "measured");
    const auto shape = static_cast<std::size_t>(shapes[i]);
    EXPECT_EQ(main.at("shapes").at(shape), Document({matrix.rows, matrix.cols}));
    const commands::SpectrumNumbers wanted = sample_numbers(run, static_cast<std::int64_t>(i));
    const auto null = [&](const std::string& name) {
      return numbers_of(main.at("nulls").at(name)).at(shape);
    };
    for (const statistics::MetricRow& metric : statistics::metric_rows()) {
      const std::string name(metric.name);
      expect_same(metrics.at(name).at(i), wanted.values[metric.metric], name);
      EXPECT_EQ(main.at("nulls").contains(name), metric.has_null) << name;
      if (metric.has_null) {
        expect_same(null(name), wanted.nulls[metric.metric], name + "_null");
      }
    }
    for (std::size_t k = 0; k < kVarAtK.size(); ++k) {
      const std::string name = "var_at_" + std::to_string(kVarAtK[k]);
      expect_same(metrics.at(name).at(i), wanted.values.var_at_k[k], name);
      expect_same(null(name), wanted.nulls.var_at_k[k], name + "_null");
    }
  }
  EXPECT_EQ(main.at("counts").at("measured"), names.size());
  EXPECT_EQ(main.at("counts").at("total"), names.size());
}

/// Singular values of every row as the page has them, by rank.
std::map<std::size_t, std::map<std::int64_t, double>> spectra_of(const Document& block) {
  std::map<std::size_t, std::map<std::int64_t, double>> spectra;
  for (const Document& group : block.at("groups")) {
    const std::vector<double> matrices = numbers_of(group.at("matrix"));
    const std::vector<double> firsts = numbers_of(group.at("first"));
    const std::vector<double> codes = numbers_of(group.at("codes"));
    for (std::size_t i = 0; i < matrices.size(); ++i) {
      std::uint16_t code = 0;
      for (std::size_t r = 0; r < group.at("ranks").size(); ++r) {
        code = static_cast<std::uint16_t>(code + codes[r * matrices.size() + i]);
        spectra[static_cast<std::size_t>(matrices[i])][group.at("ranks")[r]] =
            code == kNoSigma ? 0.0 : firsts[i] * std::exp(-code / block.at("steps").get<double>());
      }
    }
  }
  return spectra;
}

TEST_F(Page, HasEverySpectrumWithinItsSteps) {
  const SampleOptions options = {.layers = 2, .experts = 30, .rows = 40, .cols = 33};
  const results::RunDescription run = sample_run(options);
  const Document block = block_of(page_of({sample("out.h5", options)}), 0, "spectra");
  const auto spectra = spectra_of(block);
  ASSERT_EQ(spectra.size(), run.matrices.size());
  for (const auto& [row, values] : spectra) {
    const results::ResultRow wanted = sample_row(run, static_cast<std::int64_t>(row));
    ASSERT_EQ(values.size(), wanted.sigma.size());
    for (const auto& [rank, value] : values) {
      const double sigma = wanted.sigma[static_cast<std::size_t>(rank - 1)];
      EXPECT_NEAR(value / sigma, 1.0, 0.51 / sigma_steps(0)) << row << ' ' << rank;
    }
  }
}

TEST_F(Page, HasTheLawOfEveryShape) {
  const SampleOptions options = {.layers = 1, .experts = 2, .rows = 300, .cols = 100};
  const Document page = block_of(page_of({sample("out.h5", options)}), 0, "spectra");
  const Document main = block_of(file_text(folder_ / "page.html"), 0, "main");
  ASSERT_EQ(page.at("laws").size(), main.at("shapes").size());
  for (std::size_t s = 0; s < page.at("laws").size(); ++s) {
    const Document& law = page.at("laws")[s];
    const double rows = main.at("shapes")[s][0], cols = main.at("shapes")[s][1];
    const double g = std::min(rows, cols) / std::max(rows, cols);
    EXPECT_NEAR(law.at("lower"), std::pow(1 - std::sqrt(g), 2), 1e-12);
    EXPECT_NEAR(law.at("upper"), std::pow(1 + std::sqrt(g), 2), 1e-12);
    EXPECT_GT(law.at("edge"), law.at("upper"));
    const std::vector<double> x = numbers_of(law.at("x"));
    const std::vector<double> density = numbers_of(law.at("density"));
    double mass = 0.0;
    for (std::size_t i = 1; i < x.size(); ++i) {
      const double middle = 0.5 * (x[i] + x[i - 1]);
      const double exact = std::sqrt((middle - law.at("lower").get<double>()) *
                                     (law.at("upper").get<double>() - middle)) /
                           (2.0 * M_PI * g * middle);
      EXPECT_NEAR(0.5 * (density[i] + density[i - 1]), exact, 0.02 * exact + 0.02);
      mass += 0.5 * (density[i] + density[i - 1]) * (x[i] - x[i - 1]);
    }
    EXPECT_NEAR(mass, 1.0, 2e-3);
    // Squares of the expected singular values have the mean 1, as the law has.
    double sum = 0.0;
    for (const double sigma : numbers_of(law.at("sigma"))) {
      sum += sigma * sigma;
    }
    EXPECT_NEAR(sum / std::min(rows, cols), 1.0, 1e-6);
  }
}

TEST(ChosenRanks, AreAllOrSpreadByRatioAndByStep) {
  EXPECT_EQ(chosen_ranks(3, 24), (std::vector<std::int64_t>{1, 2, 3}));
  EXPECT_EQ(chosen_ranks(24, 24).size(), 24U);
  EXPECT_EQ(chosen_ranks(0, 24).size(), 0U);
  for (const std::int64_t count : {25, 100, 2048, 7168}) {
    const std::vector<std::int64_t> ranks = chosen_ranks(count, 24);
    EXPECT_LE(ranks.size(), 24U);
    EXPECT_GE(ranks.size(), 18U) << count;
    EXPECT_EQ(ranks.front(), 1);
    EXPECT_EQ(ranks[7], 8);
    EXPECT_EQ(ranks.back(), count);
    EXPECT_TRUE(std::is_sorted(ranks.begin(), ranks.end()));
  }
}

TEST_F(Page, ShowsSeveralFilesInTheirOrder) {
  const std::string a = sample("a.h5"), b = sample("b.h5", {.layers = 5});
  const std::string page = page_of({b, a});
  EXPECT_EQ(block_of(page, 0, "main").at("label"), "b");
  EXPECT_EQ(block_of(page, 1, "main").at("label"), "a");
  EXPECT_EQ(block_of(page, 0, "main").at("counts").at("total"), 35);
  EXPECT_EQ(block_of(page, 1, "main").at("counts").at("total"), 14);
}

TEST_F(Page, SaysWhatWasNotMeasured) {
  const results::RunDescription run = sample_run();
  const std::string path = folder_ / "out.h5";
  {
    const auto store = results::open_run_store(path, run, {}, false);
    results::ResultRow failed = sample_row(run, 0);
    failed.status = MatrixStatus::kFailed;
    failed.reason = "bytes of <b>bad</b> scales";
    failed.error_class = "65";
    failed.cells.clear();
    failed.sigma.clear();
    store->add(std::move(failed));
    measure_rows(*store, run, 1, 5);
    store->publish_file();
  }
  const Document main = block_of(page_of({path}), 0, "main");
  EXPECT_EQ(main.at("status"), "partial");
  EXPECT_EQ(main.at("counts").at("failed"), 1);
  EXPECT_EQ(main.at("counts").at("skipped"), 9);
  EXPECT_EQ(texts_of(main.at("rows").at("status"))[0], "failed");
  EXPECT_EQ(texts_of(main.at("rows").at("reason"))[0], "bytes of <b>bad</b> scales");
  EXPECT_TRUE(std::isnan(metrics_of(main).at("stable_rank")[0]));
  EXPECT_FALSE(std::isnan(metrics_of(main).at("stable_rank")[1]));
}

TEST_F(Page, NamesOfAModelAreDataAndNothingElse) {
  const std::vector<std::string> names = {
      "<script>alert(1)</script>", "</script><script>alert(2)</script>",
      "\"><img src=x onerror=alert(3)>", "<!--", "{{script}} {{data}}"};
  results::RunDescription run = sample_run({.layers = 1, .experts = 5});
  for (std::size_t i = 0; i < names.size(); ++i) {
    run.matrices[i + 1].tensor = names[i];
    run.matrices[i + 1].role = names[i];
  }
  run.model = run.title = run.history = "</title></script><script>alert(4)</script>";
  run.command_json = R"(["</script><script>alert(5)</script>"])";
  const std::string path = folder_ / "<svg onload=alert(6)>&.h5";
  write_sample(path, run);
  const std::string page = page_of({path});
  // The data of the one file (two blocks) and the script of the page.
  EXPECT_EQ(count_of(page, "<script"), 3U);
  EXPECT_EQ(count_of(page, "</script"), 3U);
  for (const char* part : {"alert(1)</", "<img", "<svg onload", "alert(4)</"}) {
    EXPECT_EQ(count_of(page, part), 0U) << part;
  }
  EXPECT_EQ(count_of(page, "<title>&lt;svg onload=alert(6)&gt;&amp;.h5 "), 1U);
  const Document main = block_of(page, 0, "main");
  const std::vector<std::string> read = names_of(main.at("rows"));
  for (const std::string& name : names) {
    EXPECT_EQ(std::count(read.begin(), read.end(), name), 1) << name;
  }
}

TEST_F(Page, LoadsNothingAndRunsItsOwnScriptAlone) {
  const std::string page = page_of({sample("out.h5")});
  // Names of XML namespaces are no addresses that anything opens.
  std::string rest = page;
  for (const char* name : {"http://www.w3.org/2000/svg", "http://www.w3.org/1999/xlink",
                           "http://www.w3.org/2000/xmlns/"}) {
    for (std::size_t at; (at = rest.find(name)) != std::string::npos;) {
      rest.erase(at, std::string(name).size());
    }
  }
  EXPECT_EQ(count_of(rest, "http://"), 0U);
  EXPECT_EQ(count_of(rest, "https://"), 0U);
  EXPECT_EQ(count_of(rest, "sourceMappingURL"), 0U);
  EXPECT_EQ(count_of(rest, " src="), 0U);
  const std::size_t begin = page.rfind("<script>") + 8;
  const Sha256Digest digest = sha256(page.substr(begin, page.rfind("</script>") - begin));
  EXPECT_EQ(count_of(page, "script-src 'sha256-" + base64(std::as_bytes(std::span(digest))) + "'"),
            1U);
  EXPECT_EQ(count_of(page, "default-src 'none'"), 1U);
  EXPECT_EQ(count_of(page, "BSD 3-Clause"), 1U);
}

TEST_F(Page, IsRefusedWhereItCannotBe) {
  const std::string file = sample("out.h5");
  const std::vector<std::string> paths = {file};
  const std::string target = folder_ / "page.html";
  EXPECT_EQ(error_of([&] { write_page(paths, file, true); }), "E-OUTPUT-SOURCE");
  EXPECT_EQ(error_of([&] { write_page(paths, sample("other.h5"), true); }), "E-OUTPUT-RESULTS");
  EXPECT_EQ(error_of([&] { write_page(paths, target, false); }), "none");
  EXPECT_EQ(error_of([&] { write_page(paths, target, false); }), "E-OUTPUT-EXISTS");
  EXPECT_EQ(error_of([&] { write_page(paths, target, true); }), "none");
  const std::vector<std::string> twice = {file, folder_ / "./out.h5"};
  EXPECT_EQ(error_of([&] { write_page(twice, target, true); }), "E-REPORT-TWICE");
  const std::string before = file_text(target);
  std::ofstream(folder_ / "foreign.h5") << "no results";
  const std::vector<std::string> foreign = {file, folder_ / "foreign.h5"};
  EXPECT_EQ(error_of([&] { write_page(foreign, target, true); }), "E-RESULTS-HDF5");
  const std::vector<std::string> absent = {folder_ / "absent.h5"};
  EXPECT_NE(error_of([&] { write_page(absent, target, true); }), "none");
  EXPECT_EQ(file_text(target), before) << "a refusal leaves what was there";
}

}  // namespace
}  // namespace vindex::report::testing::page_test
