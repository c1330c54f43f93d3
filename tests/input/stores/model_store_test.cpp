// Stores: what a local folder says of its members, that no name leads out of one, and that a model
// opened through another store is the one of the folder, with as few requests as can be.
#include "input/model_store.hpp"

#include "input/model_files.hpp"
#include "input/open/open_model.hpp"
#include "input/stores/open_store.hpp"
#include "tests/support/expect_error.hpp"
#include "tests/support/gguf_builder.hpp"
#include "tests/support/safetensors_builder.hpp"
#include "tests/support/temporary_folder.hpp"
#include "tests/support/unsteady_store.hpp"
#include <vindex/error.hpp>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <cstring>
#include <filesystem>
#include <map>
#include <mutex>

namespace vindex::input::model_store_test {
namespace {

namespace fs = std::filesystem;
using testing::braces;
using testing::GgufBuilder;
using testing::safetensors_entry;
using testing::safetensors_file;
using testing::TemporaryFolder;
using testing::UnsteadyStore;
using Kind = UnsteadyStore::Kind;
using Presence = MemberState::Presence;

std::string shard_name(int i, int count) {
  return fmt::format("s-{:05}-of-{:05}.safetensors", i + 1, count);
}

/// Members of a model of `count` shards with an index and a configuration. The header of shard i
/// takes at least `header_bytes`.
std::map<std::string, std::string> members(int count, std::size_t header_bytes = 0) {
  std::map<std::string, std::string> out;
  std::string map;
  for (int i = 0; i < count; ++i) {
    const std::string file = shard_name(i, count);
    const std::string padding(header_bytes, 'n');
    const std::string tensor = fmt::format("layers.{}.{}weight", i, padding.substr(0, 60'000));
    std::string header = safetensors_entry(tensor, "F32", "2", "0,8");
    if (padding.size() > 60'000) {
      header += ",\"__metadata__\":{\"k\":\"" + padding + "\"}";
    }
    out[file] = safetensors_file(braces(header), 8);
    map += fmt::format("{}\"{}\":\"{}\"", map.empty() ? "" : ",", tensor, file);
  }
  out["model.safetensors.index.json"] =
      fmt::format("{{\"metadata\":{{\"total_size\":{}}},\"weight_map\":{{{}}}}}", 8 * count, map);
  out["config.json"] = R"({"model_type":"llama"})";
  return out;
}

std::shared_ptr<UnsteadyStore> store_of(const std::map<std::string, std::string>& files,
                                        const std::string& file = {}) {
  auto store = std::make_shared<UnsteadyStore>(file);
  for (const auto& [name, bytes] : files) {
    store->put(name, bytes);
  }
  return store;
}

using testing::outcome_of;

void expect_same(const ModelFiles& a, const ModelFiles& b) {
  ASSERT_EQ(a.shards.size(), b.shards.size());
  for (std::size_t i = 0; i < a.shards.size(); ++i) {
    EXPECT_EQ(a.shards[i].file_name, b.shards[i].file_name);
    EXPECT_EQ(a.shards[i].header_sha256, b.shards[i].header_sha256);
    EXPECT_EQ(a.shards[i].identity.bytes, b.shards[i].identity.bytes);
  }
  ASSERT_EQ(a.tensors.size(), b.tensors.size());
  for (std::size_t i = 0; i < a.tensors.size(); ++i) {
    EXPECT_EQ(a.tensors[i].name, b.tensors[i].name);
    EXPECT_EQ(a.tensors[i].shard, b.tensors[i].shard);
    EXPECT_EQ(a.tensors[i].offset, b.tensors[i].offset);
  }
  EXPECT_EQ(a.config.has_value(), b.config.has_value());
  EXPECT_EQ(a.keys.size(), b.keys.size());
  EXPECT_EQ(a.side_files.size(), b.side_files.size());
  ASSERT_EQ(a.warnings.size(), b.warnings.size());
  for (std::size_t i = 0; i < a.warnings.size(); ++i) {
    EXPECT_EQ(a.warnings[i].id, b.warnings[i].id);
  }
}

TEST(LocalStoreTest, SaysWhatItsMembersAre) {
  const TemporaryFolder folder;
  folder.write("model/file", "x");
  folder.write("elsewhere/target", "y");
  fs::create_directories(folder / "model/folder");
  fs::create_symlink("file", folder / "model/inside");
  fs::create_symlink("../elsewhere/target", folder / "model/outside");
  fs::create_symlink("../elsewhere/nothing", folder / "model/dangling");
  fs::create_symlink("circle", folder / "model/circle");
  const auto store = open_store(folder / "model");
  EXPECT_EQ(store->address(), folder / "model");
  EXPECT_TRUE(store->file().empty());
  std::vector<std::string> names;
  for (const StoreMember& member : store->list()) {
    names.push_back(member.name + (member.folder ? "/" : ""));
  }
  std::sort(names.begin(), names.end());
  EXPECT_EQ(names, (std::vector<std::string>{"circle", "dangling", "file", "folder/", "inside",
                                             "outside"}));
  EXPECT_EQ(store->state("file").presence, Presence::kPresent);
  EXPECT_EQ(store->state("absent").presence, Presence::kAbsent);
  EXPECT_EQ(store->state(std::string(100'000, 'a')).presence, Presence::kAbsent);
  EXPECT_TRUE(store->state("inside").foreign_folder.empty());
  EXPECT_EQ(store->state("outside").foreign_folder, fs::canonical(folder / "elsewhere").string());
  EXPECT_EQ(store->state("dangling").presence, Presence::kDangling);
  EXPECT_EQ(store->state("dangling").link_target, "../elsewhere/nothing");
  EXPECT_EQ(store->state("circle").presence, Presence::kDangling);
  EXPECT_EQ(store->open("outside")->size(), 1U);
  EXPECT_EQ(outcome_of([&] { store->open("folder"); }), "E-FILE-KIND 66");
  EXPECT_EQ(outcome_of([&] { store->open("absent"); }), "E-FILE-MISSING 66");
}

TEST(LocalStoreTest, AFileStandsInItsFolder) {
  const TemporaryFolder folder;
  folder.write("a.gguf", "GGUF");
  folder.write("b", "");
  const std::string path = folder.path().string() + "//a.gguf";  // as the user spelt it
  const auto store = open_store(path);
  EXPECT_EQ(store->file(), "a.gguf");
  EXPECT_EQ(store->location("a.gguf"), path);
  EXPECT_EQ(store->location("b"), folder / "b");
  EXPECT_EQ(store->open("a.gguf")->size(), 4U);
  for (const std::string& absent : {folder / "absent/", std::string(), folder / "absent/.."}) {
    const auto nothing = open_store(absent);
    EXPECT_EQ(outcome_of([&] { nothing->open(nothing->file()); }), "E-FILE-MISSING 66") << absent;
  }
}

TEST(ModelStoreTest, NoNameLeadsOutOfAStore) {
  const TemporaryFolder folder;
  folder.write("secret", "x");
  folder.write("model/a", "x");
  for (const std::shared_ptr<ModelStore>& store :
       {open_store(folder / "model"), make_retrying_store(open_store(folder / "model")),
        std::shared_ptr<ModelStore>(store_of({{"a", "x"}}))}) {
    for (const std::string& name :
         {std::string("../secret"), std::string("/etc/passwd"), std::string(".."), std::string("."),
          std::string("a/../../secret"), std::string("a\0b", 3)}) {
      EXPECT_EQ(outcome_of([&] { store->open(name); }), "E-STORE-NAME 65") << name;
    }
    EXPECT_EQ(store->open("a")->size(), 1U);
  }
}

TEST(ModelStoreTest, AModelOfAnotherStoreIsTheOneOfTheFolder) {
  const TemporaryFolder folder;
  const auto files = members(5);
  for (const auto& [name, bytes] : files) {
    folder.write(name, bytes);
  }
  const ModelFiles local = open_model(folder.path());
  ModelFiles other;
  {
    const auto store = store_of(files);
    other = open_model(make_prefetching_store(make_retrying_store(store)));
    EXPECT_EQ(store->count(Kind::kIdentity), 0U);  // told by opening
  }
  expect_same(other, local);
  EXPECT_EQ(other.path, "store://model");
  EXPECT_EQ(other.shards[0].path, "store://model/" + shard_name(0, 5));
  // Sources outlive their store.
  std::vector<std::byte> bytes(8);
  other.shards[4].source->read(other.tensors[4].offset, bytes);
  EXPECT_EQ(outcome_of([&] { other.shards[4].source->read(1U << 20U, bytes); }), "E-TRUNCATED 65");
  const std::string one = shard_name(2, 5);
  expect_same(open_model(store_of(files, one)), open_model(folder / one));
}

TEST(ModelStoreTest, WhatIsAbsentIsToldBeforeAnyHeaderIsRead) {
  auto files = members(5);
  files.erase(shard_name(3, 5));
  const auto store = store_of(files);
  EXPECT_EQ(outcome_of([&] { open_model(store); }), "E-SHARD-MISSING 66");
  EXPECT_EQ(store->count(Kind::kOpen, shard_name(0, 5)), 0U);
  EXPECT_EQ(outcome_of([] { open_model(store_of({})); }), "E-FOLDER-EMPTY 66");
  EXPECT_EQ(outcome_of([] { open_model(store_of({{"a.bin", "x"}})); }), "E-FILE-PICKLE 65");
}

TEST(ModelStoreTest, SplitsOfAGgufModelAreFound) {
  std::map<std::string, std::string> files;
  for (int i = 0; i < 6; ++i) {
    GgufBuilder builder;
    builder.key_u16("split.no", static_cast<std::uint16_t>(i))
        .key_u16("split.count", 6)
        .key_i32("split.tensors.count", 6);
    builder.key_string("general.architecture", "llama");
    builder.tensor("t" + std::to_string(i), {32}, 24, 0);
    builder.data = std::string(32, '\0');
    files[fmt::format("m-{:05}-of-00006.gguf", i + 1)] = builder.bytes();
  }
  for (const std::string& file : {std::string(), std::string("m-00004-of-00006.gguf")}) {
    const auto store = store_of(files, file);
    const ModelFiles model = open_model(make_prefetching_store(store));
    EXPECT_EQ(model.tensors.size(), 6U);
    for (const auto& [name, bytes] : files) {
      EXPECT_EQ(store->count(Kind::kOpen, name), 1U) << name;
      EXPECT_EQ(store->count(Kind::kRead, name), 1U) << name;
    }
  }
}

TEST(PrefetchingStoreTest, AHeaderCostsOneRequestOrTwo) {
  for (const std::size_t header_bytes :
       {std::size_t{0}, std::size_t{30'000}, std::size_t{65'000}, std::size_t{1'000'000}}) {
    const auto store = store_of(members(3, header_bytes));
    const ModelFiles model = open_model(make_prefetching_store(store));
    EXPECT_EQ(model.tensors.size(), 3U);
    for (int i = 0; i < 3; ++i) {
      EXPECT_EQ(store->count(Kind::kRead, shard_name(i, 3)), header_bytes < 60'000 ? 1U : 2U)
          << header_bytes;
    }
  }
}

// A header whose length nobody knows: requests grow.
TEST(PrefetchingStoreTest, ALongVocabularyTakesFewRequests) {
  GgufBuilder builder;
  builder.key_string("general.architecture", "llama");
  constexpr std::uint64_t kTokens = 200'000;
  std::string tokens;
  for (std::uint64_t i = 0; i < kTokens; ++i) {
    tokens += builder.text("token number " + std::to_string(i));
  }
  builder.key_array("tokenizer.ggml.tokens", 8, kTokens, tokens);
  builder.tensor("t", {32}, 24, 0);
  builder.data = std::string(32, '\0');
  const auto store = store_of({{"m.gguf", builder.bytes()}}, "m.gguf");
  EXPECT_GT(store->at("m.gguf").bytes.size(), 5'000'000U);
  EXPECT_EQ(open_model(make_prefetching_store(store)).tensors.size(), 1U);
  EXPECT_EQ(store->count(Kind::kRead), 4U);
}

// The first request of every shard waits until as many wait as are opened at once: were they asked
// for one after the other, none would go on.
TEST(PrefetchingStoreTest, HeadersAreAskedForSideBySide) {
  constexpr int kAtOnce = 12;
  const auto store = store_of(members(3 * kAtOnce));
  std::mutex mutex;
  std::condition_variable arrived;
  int waiting = 0, most = 0, late = 0;
  store->before([&](const UnsteadyStore::Request& request) {
    if (request.kind != Kind::kRead || !request.name.ends_with(".safetensors")) {
      return;
    }
    std::unique_lock lock(mutex);
    most = std::max(most, ++waiting);
    arrived.notify_all();
    if (!arrived.wait_for(lock, std::chrono::seconds(20), [&] { return most >= kAtOnce; })) {
      ++late;
    }
    --waiting;
  });
  const ModelFiles model = open_model(make_prefetching_store(store, {.parallel_opens = kAtOnce}),
                                      {.model_config = {}, .threads = 1});
  EXPECT_EQ(model.shards.size(), 3U * kAtOnce);
  EXPECT_EQ(late, 0);
  EXPECT_EQ(most, kAtOnce);
}

TEST(PrefetchingStoreTest, ReadsBeyondTheHeaderAreWhatWasAsked) {
  std::string bytes(3'000'000, '\0');
  for (std::size_t i = 0; i < bytes.size(); ++i) {
    bytes[i] = static_cast<char>((i * 2654435761U) >> 11U);
  }
  const auto store = store_of({{"f", bytes}});
  const auto source = make_prefetching_store(store, {.first_bytes = 1000})->open("f");
  const auto expect_bytes = [&](std::uint64_t offset, std::size_t count) {
    std::vector<std::byte> got(count);
    source->read(offset, got);
    EXPECT_EQ(std::memcmp(got.data(), bytes.data() + offset, count), 0) << offset;
  };
  for (const std::uint64_t offset : {0U, 10U, 995U, 1003U, 5000U, 2'999'990U, 20U, 900'000U}) {
    expect_bytes(offset, 10);
    expect_bytes(offset, offset < 2'000'000 ? 900'000 : 10);
  }
  source->header_is_read();
  const std::uint64_t before = store->count(Kind::kRead);
  expect_bytes(100, 20);
  expect_bytes(110, 20);
  EXPECT_EQ(store->count(Kind::kRead), before + 2);
}

}  // namespace
}  // namespace vindex::input::model_store_test
