// Owns what a store that pays for requests is wrapped in: reading ahead for headers, several files
// at once, and asking again where another machine's trouble may pass. The usual order is
// make_prefetching_store(make_retrying_store(store)).
#pragma once

#include "input/model_store.hpp"

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace vindex::input {

/// Passes everything on; decorators replace what they change.
class ForwardingStore : public ModelStore {
 public:
  explicit ForwardingStore(std::shared_ptr<ModelStore> inner) : inner_(std::move(inner)) {}
  const std::string& address() const override { return inner_->address(); }
  const std::string& file() const override { return inner_->file(); }
  std::string location(std::string_view name) const override { return inner_->location(name); }
  std::vector<StoreMember> list() override { return inner_->list(); }
  MemberState state(std::string_view name) override { return inner_->state(name); }
  std::string published_sha256(std::string_view name) override {
    return inner_->published_sha256(name);
  }
  std::string revision() const override { return inner_->revision(); }
  std::int32_t parallel_opens() const override { return inner_->parallel_opens(); }

 protected:
  ModelStore& inner() { return *inner_; }

 private:
  std::unique_ptr<ByteSource> open_member(std::string_view name) override {
    return inner_->open(name);
  }
  std::shared_ptr<ModelStore> inner_;
};

/// The same for a source.
class ForwardingSource : public ByteSource {
 public:
  explicit ForwardingSource(std::unique_ptr<ByteSource> inner) : inner_(std::move(inner)) {}
  const std::string& name() const override { return inner_->name(); }
  std::uint64_t size() const override { return inner_->size(); }
  SourceIdentity identity() const override { return inner_->identity(); }
  SourceIdentity identity_at_opening() const override { return inner_->identity_at_opening(); }
  void read_many(std::span<const ReadRequest> requests) override { inner_->read_many(requests); }
  void header_is_read() override { inner_->header_is_read(); }
  void results_are_stored() override { inner_->results_are_stored(); }
  int descriptor() const override { return inner_->descriptor(); }

 protected:
  ByteSource& inner() { return *inner_; }
  const ByteSource& inner() const { return *inner_; }

 private:
  std::unique_ptr<ByteSource> inner_;
};

/// For a store that answers slowly: `parallel_opens` files are opened side by side, and until the
/// header of one has been read, a caller that reads a part of it gets the first `first_bytes` in
/// one request and what follows in ever larger ones. A header of known length so costs one request,
/// or two where it is longer than the first.
struct PrefetchPolicy {
  std::int32_t parallel_opens = 16;
  std::uint64_t first_bytes = 64U << 10U;
};
std::shared_ptr<ModelStore> make_prefetching_store(std::shared_ptr<ModelStore> store,
                                                   const PrefetchPolicy& policy = {});

/// How often and when to ask again.
struct RetryPolicy {
  std::int32_t attempts = 5;    ///< in all, at least 1
  double first_seconds = 0.5;   ///< the longest wait before the second attempt; then twice as long
  double longest_seconds = 30;  ///< and at most this
  std::uint64_t seed = 0;       ///< of the jitter
};

/// Seconds to wait after attempt number `failed` (from 1) of request number `request`: between half
/// and all of first_seconds 2^(failed - 1), so that many who failed together do not come back
/// together.
double retry_delay(const RetryPolicy& policy, std::int32_t failed, std::uint64_t request);

/// Repeats what ended with a RemoteError that is retryable; every other error passes. The error of
/// the last attempt says how many there were, keeps its id and exit code and is retryable no more.
/// A store that was given up gets one attempt for each request until one succeeds, so that a dead
/// one costs the waits of one request and not of all. `sleep` waits between
/// attempts, and may throw; empty: the thread sleeps.
std::shared_ptr<ModelStore> make_retrying_store(std::shared_ptr<ModelStore> store,
                                                const RetryPolicy& policy = {},
                                                std::function<void(double seconds)> sleep = {});

}  // namespace vindex::input
