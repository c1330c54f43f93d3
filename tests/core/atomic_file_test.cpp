// Whether a file appears whole or not at all: after errors, kills and full disks, and beside
// another process that writes the same name.
#include "core/files/atomic_file.hpp"

#include "core/files/output_sink.hpp"
#include "core/files/process_name.hpp"
#include "core/files/temporary_files.hpp"
#include "tests/support/expect_error.hpp"
#include "tests/support/file_content.hpp"
#include "tests/support/file_size_limit.hpp"
#include "tests/support/temporary_folder.hpp"

#include <gtest/gtest.h>

#include <cerrno>
#include <filesystem>
#include <fstream>
#include <string>
#include <sys/wait.h>
#include <unistd.h>
#include <vector>

namespace vindex::atomic_file_test {
namespace {

namespace fs = std::filesystem;
using testing::file_text;
using testing::names_in;
using testing::TemporaryFolder;

constexpr OutputErrorIds kIds = {"E-A", "E-B", "E-C", "E-D"};

std::span<const std::byte> bytes_of(std::string_view text) {
  return std::as_bytes(std::span(text));
}

TEST(AtomicFile, TheNameHoldsTheOldFileOrTheNewOne) {
  const TemporaryFolder folder;
  const std::string path = folder.write("a", "old");
  {
    AtomicFile file(path);
    file.resize(10);
    file.write(6, bytes_of("here"));
    file.write(0, bytes_of("new"));
    EXPECT_EQ(file_text(path), "old");
    EXPECT_EQ(fs::path(file.temporary_path()).parent_path(), fs::path(path).parent_path());
    file.publish();
  }
  EXPECT_EQ(file_text(path), std::string("new\0\0\0here", 10));
  EXPECT_EQ(names_in(folder.path()), std::vector<std::string>{"a"});
}

TEST(AtomicFile, UnpublishedAndWithdrawnFilesLeaveNothing) {
  const TemporaryFolder folder;
  { AtomicFile(folder / "a").write(0, bytes_of("x")); }
  EXPECT_TRUE(names_in(folder.path()).empty());
  AtomicFile file(folder / "a");
  file.flush();
  file.flush();  // done already
  file.rename();
  EXPECT_EQ(names_in(folder.path()), std::vector<std::string>{"a"});
  file.withdraw();
  EXPECT_TRUE(names_in(folder.path()).empty());
}

TEST(AtomicFile, TwoOfOneNameDoNotMeet) {
  const TemporaryFolder folder;
  AtomicFile first(folder / "a");
  AtomicFile second(folder / "a");
  first.write(0, bytes_of("first"));
  second.write(0, bytes_of("second"));
  second.publish();
  first.publish();
  EXPECT_EQ(file_text(folder / "a"), "first");
}

TEST(AtomicFile, ErrorsHaveTheIdsOfTheirOutputAndTheCodesOfTheirCause) {
  const TemporaryFolder folder;
  const auto code_of = [](auto call, const char* id) {
    try {
      call();
    } catch (const Error& error) {
      EXPECT_EQ(error.id(), id) << error.what();
      return error.exit_code();
    }
    return ExitCode::kOk;
  };
  EXPECT_EQ(code_of([&] { AtomicFile(folder / "absent/a", kIds); }, "E-A"),
            ExitCode::kCannotCreate);
  EXPECT_EQ(code_of([&] { AtomicFile(folder / std::string(300, 'n'), kIds); }, "E-A"),
            ExitCode::kCannotCreate);
  if (::geteuid() != 0) {
    fs::create_directory(folder / "closed");
    fs::permissions(folder / "closed", fs::perms::owner_read | fs::perms::owner_exec);
    EXPECT_EQ(code_of([&] { AtomicFile(folder / "closed/a", kIds); }, "E-A"),
              ExitCode::kNoPermission);
  }
  EXPECT_EQ(code_of([] { throw_output_error("E-X", EACCES, "x"); }, "E-X"),
            ExitCode::kNoPermission);
  EXPECT_EQ(code_of([] { throw_output_error("E-X", ENOSPC, "x"); }, "E-X"), ExitCode::kInputOutput);
  EXPECT_EQ(code_of([] { throw_output_error("E-X", ENOENT, "x"); }, "E-X"),
            ExitCode::kCannotCreate);
  fs::create_directory(folder / "taken");
  std::ofstream(folder / "taken/content") << "x";
  EXPECT_EQ(code_of([&] { AtomicFile(folder / "taken", kIds).publish(); }, "E-A"),
            ExitCode::kCannotCreate);
  EXPECT_EQ(code_of(
                [&] {
                  AtomicFile file(folder / "later", kIds);
                  fs::create_directory(folder / "later");
                  file.publish();
                },
                "E-C"),
            ExitCode::kCannotCreate);
  fs::remove(folder / "later");
  const testing::FileSizeLimit limit(1000);
  const std::string large(2000, 'x');
  EXPECT_EQ(code_of([&] { AtomicFile(folder / "a", kIds).write(0, bytes_of(large)); }, "E-B"),
            ExitCode::kInputOutput);
  EXPECT_EQ(code_of([&] { AtomicFile(folder / "a", kIds).resize(2000); }, "E-B"),
            ExitCode::kInputOutput);
  EXPECT_EQ(names_in(folder.path()).back(), "taken");
}

TEST(AtomicFile, AKillLeavesATemporaryNameThatTheNextOneRemoves) {
  const TemporaryFolder folder;
  const pid_t child = ::fork();
  if (child == 0) {
    AtomicFile file(folder / "a");
    file.write(0, bytes_of("half"));
    ::_exit(0);  // no destructor runs
  }
  ::waitpid(child, nullptr, 0);
  const std::vector<std::string> left = names_in(folder.path());
  ASSERT_EQ(left.size(), 1U);
  remove_stale_temporaries_of(folder / "b");  // of another output
  remove_stale_temporaries_of(folder / "a.tmp");
  EXPECT_EQ(names_in(folder.path()), left);
  AtomicFile live(folder / "a");
  ASSERT_EQ(names_in(folder.path()).size(), 1U);
  EXPECT_NE(names_in(folder.path()), left);
  remove_stale_temporaries_of(folder / "a");  // not of a process that lives
  EXPECT_EQ(names_in(folder.path()).size(), 1U);
  live.publish();
  EXPECT_EQ(names_in(folder.path()), std::vector<std::string>{"a"});
}

TEST(AtomicFile, TheNextOneOfTheNameRemovesWhatAKillLeft) {
  const TemporaryFolder folder;
  const std::string dead = ".tmp." + host_name() + ".999999999.1.0";
  folder.write("a" + dead, "half");
  folder.write("b" + dead + "/organs/x", "half of a folder");
  folder.write("c" + dead, "of another output");
  AtomicFile(folder / "a").publish();
  EXPECT_EQ(names_in(folder.path()), (std::vector<std::string>{"a", "b" + dead, "c" + dead}));
  const std::vector<std::string> both = {folder / "b", folder / "c"};
  remove_stale_temporaries_of(both);
  EXPECT_EQ(names_in(folder.path()), std::vector<std::string>{"a"});
}

TEST(AtomicFile, ANumberThatIsInUseAgainKeepsNothing) {
  const TemporaryFolder folder;
  const std::string own = temporary_name("a");
  const std::string mark = "a.tmp." + host_name() + "." + std::to_string(::getpid());
  folder.write(own, "of a process that lives");
  folder.write(mark + ".1.0", "of one that had this number at another time");
  folder.write(mark + ".0", "of an earlier version, which did not say since when");
  remove_stale_temporaries_of(folder / "a");
  EXPECT_EQ(names_in(folder.path()), (std::vector<std::string>{mark + ".0", own}));
}

TEST(AtomicFile, SpaceThatIsNotThereIsAFullDisk) {
  const TemporaryFolder folder;
  require_free_space(folder / "a", 1);
  EXPECT_EQ(testing::error_of([&] { require_free_space(folder / "a", ~std::uint64_t{0}); }),
            "E-OUT-SPACE");
}

TEST(OutputSink, TheNextOneRemovesWhatAKilledOneLeft) {
  const TemporaryFolder folder;
  const pid_t child = ::fork();
  if (child == 0) {
    OutputSink sink(folder / "a");
    sink.write(bytes_of("half"));
    ::_exit(0);  // no destructor runs
  }
  ::waitpid(child, nullptr, 0);
  ASSERT_EQ(names_in(folder.path()).size(), 1U);
  OutputSink sink(folder / "a");
  sink.write(bytes_of("whole"));
  sink.commit();
  EXPECT_EQ(names_in(folder.path()), std::vector<std::string>{"a"});
}

TEST(OutputSink, WritesInOrderAndOnlyWhatIsCommittedStays) {
  const TemporaryFolder folder;
  {
    OutputSink sink(folder / "a", kIds);
    sink.write(bytes_of("one "));
    sink.write(bytes_of("two"));
  }
  EXPECT_TRUE(names_in(folder.path()).empty());
  OutputSink sink(folder / "a", kIds);
  sink.write(bytes_of("one "));
  sink.write(bytes_of("two"));
  sink.commit();
  EXPECT_EQ(file_text(folder / "a"), "one two");
  EXPECT_EQ(testing::error_of([&] { OutputSink(folder.path(), kIds); }), "E-A");
  EXPECT_EQ(testing::error_of([] { OutputSink("", kIds); }), "E-A");
}

}  // namespace
}  // namespace vindex::atomic_file_test
