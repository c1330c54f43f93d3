// Addresses: local paths, file://, remote ones that are refused, and schemes that are added.
#include "input/stores/open_store.hpp"

#include "core/process/stop.hpp"
#include "input/remote/remote_address.hpp"
#include "tests/support/expect_error.hpp"
#include "tests/support/temporary_folder.hpp"
#include "tests/support/unsteady_store.hpp"

#include <gtest/gtest.h>

#include <memory>
#include <stop_token>
#include <thread>

namespace vindex::input::open_store_test {
namespace {

std::string id_of(const std::string& address) {
  const std::string error = testing::error_of([&] { open_store(address); });
  return error.substr(0, error.find(' '));
}

TEST(OpenStoreTest, LocalPathsPass) {
  for (const char* path : {"model", "/data/model", "./a:b", "hf:/x", "://x", "a b://c", "", "..",
                           "hf/org/repo@main"}) {
    EXPECT_EQ(id_of(path), "none") << path;
  }
}

TEST(OpenStoreTest, PartsOfABucketsAddress) {
  const auto parts = [](const std::string& address) {
    const S3Address s3 = s3_address(address);
    return s3.bucket + "|" + s3.folder + "|" + s3.file;
  };
  EXPECT_EQ(parts("s3://bucket/c.gguf"), "bucket||c.gguf");
  EXPECT_EQ(parts("s3://bucket/key"), "bucket|key/|");
  EXPECT_EQ(parts("s3://bucket/v1.0/"), "bucket|v1.0/|");
  EXPECT_EQ(parts("s3://bucket/a/b/c.gguf"), "bucket|a/b/|c.gguf");
  EXPECT_EQ(open_store("s3://bucket/a/b/c.gguf")->location("d.gguf"), "s3://bucket/a/b/d.gguf");
  EXPECT_EQ(open_store("s3://bucket/a/b")->location({}), "s3://bucket/a/b");
}

TEST(OpenStoreTest, PartsOfAHubAddress) {
  const auto parts = [](const std::string& address) {
    const HubAddress hub = hub_address(address);
    return hub.repository + "|" + hub.revision + "|" + hub.folder + "|" + hub.file;
  };
  EXPECT_EQ(parts("hf://org/repo"), "org/repo|||");
  EXPECT_EQ(parts("hf://org/repo.v1@v1.0"), "org/repo.v1|v1.0||");
  EXPECT_EQ(parts("hf://org/repo@main/a.gguf"), "org/repo|main||a.gguf");
  EXPECT_EQ(parts("hf://org/repo@a%2Fb/Q4_K_M"), "org/repo|a/b|Q4_K_M/|");
  EXPECT_EQ(parts("hf://org/repo/v1.0/"), "org/repo||v1.0/|");
  EXPECT_EQ(parts("hf://org/repo@refs/pr/1/x/a.json"), "org/repo|refs/pr/1|x/|a.json");
}

TEST(OpenStoreTest, AUrlNamesOneFileAndThoseBesideIt) {
  const auto store = open_store("https://host/a/b%20c-00001-of-00002.gguf?d=1");
  EXPECT_EQ(store->file(), "b c-00001-of-00002.gguf");
  EXPECT_EQ(store->location(store->file()), "https://host/a/b%20c-00001-of-00002.gguf?d=1");
  EXPECT_EQ(store->location("b c-00002-of-00002.gguf"),
            "https://host/a/b%20c-00002-of-00002.gguf?d=1");
  EXPECT_EQ(store->location({}), "https://host/a/");
  EXPECT_EQ(testing::error_of([&] { store->list(); }).substr(0, 13), "E-REMOTE-LIST");
}

TEST(OpenStoreTest, AStopEndsTheWaitBetweenAttempts) {
  const auto busy = std::make_shared<testing::UnsteadyStore>();
  busy->before(
      [](const testing::UnsteadyStore::Request& request) { testing::throw_busy(request.name); });
  constexpr double kForEver = 1e6;
  const ScopedStoreScheme scheme(
      {.name = "busy",
       .open = [&](const std::string&, const std::stop_token&) { return busy; },
       .wrapping = StoreWrapping{.retry = {.first_seconds = kForEver, .longest_seconds = kForEver},
                                 .prefetch = {},
                                 .sleep = {}}});
  std::stop_source stop;
  const auto store = open_store("busy://model", stop.get_token());
  std::jthread asks([&] { stop.request_stop(); });
  EXPECT_THROW(store->list(), Stopped);
}

TEST(OpenStoreTest, MalformedOnesAreSaidToBe) {
  using namespace std::string_literals;
  for (const std::string& address : {"hf://"s,
                                     "hf://org"s,
                                     "hf://org/"s,
                                     "hf:///repo"s,
                                     "hf://org/repo@"s,
                                     "hf://org/@main"s,
                                     "hf://org/repo@a@b"s,
                                     "hf://../repo"s,
                                     "hf://org/.."s,
                                     "hf://org/re po"s,
                                     "hf://org/re\npo"s,
                                     "hf://org/re\0po"s,
                                     "https://"s,
                                     "https://host"s,
                                     "https://host/"s,
                                     "https://host//a"s,
                                     "https://host/../a"s,
                                     "s3://bucket"s,
                                     "s3://bucket/"s,
                                     "s3:///key"s,
                                     "s3://b/\x7f"s,
                                     "http://host"s,
                                     "gs://bucket/key"s,
                                     "FILE:///a"s,
                                     "HF://org/repo"s,
                                     "file://"s,
                                     "file://host/a"s,
                                     "file://a"s,
                                     "file:///a b"s,
                                     "file:///%"s,
                                     "file:///%2"s,
                                     "file:///%zz"s,
                                     "file:///a%00"s,
                                     "file:///a?b"s,
                                     "file:///a#b"s,
                                     "https://me:it@host/a"s,
                                     "https://host/a#b"s,
                                     "https://host/%2e%2e/a"s,
                                     "https://host/a%2Fb"s,
                                     "https://host/a%00"s,
                                     "hf://org/repo@a%2F../b"s,
                                     "hf://org/repo/../b"s}) {
    EXPECT_EQ(id_of(address), "E-REMOTE-ADDRESS") << address;
  }
}

std::string text_of(const std::string& address) {
  const auto source = open_input(address);
  std::string text(source->size(), '\0');
  source->read(0, std::as_writable_bytes(std::span(text)));
  return text;
}

TEST(OpenStoreTest, AFileAddressIsItsPath) {
  const testing::TemporaryFolder folder;
  const std::string path = folder.write("of two/100%.npy", "text");
  const std::string root = folder.path();
  for (const std::string host : {"", "localhost"}) {
    const std::string address = "file://" + host + root + "/of%20two/100%25.npy";
    EXPECT_EQ(local_path(address), path);
    EXPECT_EQ(open_store(address)->address(), path);
    EXPECT_EQ(open_store(address)->file(), "100%.npy");
    EXPECT_EQ(text_of(address), "text");
  }
  EXPECT_EQ(text_of(path), "text");
  EXPECT_TRUE(open_store("file://" + root)->file().empty());
  EXPECT_EQ(local_path("a b"), "a b");
  EXPECT_EQ(local_path("hf://org/repo"), std::nullopt);
}

TEST(OpenStoreTest, AnInputIsAFile) {
  const testing::TemporaryFolder folder;
  EXPECT_EQ(testing::error_of([&] { open_input(folder.path()); }), "E-FILE-KIND");
  EXPECT_EQ(testing::error_of([&] { open_input(folder / "absent"); }), "E-FILE-MISSING");
  EXPECT_EQ(testing::error_of([&] { open_input("file://" + folder / "absent"); }),
            "E-FILE-MISSING");
}

TEST(OpenStoreTest, ASchemeIsThereAsLongAsItsObject) {
  const std::string address = testing::UnsteadyScheme::address("folder/a.npy");
  EXPECT_EQ(id_of(address), "E-REMOTE-ADDRESS");
  {
    testing::UnsteadyScheme scheme;
    scheme.store().put("folder/a.npy", "text");
    scheme.store().before([](const testing::UnsteadyStore::Request& request) {
      if (request.number == 0) {
        testing::throw_busy(request.name);
      }
    });
    EXPECT_EQ(text_of(address), "text");
    EXPECT_EQ(scheme.waits(), 2);  // asked again as the scheme says: for opening and for reading
    EXPECT_EQ(open_store(address)->parallel_opens(), PrefetchPolicy().parallel_opens);
    EXPECT_EQ(open_store(address)->location("b"), testing::UnsteadyScheme::address("folder/b"));
    EXPECT_EQ(local_path(address), std::nullopt);
    EXPECT_THROW(testing::UnsteadyScheme(), std::exception);  // the name is taken
  }
  EXPECT_EQ(id_of(address), "E-REMOTE-ADDRESS");
}

}  // namespace
}  // namespace vindex::input::open_store_test
