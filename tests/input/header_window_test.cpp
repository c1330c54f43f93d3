// Reading headers side by side: what is in flight stays within bounds, and what comes out is what
// reading one file after the other gives, errors included.
#include "input/header_window.hpp"

#include "core/process/parallel.hpp"
#include "gguf/read_header.hpp"
#include "input/model_files.hpp"
#include "input/open/open_model.hpp"
#include "tests/support/expect_error.hpp"
#include "tests/support/gguf_builder.hpp"
#include "tests/support/safetensors_builder.hpp"
#include "tests/support/temporary_folder.hpp"
#include <vindex/error.hpp>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <mutex>
#include <random>
#include <span>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

namespace vindex::input::header_window_test {
namespace {

using testing::braces;
using testing::GgufBuilder;
using testing::safetensors_entry;
using testing::safetensors_file;
using testing::TemporaryFolder;

constexpr std::int32_t kThreads = 8;

OpenOptions with_threads(std::int32_t threads) {
  OpenOptions options;
  options.threads = threads;
  return options;
}

void wait_a_little(std::mt19937& random) {
  std::this_thread::sleep_for(std::chrono::microseconds(random() % 300));
}

TEST(HeaderWindowTest, WhatIsHeldStaysWithinTheBoundUnlessItIsOneAlone) {
  constexpr std::uint64_t kMax = 100;
  for (std::uint32_t seed = 0; seed < 10; ++seed) {
    std::mt19937 sizes(seed);
    std::vector<std::uint64_t> bytes(60);
    for (std::uint64_t& size : bytes) {
      size = sizes() % 10 == 0 ? 150 : 1 + sizes() % 60;
    }
    HeaderWindow window(bytes.size(), kMax);
    std::mutex mutex;
    std::uint64_t held = 0;
    std::size_t holders = 0;
    std::size_t admitted = 0;
    for_each_index(bytes.size(), kThreads, [&](std::size_t /*worker*/, std::size_t i) {
      std::mt19937 random(seed * 1000 + static_cast<std::uint32_t>(i));
      wait_a_little(random);
      if (i % 7 != 3) {  // others never ask
        ASSERT_TRUE(window.admit(i, bytes[i]));
        {
          const std::lock_guard lock(mutex);
          held += bytes[i];
          ++holders;
          ++admitted;
          EXPECT_TRUE(held <= kMax || holders == 1) << held;
        }
        wait_a_little(random);
        const std::lock_guard lock(mutex);
        held -= bytes[i];
        --holders;
      }
      window.leave(i, false);
    });
    EXPECT_EQ(window.first_failed(), bytes.size());
    EXPECT_GT(admitted, 0U);
  }
}

TEST(HeaderWindowTest, BytesCountUntilAllBeforeAreDone) {
  HeaderWindow window(3, 100);
  EXPECT_TRUE(window.admit(0, 40));
  EXPECT_TRUE(window.admit(1, 60));
  window.leave(1, false);
  std::atomic<bool> is_in = false;
  std::jthread third([&] { is_in = window.admit(2, 10); });
  std::this_thread::sleep_for(std::chrono::milliseconds(20));
  EXPECT_FALSE(is_in);
  window.leave(0, false);
  third.join();
  EXPECT_TRUE(is_in);
}

TEST(HeaderWindowTest, WhatIsBehindAFailureIsNotWanted) {
  HeaderWindow window(3, 100);
  EXPECT_TRUE(window.admit(0, 100));
  bool is_in = true;
  std::jthread third([&] { is_in = window.admit(2, 10); });
  window.leave(1, true);
  third.join();
  EXPECT_FALSE(is_in);
  EXPECT_EQ(window.first_failed(), 1U);
}

TEST(ReadHeadersTest, TakesInOrderUpToTheFirstFailure) {
  for (std::uint32_t turn = 0; turn < 30; ++turn) {
    std::vector<std::size_t> taken;
    std::string error;
    try {
      read_headers(
          20, kThreads,
          [&](std::size_t i, const AskForRoom& ask) {
            std::mt19937 random(turn * 100 + static_cast<std::uint32_t>(i));
            wait_a_little(random);
            ask(std::uint64_t{10} << 20U);
            if (i == 7 || i > 9) {
              throw std::runtime_error(std::to_string(i));
            }
          },
          [&](std::size_t i) { taken.push_back(i); });
    } catch (const std::runtime_error& thrown) {
      error = thrown.what();
    }
    EXPECT_EQ(error, "7");
    EXPECT_EQ(taken, (std::vector<std::size_t>{0, 1, 2, 3, 4, 5, 6}));
  }
}

/// A model of `count` shards of a few tensors each; shards in `bad` end in the middle of a header.
void write_shards(const TemporaryFolder& folder, int count, const std::vector<int>& bad) {
  std::string map;
  for (int i = 0; i < count; ++i) {
    const std::string file = fmt::format("s-{:05}-of-{:05}.safetensors", i + 1, count);
    std::string entries;
    const int tensors = 1 + (i * 7) % 5;
    for (int t = 0; t < tensors; ++t) {
      const std::string name = fmt::format("layers.{}.part.{}.weight", i, t);
      entries +=
          fmt::format("{}{}", t == 0 ? "" : ",",
                      safetensors_entry(name, "F32", "1", fmt::format("{},{}", 4 * t, 4 * t + 4)));
      map += fmt::format("{}\"{}\":\"{}\"", map.empty() ? "" : ",", name, file);
    }
    const bool is_bad = std::find(bad.begin(), bad.end(), i) != bad.end();
    folder.write(file, safetensors_file(is_bad ? "{" + entries : braces(entries),
                                        static_cast<std::size_t>(4 * tensors)));
  }
  folder.write("model.safetensors.index.json", "{\"weight_map\":{" + map + "}}");
}

void expect_same(const ModelFiles& a, const ModelFiles& b) {
  ASSERT_EQ(a.shards.size(), b.shards.size());
  for (std::size_t i = 0; i < a.shards.size(); ++i) {
    EXPECT_EQ(a.shards[i].path, b.shards[i].path);
    EXPECT_EQ(a.shards[i].header_sha256, b.shards[i].header_sha256);
  }
  ASSERT_EQ(a.tensors.size(), b.tensors.size());
  for (std::size_t i = 0; i < a.tensors.size(); ++i) {
    EXPECT_EQ(a.tensors[i].name, b.tensors[i].name);
    EXPECT_EQ(a.tensors[i].shard, b.tensors[i].shard);
    EXPECT_EQ(a.tensors[i].offset, b.tensors[i].offset);
    EXPECT_EQ(a.tensors[i].bytes, b.tensors[i].bytes);
    EXPECT_EQ(a.tensors[i].shape, b.tensors[i].shape);
  }
  ASSERT_EQ(a.warnings.size(), b.warnings.size());
  for (std::size_t i = 0; i < a.warnings.size(); ++i) {
    EXPECT_EQ(a.warnings[i].text, b.warnings[i].text);
  }
}

std::string message_of(const std::string& path, std::int32_t threads) {
  return testing::message_of([&] { open_model(path, with_threads(threads)); });
}

TEST(ReadHeadersTest, AModelIsTheSameForAnyNumberOfThreads) {
  const TemporaryFolder folder;
  write_shards(folder, 40, {});
  const ModelFiles one = open_model(folder.path(), with_threads(1));
  EXPECT_EQ(one.shards.size(), 40U);
  for (int turn = 0; turn < 5; ++turn) {
    expect_same(open_model(folder.path(), with_threads(kThreads)), one);
  }
}

TEST(ReadHeadersTest, OfSeveralBadShardsTheFirstIsNamed) {
  const TemporaryFolder folder;
  write_shards(folder, 40, {11, 12, 13, 30, 39});
  const std::string expected = message_of(folder.path(), 1);
  EXPECT_NE(expected.find("s-00012-of-00040.safetensors"), std::string::npos) << expected;
  for (int turn = 0; turn < 20; ++turn) {
    EXPECT_EQ(message_of(folder.path(), kThreads), expected);
  }
}

/// Number `number` (from 0) of a GGUF set of `count` with one tensor each.
std::string split(int number, int count, int said_number) {
  GgufBuilder builder;
  builder.key_u16("split.no", static_cast<std::uint16_t>(said_number))
      .key_u16("split.count", static_cast<std::uint16_t>(count))
      .key_i32("split.tensors.count", count);
  builder.key_string("general.architecture", "llama");
  builder.tensor("t" + std::to_string(number), {32}, 24, 0);
  builder.data = std::string(32, '\0');
  return builder.bytes();
}

// The room that is asked for covers what the header's lists take, and is asked for before them.
TEST(ReadHeadersTest, AGgufHeaderAsksForRoomByItsNames) {
  GgufBuilder builder;
  builder.key_string("general.architecture", "llama").key_u32("a", 1);
  builder.tensor("t", {32}, 24, 0);
  builder.data = std::string(32, '\0');
  std::string bytes = builder.bytes();
  std::vector<std::uint64_t> asked;
  const auto source = make_memory_source("m.gguf", std::as_bytes(std::span(bytes)));
  const gguf::Header header =
      gguf::read_header(*source, [&](std::uint64_t room) { asked.push_back(room); });
  EXPECT_EQ(header.tensors.size(), 1U);
  EXPECT_EQ(asked, std::vector<std::uint64_t>{3 * 96});
  builder.tensor_count = ~std::uint64_t{0};
  bytes = builder.bytes();
  const auto lie = make_memory_source("m.gguf", std::as_bytes(std::span(bytes)));
  EXPECT_THROW(gguf::read_header(*lie, [&](std::uint64_t) { ADD_FAILURE(); }), FormatError);
}

TEST(ReadHeadersTest, SplitsAreTheSameForAnyNumberOfThreadsAndTheFirstBadOneIsNamed) {
  const TemporaryFolder folder;
  const auto file = [](int i) { return fmt::format("m-{:05}-of-00012.gguf", i + 1); };
  for (int i = 0; i < 12; ++i) {
    folder.write(file(i), split(i, 12, i));
  }
  expect_same(open_model(folder.path(), with_threads(kThreads)),
              open_model(folder.path(), with_threads(1)));
  expect_same(open_model(folder / file(7), with_threads(kThreads)),
              open_model(folder.path(), with_threads(1)));
  // A split that lies about its number comes before one that cannot be read, and the other way.
  folder.write(file(5), split(5, 12, 6));
  folder.write(file(8), "GGUF");
  std::string expected = message_of(folder.path(), 1);
  EXPECT_NE(expected.find("E-SPLIT-NUMBER"), std::string::npos) << expected;
  for (int turn = 0; turn < 20; ++turn) {
    EXPECT_EQ(message_of(folder.path(), kThreads), expected);
  }
  folder.write(file(3), "GGUF");
  expected = message_of(folder.path(), 1);
  EXPECT_NE(expected.find(file(3)), std::string::npos) << expected;
  for (int turn = 0; turn < 20; ++turn) {
    EXPECT_EQ(message_of(folder.path(), kThreads), expected);
  }
}

}  // namespace
}  // namespace vindex::input::header_window_test
