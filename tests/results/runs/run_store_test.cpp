// The life of a results file: parts, publishing, resume, restart, merge, and what is refused.
#include "results/reading/results_reader.hpp"
#include "results/reading/validate.hpp"
#include "results/runs/merge.hpp"
#include "results/runs/run_status.hpp"
#include "tests/results/sample_run.hpp"
#include "tests/support/expect_error.hpp"
#include <vindex/error.hpp>

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

namespace vindex::results::testing::run_store_test {
namespace {

std::vector<StoredRow> rows_of(const std::string& path) { return ResultsReader(path).rows(0); }

std::vector<double> sigma_of(const std::string& path, const StoredRow& row) {
  ResultsReader reader(path);
  std::vector<double> sigma(static_cast<std::size_t>(row.sigma_count));
  reader.spectra().read_sigma(row.bulk.row, sigma);
  return sigma;
}

template <typename T>
std::vector<std::byte> typed_bytes(const h5::Dataset& dataset) {
  std::uint64_t elements = 1;
  for (const std::uint64_t side : dataset.shape()) {
    elements *= side;
  }
  std::vector<T> values(elements);
  dataset.read<T>(0, dataset.shape()[0], values);
  const auto bytes = std::as_bytes(std::span(values));
  return {bytes.begin(), bytes.end()};
}

std::vector<std::byte> bytes_of(const h5::Dataset& dataset) {
  switch (dataset.type()) {
    case h5::Type::kInt8:
      return typed_bytes<std::int8_t>(dataset);
    case h5::Type::kInt32:
      return typed_bytes<std::int32_t>(dataset);
    case h5::Type::kInt64:
      return typed_bytes<std::int64_t>(dataset);
    case h5::Type::kFloat32:
      return typed_bytes<float>(dataset);
    default:
      return typed_bytes<double>(dataset);
  }
}

/// Everything but /run/, dataset by dataset.
void expect_same_content(const std::string& one, const std::string& two) {
  const ResultsReader a(one);
  const ResultsReader b(two);
  const auto compare = [&](const std::string& path) {
    const h5::Dataset left = a.file().open_dataset(path);
    const h5::Dataset right = b.file().open_dataset(path);
    ASSERT_EQ(left.shape(), right.shape()) << path;
    ASSERT_EQ(left.type(), right.type()) << path;
    if (left.type() == h5::Type::kString) {
      EXPECT_EQ(a.file().read_strings(path), b.file().read_strings(path)) << path;
      return;
    }
    EXPECT_EQ(bytes_of(left), bytes_of(right)) << path;
  };
  std::vector<std::string> groups = {"/matrix", "/tensor", "/layer", "/resume"};
  for (const char* parent : {"/spectra", "/vectors"}) {
    EXPECT_EQ(a.file().list(parent), b.file().list(parent));
    for (const std::string& name : a.file().list(parent)) {
      groups.push_back(std::string(parent) + "/" + name);
    }
  }
  for (const std::string& group : groups) {
    EXPECT_EQ(a.file().list(group), b.file().list(group));
    for (const std::string& name : a.file().list(group)) {
      compare(group + "/" + name);
    }
  }
}

using vindex::testing::error_of;

TEST(RunStore, PublishedFileIsValidAndHoldsWhatWasAdded) {
  const TestFolder folder;
  const std::string path = folder / "out.h5";
  const RunDescription run = sample_run();
  write_sample(path, run);
  EXPECT_EQ(validate_file(path), std::vector<std::string>{});
  const std::vector<StoredRow> rows = rows_of(path);
  ASSERT_EQ(rows.size(), run.matrices.size());
  for (std::size_t i = 0; i < rows.size(); ++i) {
    const ResultRow wanted = sample_row(run, static_cast<std::int64_t>(i));
    EXPECT_EQ(rows[i].tensor, run.matrices[i].tensor);
    EXPECT_EQ(rows[i].status, wanted.status);
    EXPECT_EQ(rows[i].escalated, wanted.escalated);
    const commands::SpectrumNumbers found = commands::spectrum_numbers(rows[i].cells);
    const commands::SpectrumNumbers numbers = commands::spectrum_numbers(wanted.cells);
    EXPECT_EQ(found.sigma_error, numbers.sigma_error);
    EXPECT_EQ(found.values.var_at_k, numbers.values.var_at_k);
    EXPECT_EQ(found.values[statistics::Metric::kStableRank],
              numbers.values[statistics::Metric::kStableRank]);
    EXPECT_EQ(found.moments, numbers.moments);
    EXPECT_EQ(sigma_of(path, rows[i]), wanted.sigma);
  }
  EXPECT_FALSE(std::filesystem::exists(path + ".parts"));
}

/// Results files in the folder of parts of `path`.
std::size_t results_in_parts(const std::string& path) {
  std::size_t count = 0;
  for (const auto& entry : std::filesystem::directory_iterator(path + ".parts")) {
    count += entry.path().extension() == ".h5" ? 1 : 0;
  }
  return count;
}

TEST(RunStore, ARunThatWaitsInMemoryIsPublishedAsOneThatWasInParts) {
  const TestFolder folder;
  const RunDescription run = sample_run({.vectors = 2});
  const auto count = static_cast<std::int64_t>(run.matrices.size());
  const std::string at_once = folder / "at_once.h5", in_parts = folder / "in_parts.h5";
  {
    const auto store = open_run_store(at_once, run, {}, false);
    measure_rows(*store, run, 0, count);
    EXPECT_EQ(results_in_parts(at_once), 0U);
    store->publish_file();
    EXPECT_FALSE(std::filesystem::exists(at_once + ".parts"));
  }
  {
    const auto store = open_run_store(in_parts, run, {}, false);
    measure_rows(*store, run, 0, count / 2);
    store->publish_part();
    EXPECT_EQ(results_in_parts(in_parts), 2U);  // and the description of the run
    measure_rows(*store, run, count / 2, count);
    store->publish_file();
  }
  EXPECT_EQ(validate_file(at_once), std::vector<std::string>{});
  expect_same_content(at_once, in_parts);
}

TEST(RunStore, RowsWhoseFileCannotBeWrittenStillWaitForAPart) {
  const TestFolder folder;
  const std::string path = folder / "out.h5";
  const RunDescription run = sample_run();
  const auto count = static_cast<std::int64_t>(run.matrices.size());
  {
    const auto store = open_run_store(path, run, {}, false);
    measure_rows(*store, run, 0, count);
    std::filesystem::create_directory(path);  // no file takes its place
    EXPECT_ANY_THROW(store->publish_file());
    store->publish_part();
  }
  std::filesystem::remove(path);
  const auto store = open_run_store(path, run, {}, false);
  EXPECT_EQ(store->done(), std::vector<bool>(run.matrices.size(), true));
}

TEST(RunStore, ResumeReusesPublishedRowsOnly) {
  const TestFolder folder;
  const std::string path = folder / "out.h5";
  const RunDescription run = sample_run();
  {
    const auto store = open_run_store(path, run, {}, false);
    measure_rows(*store, run, 0, 4);
    store->publish_part();
    measure_rows(*store, run, 4, 6);  // never published
  }
  EXPECT_FALSE(std::filesystem::exists(path));
  EXPECT_EQ(read_status(path).state, "running");
  EXPECT_EQ(read_status(path).done, 4);
  EXPECT_EQ(read_status(path).left, 10);
  const auto store = open_run_store(path, run, {}, false);
  for (std::size_t i = 0; i < run.matrices.size(); ++i) {
    EXPECT_EQ(store->done()[i], i < 4) << i;
  }
  measure_rows(*store, run, 4, 14);
  store->publish_file();
  EXPECT_EQ(validate_file(path), std::vector<std::string>{});
  EXPECT_EQ(read_status(path).state, "complete");
  EXPECT_FALSE(std::filesystem::exists(path + ".parts"));
}

TEST(RunStore, PartialFileIsValidAndSkippedRowsSayWhy) {
  const TestFolder folder;
  const std::string path = folder / "out.h5";
  const RunDescription run = sample_run();
  const auto store = open_run_store(path, run, {}, false);
  measure_rows(*store, run, 3, 5);
  store->publish_file();
  EXPECT_EQ(validate_file(path), std::vector<std::string>{});
  EXPECT_EQ(read_status(path).state, "partial");
  EXPECT_EQ(read_status(path).done, 2);
  EXPECT_TRUE(std::filesystem::exists(path + ".parts"));
  const std::vector<StoredRow> rows = rows_of(path);
  EXPECT_EQ(rows[0].status, MatrixStatus::kSkipped);
  EXPECT_EQ(rows[0].reason, kNotYetMeasured);
  EXPECT_EQ(rows[0].sigma_count, 0);
}

TEST(RunStore, AnotherFingerprintIsRefusedNamingTheLine) {
  const TestFolder folder;
  const std::string path = folder / "out.h5";
  RunDescription run = sample_run();
  write_sample(path, run);
  run.fingerprint[0].second = "8192";
  try {
    open_run_store(path, run, {}, false);
    FAIL() << "no error";
  } catch (const ConfigurationError& error) {
    EXPECT_NE(std::string(error.what()).find("model.bytes was '4096', now '8192'"),
              std::string::npos)
        << error.what();
  }
  EXPECT_FALSE(std::filesystem::exists(path + ".parts"));
}

TEST(RunStore, RestartDiscardsAnotherRun) {
  const TestFolder folder;
  const std::string path = folder / "out.h5";
  RunDescription run = sample_run();
  write_sample(path, run);
  run.fingerprint[0].second = "8192";
  const auto store = open_run_store(path, run, {}, true);
  EXPECT_FALSE(store->done()[0]);
  EXPECT_FALSE(std::filesystem::exists(path));
}

TEST(RunStore, LargerSelectionCarriesOldRowsOver) {
  const TestFolder folder;
  const std::string path = folder / "out.h5";
  const RunDescription all = sample_run();
  RunDescription some = all;
  some.matrices.erase(some.matrices.begin(), some.matrices.begin() + 7);  // layer 1 only
  {
    const auto store = open_run_store(path, some, {}, false);
    for (std::int64_t i = 7; i < 14; ++i) {
      ResultRow row = sample_row(all, i);
      row.index = i - 7;
      store->add(std::move(row));
    }
    store->publish_file();
  }
  EXPECT_EQ(read_status(path).matrices_total, 7);
  {
    const auto store = open_run_store(path, all, {}, false);
    EXPECT_FALSE(store->done()[6]);
    EXPECT_TRUE(store->done()[7]);
    measure_rows(*store, all, 0, 7);
    store->publish_file();
  }
  EXPECT_EQ(validate_file(path), std::vector<std::string>{});
  const std::vector<StoredRow> rows = rows_of(path);
  ASSERT_EQ(rows.size(), 14U);
  EXPECT_EQ(sigma_of(path, rows[9]), sample_row(all, 9).sigma);
}

TEST(RunStore, FailedRowsAreRetriedUnsupportedOnesAreNot) {
  const TestFolder folder;
  const std::string path = folder / "out.h5";
  const RunDescription run = sample_run();
  {
    const auto store = open_run_store(path, run, {}, false);
    measure_rows(*store, run, 2, 14);
    for (const std::int64_t i : {0, 1}) {
      ResultRow row;
      row.index = i;
      row.status = i == 0 ? MatrixStatus::kFailed : MatrixStatus::kUnsupported;
      row.reason = "read error";
      row.error_class = "74";
      store->add(std::move(row));
    }
    store->publish_file();
  }
  EXPECT_EQ(validate_file(path), std::vector<std::string>{});
  EXPECT_EQ(read_status(path).state, "complete");
  EXPECT_EQ(read_status(path).failed, 2);
  const auto store = open_run_store(path, run, {}, false);
  EXPECT_FALSE(store->done()[0]);
  EXPECT_TRUE(store->done()[1]);
  measure_rows(*store, run, 0, 1);
  store->publish_file();
  EXPECT_EQ(read_status(path).failed, 1);
  EXPECT_EQ(rows_of(path)[1].error_class, "74");
}

TEST(RunStore, SecondProcessOnTheSameOutputIsRefused) {
  const TestFolder folder;
  const std::string path = folder / "out.h5";
  const RunDescription run = sample_run();
  const auto store = open_run_store(path, run, {}, false);
  EXPECT_EQ(error_of([&] { open_run_store(path, run, {}, false); }), "E-RUN-LOCKED");
  EXPECT_EQ(error_of([&] { open_run_store(path, run, {0, 2}, false); }), "E-RUN-LOCKED");
  measure_rows(*store, run, 0, 14);
  store->publish_file();
  EXPECT_EQ(validate_file(path), std::vector<std::string>{});
}

TEST(RunStore, WorkersOfOneCountGoTogether) {
  const TestFolder folder;
  const std::string path = folder / "out.h5";
  const RunDescription run = sample_run();
  const auto first = open_run_store(path, run, {0, 2}, false);
  const auto second = open_run_store(path, run, {1, 2}, false);
  EXPECT_EQ(error_of([&] { open_run_store(path, run, {1, 2}, false); }), "E-RUN-LOCKED");
  EXPECT_EQ(error_of([&] { open_run_store(path, run, {0, 3}, false); }), "E-RUN-LOCKED");
}

TEST(RunStore, LockOfADeadProcessIsTakenOver) {
  const TestFolder folder;
  const std::string path = folder / "out.h5";
  std::filesystem::create_directory(path + ".parts");
  std::array<char, 256> host = {};
  ASSERT_EQ(gethostname(host.data(), host.size()), 0);
  // Process numbers end far below this.
  std::ofstream(path + ".parts/0of1.lock") << host.data() << " 999999999 1\n";
  EXPECT_NO_THROW(open_run_store(path, sample_run(), {}, false));
}

TEST(RunStore, MergedWorkersEqualTheSingleRun) {
  const TestFolder folder;
  SampleOptions options;
  options.vectors = 4;
  options.sign_flip_draws = 4;
  const RunDescription run = sample_run(options);
  const std::string single = folder / "single.h5";
  write_sample(single, run);
  const std::string merged = folder / "merged.h5";
  for (const std::int32_t worker : {1, 0}) {
    const auto store = open_run_store(merged, run, {worker, 2}, false);
    for (std::int64_t i = worker; i < 14; i += 2) {
      store->add(sample_row(run, i));
      if (i % 4 == 1) {
        store->publish_part();
      }
    }
    store->publish_file();
    EXPECT_FALSE(std::filesystem::exists(merged));
  }
  merge_parts({merged + ".parts"}, merged);
  EXPECT_EQ(validate_file(merged), std::vector<std::string>{});
  EXPECT_FALSE(std::filesystem::exists(merged + ".parts"));
  expect_same_content(single, merged);
}

TEST(RunStore, PartsOfDifferentRunsAreNotMerged) {
  const TestFolder folder;
  RunDescription run = sample_run();
  for (const char* name : {"a.h5", "b.h5"}) {
    const auto store = open_run_store(folder / name, run, {0, 2}, false);
    measure_rows(*store, run, 0, 2);
    store->publish_part();
    run.fingerprint[1].second = "2";
  }
  EXPECT_EQ(error_of([&] {
              merge_parts({folder / "a.h5.parts", folder / "b.h5.parts"}, folder / "out.h5");
            }),
            "E-RESUME-FINGERPRINT");
  EXPECT_FALSE(std::filesystem::exists(folder / "out.h5"));
}

}  // namespace
}  // namespace vindex::results::testing::run_store_test
