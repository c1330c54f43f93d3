// Exit codes and texts of errors, and what is escaped in a text that may drive a terminal.
#include <vindex/error.hpp>

#include <gtest/gtest.h>

#include <cerrno>

namespace vindex::error_test {
namespace {

TEST(ErrorTest, MessageStartsWithTheStableId) {
  const FormatError error("E-GGUF-MAGIC", "a.gguf at byte 0", "no GGUF magic");
  EXPECT_STREQ(error.what(), "E-GGUF-MAGIC: a.gguf at byte 0: no GGUF magic");
  EXPECT_EQ(error.exit_code(), ExitCode::kMalformedInput);
}

TEST(ErrorTest, RemoteErrorsEndWith69AndSayWhetherToTryAgain) {
  const RemoteError error("E-REMOTE-READ", "the server is busy", true);
  EXPECT_EQ(error.exit_code(), ExitCode::kUnavailable);
  EXPECT_EQ(static_cast<int>(error.exit_code()), 69);
  EXPECT_STREQ(error.what(), "E-REMOTE-READ: the server is busy");
  EXPECT_EQ(error.message(), "the server is busy");
  EXPECT_TRUE(error.retryable());
  EXPECT_FALSE(RemoteError("E-REMOTE-READ", "x", false).retryable());
}

TEST(ErrorTest, SystemErrorsChooseTheExitCodeFromErrno) {
  EXPECT_EQ(SystemError("E-READ", EACCES, "x").exit_code(), ExitCode::kNoPermission);
  EXPECT_EQ(SystemError("E-READ", ENOENT, "x").exit_code(), ExitCode::kMissingInput);
  EXPECT_EQ(SystemError("E-READ", ENOSPC, "x").exit_code(), ExitCode::kInputOutput);
}

TEST(PrintableTest, KeepsTextAndEscapesWhatDrivesTerminals) {
  EXPECT_EQ(printable("blk.0 \xC3\xA9"), "blk.0 \xC3\xA9");
  EXPECT_EQ(printable("a\x1b[31m\n"), "a\\x1b[31m\\x0a");
  EXPECT_EQ(printable("\xC0\x80"), "\\xc0\\x80");           // overlong zero
  EXPECT_EQ(printable("\xED\xA0\x80"), "\\xed\\xa0\\x80");  // surrogate
  EXPECT_EQ(printable("\xC2\x9B"), "\\xc2\\x9b");           // C1 control sequence introducer
  EXPECT_EQ(printable("\u202E\u2066"), "\\xe2\\x80\\xae\\xe2\\x81\\xa6");  // writing direction
  EXPECT_EQ(printable("\xE2\x82"), "\\xe2\\x82");                          // cut short
}

TEST(ExpectsTest, FailureIsAnInternalError) {
  EXPECT_NO_THROW(expects(true, "fine"));
  try {
    expects(false, "rows must be positive");
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.exit_code(), ExitCode::kInternal);
  }
}

}  // namespace
}  // namespace vindex::error_test
