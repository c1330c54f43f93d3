// The main job over a store that is slow, lies and dies: what passes leaves the bits of the local
// run, what does not ends with the exit code of its cause, and nothing half-written is left.
#include "tests/support/unsteady_store.hpp"

#include "commands/spectra/measure_run.hpp"
#include "engine/run/opening.hpp"
#include "engine/units/stored_sources.hpp"
#include "input/open/open_model.hpp"
#include "input/stores/shard_copies.hpp"
#include "model/index/index_model.hpp"
#include "tests/support/program/h5_support.hpp"
#include "tests/support/safetensors_builder.hpp"
#include "tests/support/temporary_folder.hpp"
#include <vindex/error.hpp>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <bit>
#include <chrono>
#include <filesystem>
#include <iterator>
#include <map>
#include <mutex>
#include <stop_token>
#include <thread>
#include <utility>

namespace vindex::commands::unsteady_store_test {
namespace {

namespace fs = std::filesystem;
using vindex::testing::MeasuredRow;
using vindex::testing::TemporaryFolder;
using vindex::testing::throw_busy;
using vindex::testing::UnsteadyStore;
using Kind = UnsteadyStore::Kind;
using Request = UnsteadyStore::Request;

constexpr int kShards = 3, kPerShard = 4, kRows = 40, kCols = 24;
constexpr int kMatrices = kShards * kPerShard;
constexpr std::size_t kBytes = std::size_t{kRows} * kCols * 4;

std::string shard_name(int i) {
  return fmt::format("m-{:05}-of-{:05}.safetensors", i + 1, kShards);
}

std::string shard_of(int number) {
  std::string entries;
  std::string data;
  auto seed = static_cast<std::uint32_t>(number + 1);
  for (int i = 0; i < kPerShard; ++i) {
    entries += i == 0 ? "" : ",";
    entries += vindex::testing::safetensors_entry(
        fmt::format("model.layers.{}.mlp.experts.{}.down_proj.weight", number, i), "F32",
        fmt::format("{},{}", kRows, kCols),
        fmt::format("{},{}", data.size(), data.size() + kBytes));
    for (int j = 0; j < kRows * kCols; ++j) {
      seed = seed * 1664525U + 1013904223U;
      const std::uint32_t bits = 0x3F800000U | (seed >> 9U);
      data.append(reinterpret_cast<const char*>(&bits), 4);
    }
  }
  return vindex::testing::safetensors_file(vindex::testing::braces(entries), 0) + data;
}

/// A model in memory and in a folder, and runs of both.
class UnsteadyRunTest : public ::testing::Test {
 protected:
  UnsteadyRunTest() {
    for (int i = 0; i < kShards; ++i) {
      put(shard_name(i), shard_of(i));
    }
    put("config.json", R"({"model_type":"deepseek_v3"})");
  }

  commands::SpectraSettings settings(const std::string& output) const {
    commands::SpectraSettings out;
    out.run.model = folder_ / "model";
    out.run.output = folder_ / output;
    out.run.backend = engine::BackendChoice::kCpu;
    out.run.threads = 2;
    out.run.ram_budget = std::uint64_t{1} << 30U;
    return out;
  }
  commands::SpectraSettings remote(const std::string& output, std::int32_t attempts = 4) {
    commands::SpectraSettings out = settings(output);
    out.run.model = vindex::testing::UnsteadyScheme::address({});
    scheme_.set_attempts(attempts);
    return out;
  }
  static engine::RunOutcome run(const commands::SpectraSettings& settings) {
    return measure_model(settings, {});
  }
  /// Exit code of a run that is refused, which leaves nothing behind.
  int refusal_of(const commands::SpectraSettings& settings) {
    int code = 0;
    try {
      (void)run(settings);
    } catch (const Error& error) {
      code = static_cast<int>(error.exit_code());
      message_ = error.what();
    }
    for (const auto& entry : fs::directory_iterator(folder_.path())) {
      EXPECT_EQ(entry.path().filename(), "model");
    }
    return code;
  }
  void expect_bits_of_the_local_run(const std::string& output) {
    const std::string path = folder_ / output;
    if (!fs::exists(folder_ / "local.h5")) {
      EXPECT_EQ(run(settings("local.h5")).exit_code, ExitCode::kOk);
    }
    const std::vector<MeasuredRow> wanted = vindex::testing::read_rows(folder_ / "local.h5");
    const std::vector<MeasuredRow> got = vindex::testing::read_rows(path);
    ASSERT_EQ(got.size(), static_cast<std::size_t>(kMatrices));
    ASSERT_EQ(wanted.size(), got.size());
    for (std::size_t i = 0; i < got.size(); ++i) {
      EXPECT_EQ(got[i].tensor, wanted[i].tensor);
      EXPECT_EQ(got[i].status, wanted[i].status);
      EXPECT_EQ(got[i].sigma, wanted[i].sigma) << got[i].tensor;
      EXPECT_EQ(got[i].sigma.size(), static_cast<std::size_t>(kCols));
      EXPECT_EQ(std::bit_cast<std::uint64_t>(got[i].frobenius_norm),
                std::bit_cast<std::uint64_t>(wanted[i].frobenius_norm));
    }
  }
  static bool is_weights(const Request& request) {
    return request.kind == Kind::kRead && request.offset >= 400 &&
           request.name.ends_with(".safetensors");
  }

  TemporaryFolder folder_;
  vindex::testing::UnsteadyScheme scheme_;
  UnsteadyStore* store_ = &scheme_.store();
  std::string message_;

 private:
  void put(const std::string& name, const std::string& bytes) {
    store_->put(name, bytes);
    folder_.write("model/" + name, bytes);
  }
};

TEST_F(UnsteadyRunTest, ASlowStoreGivesTheBitsOfTheLocalRun) {
  store_->before([](const Request&) { std::this_thread::sleep_for(std::chrono::milliseconds(2)); });
  const engine::RunOutcome outcome = run(remote("slow.h5"));
  EXPECT_EQ(outcome.exit_code, ExitCode::kOk);
  EXPECT_EQ(outcome.measured_now, kMatrices);
  EXPECT_GE(outcome.reading.other_bytes, kMatrices * kBytes);
  EXPECT_EQ(outcome.reading.direct_bytes + outcome.reading.buffered_bytes, 0U);
  expect_bits_of_the_local_run("slow.h5");
  // Asked for when its numbers are believed, not when its bytes arrive.
  EXPECT_LE(store_->count(Kind::kIdentity), static_cast<std::uint64_t>(kMatrices));
  EXPECT_EQ(run(remote("slow.h5")).done_before, kMatrices);
}

TEST_F(UnsteadyRunTest, ConnectionsThatDieAreMadeAnew) {
  store_->before([](const Request& request) {
    if (request.number % 3 != 2) {
      throw_busy(request.name);
    }
  });
  EXPECT_EQ(run(remote("busy.h5", 40)).exit_code, ExitCode::kOk);
  EXPECT_GT(scheme_.waits(), kMatrices);
  expect_bits_of_the_local_run("busy.h5");
}

// A transport that notices a corrupted answer says so as a failure that may pass.
TEST_F(UnsteadyRunTest, WhatArrivesCorruptedOnceIsFetchedAgain) {
  store_->after([](const Request& request, std::span<std::byte> bytes) {
    if (request.kind == Kind::kRead && request.number == 1) {
      std::fill(bytes.begin(), bytes.end(), std::byte{0xA5});
      throw RemoteError("E-REMOTE-DIGEST", request.name + ": the answer's digest is wrong", true);
    }
  });
  EXPECT_EQ(run(remote("corrupted.h5")).exit_code, ExitCode::kOk);
  EXPECT_GE(scheme_.waits(), kShards);
  expect_bits_of_the_local_run("corrupted.h5");
}

TEST_F(UnsteadyRunTest, AHeaderThatLiesIsRefused) {
  store_->after([](const Request& request, std::span<std::byte> bytes) {
    if (request.kind == Kind::kRead && request.name == shard_name(1) && request.offset == 0) {
      bytes[20] ^= std::byte{0x80};
    }
  });
  EXPECT_EQ(refusal_of(remote("out.h5")), 65) << message_;
  EXPECT_NE(message_.find(shard_name(1)), std::string::npos) << message_;
}

TEST_F(UnsteadyRunTest, AWrongSizeIsRefused) {
  for (const std::int64_t lie : {-1, 1, 100'000, -200}) {
    store_->at(shard_name(2)).lie = lie;
    EXPECT_EQ(refusal_of(remote("out.h5")), 65) << lie << " " << message_;
  }
}

TEST_F(UnsteadyRunTest, ADeadStoreEndsWith69AfterItsAttempts) {
  store_->before([](const Request& request) { throw_busy(request.name); });
  EXPECT_EQ(refusal_of(remote("out.h5")), 69);
  EXPECT_NE(message_.find("given up after 4 attempts"), std::string::npos) << message_;
  EXPECT_EQ(scheme_.waits(), 3);
}

TEST_F(UnsteadyRunTest, AStoreThatDiesUnderTheRunLosesRowsAndNoMore) {
  std::atomic<bool> alive{false};
  store_->before([&](const Request& request) {
    if (!alive && is_weights(request) && request.name != shard_name(0)) {
      throw_busy(request.name);
    }
  });
  const engine::RunOutcome outcome = run(remote("dies.h5"));
  EXPECT_EQ(outcome.exit_code, ExitCode::kUnavailable);
  EXPECT_EQ(outcome.measured_now, kMatrices);
  EXPECT_EQ(outcome.failed, kMatrices - kPerShard);
  ASSERT_FALSE(outcome.troubles.empty());
  EXPECT_NE(outcome.troubles[0].find("given up after"), std::string::npos) << outcome.troubles[0];
  // What was measured stays; the rest is measured when the store is back.
  alive = true;
  const engine::RunOutcome again = run(remote("dies.h5"));
  EXPECT_EQ(again.exit_code, ExitCode::kOk);
  EXPECT_EQ(again.done_before, kPerShard);
  expect_bits_of_the_local_run("dies.h5");
}

TEST_F(UnsteadyRunTest, AnErrorThatCannotPassIsNotRepeated) {
  store_->before([](const Request& request) {
    if (is_weights(request) && request.name == shard_name(1)) {
      throw RemoteError("E-REMOTE-DENIED", request.name + ": the server answers 403", false);
    }
  });
  const engine::RunOutcome outcome = run(remote("denied.h5"));
  EXPECT_EQ(outcome.exit_code, ExitCode::kUnavailable);
  EXPECT_EQ(outcome.failed, kPerShard);
  EXPECT_EQ(scheme_.waits(), 0);
}

TEST_F(UnsteadyRunTest, AnotherVersionUnderTheRunIsNoticedBeforeItsNumbersAreBelieved) {
  std::atomic<bool> changed{false};
  store_->before([&](const Request& request) {
    if (is_weights(request) && request.name == shard_name(1) && !changed.exchange(true)) {
      store_->set_version(request.name, "two");
    }
  });
  const engine::RunOutcome outcome = run(remote("changed.h5"));
  EXPECT_EQ(outcome.exit_code, ExitCode::kInputOutput);
  EXPECT_EQ(outcome.failed, kPerShard);
  for (const std::string& line : outcome.troubles) {
    EXPECT_NE(line.find("E-INPUT-CHANGED"), std::string::npos) << line;
  }
  // The results are of a model that is gone.
  EXPECT_THROW((void)run(remote("changed.h5")), ConfigurationError);
}

TEST_F(UnsteadyRunTest, AStoppedRunFetchesNothingTwice) {
  commands::SpectraSettings settings = remote("kept.h5");
  settings.run.threads = 1;
  settings.copies = {.disk_budget = 1 << 20, .folder = folder_ / "copies"};
  std::mutex mutex;
  std::map<std::pair<std::string, std::uint64_t>, int> fetched;
  std::stop_source stop;
  store_->before([&](const Request& request) {
    if (is_weights(request)) {
      const std::lock_guard lock(mutex);
      ++fetched[{request.name, request.offset}];
      // Read ahead of what is measured: its rows are not there when the run stops.
      if (fetched.size() == kMatrices / 2) {
        stop.request_stop();
      }
    }
  });
  engine::RunHooks hooks;
  hooks.stop = stop.get_token();
  const engine::RunOutcome stopped = measure_model(settings, hooks);
  ASSERT_TRUE(stopped.stopped);
  ASSERT_LT(stopped.measured_now, kMatrices);
  EXPECT_TRUE(fs::exists(folder_ / "copies"));

  std::string last;
  hooks = {};
  hooks.message = [&](const std::string& line) { last = line; };
  EXPECT_EQ(measure_model(settings, hooks).exit_code, ExitCode::kOk);
  expect_bits_of_the_local_run("kept.h5");
  for (const auto& [range, times] : fetched) {
    EXPECT_EQ(times, 1) << range.first << " at " << range.second;
  }
  EXPECT_FALSE(fs::exists(folder_ / "copies")) << "every result is stored";
  EXPECT_TRUE(last.starts_with("copies in ")) << last;
}

TEST_F(UnsteadyRunTest, CopiesGoFileByFileAsResultsAreStored) {
  const auto copies = std::make_shared<input::ShardCopies>(folder_ / "copies", 1 << 20);
  copies->make_folder();
  engine::OpenModel kept;
  kept.files = input::open_model(
      input::make_keeping_store(input::open_store(remote("any.h5").run.model), copies));
  kept.index = model::index_model(kept.files, {});
  const auto files_there = [&] {
    return std::distance(fs::directory_iterator(folder_ / "copies"), fs::directory_iterator());
  };
  const engine::ModelViews views = {{&kept.files, &kept.index}};
  std::vector<engine::RowWork> works;
  for (std::int64_t row = 0; row < kMatrices; ++row) {
    if (kept.index.matrices[static_cast<std::size_t>(row)].shard == shard_name(0)) {
      continue;  // done by an earlier run
    }
    works.push_back({.row = row, .matrices = {{0, row}}});
  }
  for (const input::Shard& shard : kept.files.shards) {
    std::byte byte{};
    shard.source->read(1000, std::span(&byte, 1));
  }
  EXPECT_EQ(files_there(), 3);
  engine::StoredSources sources(views, works);
  EXPECT_EQ(files_there(), 2);
  for (std::size_t i = 0; i < works.size(); ++i) {
    sources.made(works[i].row);
    EXPECT_EQ(files_there(), i < kPerShard ? 2 : 1) << "made, not stored";
    sources.stored();
    const std::size_t left = works.size() - i - 1;
    EXPECT_EQ(files_there(), left > kPerShard ? 2 : left > 0 ? 1 : 0);
  }
}

}  // namespace
}  // namespace vindex::commands::unsteady_store_test
