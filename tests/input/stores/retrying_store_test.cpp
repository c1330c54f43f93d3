// Asking again: what is repeated and what is not, how long it waits, and what the last error says.
#include "input/stores/retrying_store.hpp"

#include "tests/support/unsteady_store.hpp"

#include <gtest/gtest.h>

#include <cerrno>
#include <string>
#include <vector>

namespace vindex::input::retrying_store_test {
namespace {

using testing::throw_busy;
using testing::UnsteadyStore;
using Kind = UnsteadyStore::Kind;

constexpr RetryPolicy kPolicy{.attempts = 4, .first_seconds = 1, .longest_seconds = 3, .seed = 7};

class RetryingStoreTest : public ::testing::Test {
 protected:
  RetryingStoreTest() { inner_->put("f", "0123456789"); }
  std::shared_ptr<ModelStore> retrying() {
    return make_retrying_store(inner_, kPolicy, [this](double s) { slept_.push_back(s); });
  }
  /// The first `failures` reads fail as `fail` says.
  void fail_reads(std::uint64_t failures,
                  std::function<void(const std::string&)> fail = throw_busy) {
    inner_->before([=](const UnsteadyStore::Request& request) {
      if (request.kind == Kind::kRead && request.number < failures) {
        fail(request.name);
      }
    });
  }
  static std::string read_text(ByteSource& source) {
    std::string text(4, '\0');
    source.read(3, std::as_writable_bytes(std::span(text)));
    return text;
  }
  std::shared_ptr<UnsteadyStore> inner_ = std::make_shared<UnsteadyStore>();
  std::vector<double> slept_;
};

TEST_F(RetryingStoreTest, WhatPassesByItselfIsAskedForAgain) {
  fail_reads(3);
  const auto source = retrying()->open("f");
  EXPECT_EQ(read_text(*source), "3456");
  EXPECT_EQ(inner_->count(Kind::kRead), 4U);
  ASSERT_EQ(slept_.size(), 3U);
  const double longest[] = {1, 2, 3};  // doubled, and bounded
  for (std::size_t i = 0; i < 3; ++i) {
    EXPECT_GE(slept_[i], 0.5 * longest[i]);
    EXPECT_LE(slept_[i], longest[i]);
  }
}

TEST_F(RetryingStoreTest, DelaysAreAFunctionOfSeedAndRequest) {
  EXPECT_EQ(retry_delay(kPolicy, 2, 5), retry_delay(kPolicy, 2, 5));
  EXPECT_NE(retry_delay(kPolicy, 2, 5), retry_delay(kPolicy, 2, 6));
  RetryPolicy other = kPolicy;
  other.seed = 8;
  EXPECT_NE(retry_delay(kPolicy, 2, 5), retry_delay(other, 2, 5));
  double least = 10, most = 0;
  for (std::uint64_t request = 0; request < 1000; ++request) {
    least = std::min(least, retry_delay(kPolicy, 1, request));
    most = std::max(most, retry_delay(kPolicy, 1, request));
  }
  EXPECT_GE(least, 0.5);
  EXPECT_LT(least, 0.51);
  EXPECT_LT(most, 1.0);
  EXPECT_GT(most, 0.99);
  EXPECT_LE(retry_delay(kPolicy, 1000, 0), kPolicy.longest_seconds);
}

TEST_F(RetryingStoreTest, TheLastErrorSaysHowOftenAndKeepsItsCode) {
  fail_reads(100);
  const auto source = retrying()->open("f");
  try {
    read_text(*source);
    FAIL();
  } catch (const RemoteError& error) {
    EXPECT_EQ(error.id(), "E-REMOTE-BUSY");
    EXPECT_EQ(error.exit_code(), ExitCode::kUnavailable);
    EXPECT_FALSE(error.retryable());
    EXPECT_STREQ(error.what(),
                 "E-REMOTE-BUSY: f: the server answers 503; given up after 4 attempts");
  }
  EXPECT_EQ(inner_->count(Kind::kRead), 4U);
  // A dead store costs the waits of one request.
  EXPECT_THROW(read_text(*source), RemoteError);
  EXPECT_EQ(inner_->count(Kind::kRead), 5U);
  EXPECT_EQ(slept_.size(), 3U);
}

TEST_F(RetryingStoreTest, AStoreThatComesBackIsTrustedAgain) {
  inner_->before([&](const UnsteadyStore::Request& request) {
    if (request.kind == Kind::kRead && request.number != 4 && request.number < 7) {
      throw_busy(request.name);
    }
  });
  const auto source = retrying()->open("f");
  EXPECT_THROW(read_text(*source), RemoteError);  // reads 0 to 3
  EXPECT_EQ(read_text(*source), "3456");          // 4
  EXPECT_EQ(read_text(*source), "3456");          // 5 and 6 fail, 7 succeeds
  EXPECT_EQ(inner_->count(Kind::kRead), 8U);
}

TEST_F(RetryingStoreTest, EveryOtherErrorPassesAtOnce) {
  const std::vector<std::function<void(const std::string&)>> failures = {
      [](const std::string&) { throw SystemError("E-READ", EIO, "a disk that fails"); },
      [](const std::string&) { throw RemoteError("E-REMOTE-DENIED", "403", false); },
      [](const std::string&) { throw FormatError("E-TRUNCATED", "f", "ends"); }};
  for (const auto& failure : failures) {
    inner_ = std::make_shared<UnsteadyStore>();
    inner_->put("f", "0123456789");
    fail_reads(1, failure);
    const auto source = retrying()->open("f");
    EXPECT_THROW(read_text(*source), Error);
    EXPECT_EQ(inner_->count(Kind::kRead), 1U);
    EXPECT_EQ(read_text(*source), "3456");
  }
  EXPECT_TRUE(slept_.empty());
}

TEST_F(RetryingStoreTest, ListingOpeningAndAskingAreRequestsToo) {
  inner_->before([](const UnsteadyStore::Request& request) {
    if (request.number == 0) {
      throw_busy(request.name);
    }
  });
  const auto store = retrying();
  EXPECT_EQ(store->list().size(), 1U);
  EXPECT_EQ(store->state("f").presence, MemberState::Presence::kPresent);
  EXPECT_EQ(store->open("f")->identity().bytes, 10U);
  EXPECT_EQ(slept_.size(), 4U);
}

}  // namespace
}  // namespace vindex::input::retrying_store_test
