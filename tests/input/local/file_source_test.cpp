// Local files and memory as byte sources: reading, refusal of what is no file, and files that
// changed since they were opened.
#include "input/local/file_source.hpp"

#include "input/local/positional_read.hpp"
#include "tests/support/expect_error.hpp"
#include "tests/support/temporary_folder.hpp"

#include <gtest/gtest.h>

#include <cerrno>
#include <chrono>
#include <cstring>
#include <fcntl.h>
#include <filesystem>
#include <string>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>
#include <vector>

namespace vindex::input::file_source_test {
namespace {

using testing::TemporaryFolder;

std::string read_text(ByteSource& source, std::uint64_t offset, std::size_t bytes) {
  std::string text(bytes, '\0');
  source.read(offset, std::as_writable_bytes(std::span(text)));
  return text;
}

ExitCode exit_code_of(const std::string& path) {
  return testing::exit_code_of([&] { open_file_source(path); });
}

std::string message_of(const std::string& path) {
  return testing::message_of([&] { open_file_source(path); });
}

TEST(ByteSourceTest, FilesAndMemoryReadTheSame) {
  const TemporaryFolder folder;
  const std::string content = "0123456789";
  const auto file = open_file_source(folder.write("f", content));
  const auto memory = make_memory_source("m", testing::bytes_of(content));
  for (ByteSource* source : {file.get(), memory.get()}) {
    EXPECT_EQ(source->size(), 10U);
    EXPECT_EQ(read_text(*source, 3, 4), "3456");
    EXPECT_EQ(read_text(*source, 10, 0), "");
    for (const std::uint64_t offset : {std::uint64_t{7}, std::uint64_t{11}, ~std::uint64_t{0}}) {
      EXPECT_EQ(testing::error_of([&] { read_text(*source, offset, 4); }),
                testing::at_byte("E-TRUNCATED", offset));
    }
  }
}

TEST(ByteSourceTest, ManyRequestsAreFilledInOneCall) {
  const std::string content = "abcdef";
  const auto source = make_memory_source("m", testing::bytes_of(content));
  std::string first(2, '\0');
  std::string second(3, '\0');
  const ReadRequest requests[] = {{4, std::as_writable_bytes(std::span(first))},
                                  {0, std::as_writable_bytes(std::span(second))}};
  source->read_many(requests);
  EXPECT_EQ(first + second, "efabc");
}

TEST(ByteSourceTest, WhatIsNoFileIsNamedAsWhatItIs) {
  const TemporaryFolder folder;
  EXPECT_EQ(exit_code_of(folder / "absent"), ExitCode::kMissingInput);
  EXPECT_EQ(exit_code_of(folder / std::string(300, 'n')), ExitCode::kMissingInput);
  EXPECT_NE(message_of(folder.path()).find("a folder"), std::string::npos);
  EXPECT_EQ(exit_code_of(folder.path()), ExitCode::kMissingInput);
  EXPECT_NE(message_of("/dev/zero").find("a device"), std::string::npos);
  EXPECT_EQ(exit_code_of("/dev/zero"), ExitCode::kMissingInput);
  EXPECT_EQ(exit_code_of(folder.write("f", "") + "/below"), ExitCode::kMissingInput);
  EXPECT_EQ(exit_code_of(folder.write("g", "") + std::string("\0x", 2)), ExitCode::kMissingInput);
}

TEST(ByteSourceTest, APipeWithoutWriterIsRefusedAndNotWaitedFor) {
  const TemporaryFolder folder;
  ASSERT_EQ(::mkfifo((folder / "fifo").c_str(), 0600), 0);
  EXPECT_NE(message_of(folder / "fifo").find("FIFO"), std::string::npos);
  EXPECT_EQ(exit_code_of(folder / "fifo"), ExitCode::kMissingInput);
}

TEST(ByteSourceTest, ASocketIsRefused) {
  const TemporaryFolder folder;
  const int descriptor = ::socket(AF_UNIX, SOCK_STREAM, 0);
  ASSERT_GE(descriptor, 0);
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  std::strncpy(address.sun_path, (folder / "s").c_str(), sizeof(address.sun_path) - 1);
  ASSERT_EQ(::bind(descriptor, reinterpret_cast<sockaddr*>(&address), sizeof(address)), 0);
  EXPECT_EQ(exit_code_of(folder / "s"), ExitCode::kMissingInput);
  ::close(descriptor);
}

TEST(ByteSourceTest, WithoutPermissionTheExitCodeSaysSo) {
  if (::geteuid() == 0) {
    GTEST_SKIP() << "the superuser may read everything";
  }
  const TemporaryFolder folder;
  const std::string path = folder.write("f", "x");
  ::chmod(path.c_str(), 0);
  EXPECT_EQ(exit_code_of(path), ExitCode::kNoPermission);
}

TEST(ByteSourceTest, IdentityTellsAChangedFileFromTheOpenedOne) {
  const TemporaryFolder folder;
  const std::string path = folder.write("f", "abc");
  const auto source = open_file_source(path);
  const SourceIdentity before = source->identity();
  EXPECT_EQ(source->identity().version, before.version);
  EXPECT_EQ(before.bytes, 3U);
  folder.write("f", "longer");
  std::filesystem::last_write_time(
      path, std::filesystem::file_time_type::clock::now() + std::chrono::hours(1));
  EXPECT_NE(source->identity().version, before.version);
  EXPECT_EQ(source->identity().bytes, 6U);
  EXPECT_EQ(source->size(), 3U);
}

TEST(ByteSourceTest, IdentityTellsAFileThatWasReplacedOrRemoved) {
  const TemporaryFolder folder;
  const std::string path = folder.write("a", "content");
  const auto source = open_file_source(path);
  const SourceIdentity before = source->identity();
  std::filesystem::rename(folder.write("b", "content"), path);
  const SourceIdentity replaced = source->identity();
  EXPECT_EQ(replaced.bytes, before.bytes);
  EXPECT_EQ(replaced.version, before.version + ":gone");
  EXPECT_EQ(read_text(*source, 0, 7), "content");  // nothing else would tell
  std::filesystem::remove(path);
  EXPECT_EQ(source->identity().version, before.version + ":gone");
}

TEST(ByteSourceTest, AFileThatShrankSinceIsTruncated) {
  const TemporaryFolder folder;
  const std::string path = folder.write("f", "0123456789");
  const auto source = open_file_source(path);
  std::filesystem::resize_file(path, 4);
  EXPECT_EQ(testing::error_of([&] { read_text(*source, 2, 6); }),
            testing::at_byte("E-TRUNCATED", 2));
}

TEST(PositionalReadTest, ShortReadsAndInterruptionsAreContinued) {
  const std::string content = "0123456789";
  int calls = 0;
  const auto call = [&](void* into, std::size_t bytes, std::uint64_t offset) -> ssize_t {
    if (++calls % 2 == 1) {
      errno = EINTR;
      return -1;
    }
    const std::size_t piece = std::min<std::size_t>(bytes, 3);
    std::memcpy(into, content.data() + offset, piece);
    return static_cast<ssize_t>(piece);
  };
  std::string text(8, '\0');
  read_fully(call, "f", 1, std::as_writable_bytes(std::span(text)));
  EXPECT_EQ(text, "12345678");
  EXPECT_EQ(calls, 6);
}

TEST(PositionalReadTest, FailuresAndEarlyEndsAreErrors) {
  std::string text(8, '\0');
  const auto into = std::as_writable_bytes(std::span(text));
  const auto failing = [](void*, std::size_t, std::uint64_t) -> ssize_t {
    errno = EIO;
    return -1;
  };
  const auto ended = [](void*, std::size_t, std::uint64_t) -> ssize_t { return 0; };
  try {
    read_fully(failing, "f", 0, into);
    FAIL();
  } catch (const SystemError& error) {
    EXPECT_EQ(error.id(), "E-READ");
    EXPECT_EQ(error.exit_code(), ExitCode::kInputOutput);
  }
  EXPECT_EQ(testing::error_of([&] { read_fully(ended, "f", 5, into); }),
            testing::at_byte("E-TRUNCATED", 5));
}

}  // namespace
}  // namespace vindex::input::file_source_test
