// Owns asking again where another machine's failure may pass.
#pragma once

#include "input/model_store.hpp"

#include <cstdint>
#include <functional>
#include <memory>

namespace vindex::input {

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
