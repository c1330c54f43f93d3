// Owns a store that repeats what failed for a passing reason, with growing delays.
#include "retrying_store.hpp"

#include "core/philox.hpp"
#include "core/process/stop.hpp"
#include "input/forwarding_store.hpp"
#include <vindex/error.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <cmath>
#include <type_traits>
#include <utility>

namespace vindex::input {

namespace {

/// What the store and all its sources share.
class Retrying {
 public:
  Retrying(const RetryPolicy& policy, std::function<void(double)> sleep)
      : policy_(policy), sleep_(std::move(sleep)) {}

  template <typename Call>
  auto call(const Call& request) {
    const std::uint64_t number = next_++;
    const std::int32_t attempts = given_up_ ? 1 : std::max(policy_.attempts, 1);
    for (std::int32_t attempt = 1;; ++attempt) {
      try {
        if constexpr (std::is_void_v<decltype(request())>) {
          request();
          given_up_ = false;
          return;
        } else {
          auto answer = request();
          given_up_ = false;
          return answer;
        }
      } catch (const RemoteError& error) {
        if (!error.retryable()) {
          throw;
        }
        if (attempt == attempts) {
          given_up_ = true;
          throw RemoteError(error.id(),
                            fmt::format("{}; given up after {} attempt{}", error.message(), attempt,
                                        attempt == 1 ? "" : "s"),
                            false);
        }
      }
      sleep_(retry_delay(policy_, attempt, number));
    }
  }

 private:
  RetryPolicy policy_;
  std::function<void(double)> sleep_;
  std::atomic<std::uint64_t> next_{0};
  std::atomic<bool> given_up_{false};
};

class RetryingSource final : public ForwardingSource {
 public:
  RetryingSource(std::unique_ptr<ByteSource> inner, std::shared_ptr<Retrying> retrying)
      : ForwardingSource(std::move(inner)), retrying_(std::move(retrying)) {}

  SourceIdentity identity() const override {
    return retrying_->call([&] { return inner().identity(); });
  }
  SourceIdentity identity_at_opening() const override {
    return retrying_->call([&] { return inner().identity_at_opening(); });
  }
  void read_many(std::span<const ReadRequest> requests) override {
    retrying_->call([&] { inner().read_many(requests); });
  }

 private:
  std::shared_ptr<Retrying> retrying_;
};

class RetryingStore final : public ForwardingStore {
 public:
  RetryingStore(std::shared_ptr<ModelStore> inner, std::shared_ptr<Retrying> retrying)
      : ForwardingStore(std::move(inner)), retrying_(std::move(retrying)) {}

  std::vector<StoreMember> list() override {
    return retrying_->call([&] { return inner().list(); });
  }
  MemberState state(std::string_view name) override {
    return retrying_->call([&] { return inner().state(name); });
  }
  std::string published_sha256(std::string_view name) override {
    return retrying_->call([&] { return inner().published_sha256(name); });
  }

 private:
  std::unique_ptr<ByteSource> open_member(std::string_view name) override {
    return std::make_unique<RetryingSource>(retrying_->call([&] { return inner().open(name); }),
                                            retrying_);
  }
  std::shared_ptr<Retrying> retrying_;
};

void sleep_for(double seconds) { wait_or_stop(seconds, {}); }

}  // namespace

double retry_delay(const RetryPolicy& policy, std::int32_t failed, std::uint64_t request) {
  const double whole =
      std::min(std::ldexp(policy.first_seconds, std::max(failed - 1, 0)), policy.longest_seconds);
  const PhiloxBlock drawn =
      philox_block(policy.seed, request, static_cast<std::uint64_t>(std::max(failed, 0)));
  return whole * (0.5 + 0.5 * std::ldexp(static_cast<double>(drawn.word[0]), -32));
}

std::shared_ptr<ModelStore> make_retrying_store(std::shared_ptr<ModelStore> store,
                                                const RetryPolicy& policy,
                                                std::function<void(double seconds)> sleep) {
  return std::make_shared<RetryingStore>(
      std::move(store), std::make_shared<Retrying>(policy, sleep ? std::move(sleep) : &sleep_for));
}

}  // namespace vindex::input
