// The queue between reading and computing: order, weights, waiting and waking.
#include "engine/units/bounded_queue.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <memory>
#include <mutex>
#include <thread>
#include <vector>

namespace vindex::engine::bounded_queue_test {
namespace {

TEST(BoundedQueueTest, ItemsComeOutInOrderAndTheEndIsNothing) {
  BoundedQueue<std::unique_ptr<int>> queue(1);
  std::thread producer([&] {
    for (int i = 0; i < 50; ++i) {
      ASSERT_TRUE(queue.push(std::make_unique<int>(i)));
    }
    queue.close();
  });
  for (int i = 0; i < 50; ++i) {
    const auto item = queue.pop();
    ASSERT_TRUE(item.has_value());
    EXPECT_EQ(**item, i);
  }
  EXPECT_FALSE(queue.pop().has_value());
  EXPECT_TRUE(queue.finished());
  producer.join();
}

TEST(BoundedQueueTest, ClosingWakesAProducerThatWaitsForRoom) {
  BoundedQueue<int> queue(1);
  ASSERT_TRUE(queue.push(1));
  std::thread producer([&] { EXPECT_FALSE(queue.push(2)); });
  queue.close();
  producer.join();
  EXPECT_FALSE(queue.finished());  // the first item is still to be taken
}

TEST(BoundedQueueTest, WaitingEndsWithTheTimeout) {
  BoundedQueue<int> queue(1);
  EXPECT_FALSE(queue.pop_for(std::chrono::milliseconds(1)).has_value());
  EXPECT_FALSE(queue.finished());
}

// A push wakes one of those that wait, and no other has to be awake for the rest to come through.
TEST(BoundedQueueTest, EveryWaitingConsumerGetsItsItem) {
  constexpr int kConsumers = 64;
  BoundedQueue<int> queue(4);
  std::atomic<int> waiting{0}, taken{0};
  std::vector<std::jthread> consumers;
  for (int i = 0; i < kConsumers; ++i) {
    consumers.emplace_back([&] {
      ++waiting;
      taken += queue.pop().has_value() ? 1 : 0;
    });
  }
  while (waiting < kConsumers) {
    std::this_thread::yield();
  }
  for (int i = 0; i < kConsumers; ++i) {
    ASSERT_TRUE(queue.push(i));
  }
  consumers.clear();  // joins: none is left waiting
  EXPECT_EQ(taken, kConsumers);
}

// Room for one light item does not help the heavy one that is woken for it.
TEST(BoundedQueueTest, ItemsOfAllWeightsComeThroughOnce) {
  constexpr std::uint64_t kLimit = 10;
  constexpr int kProducers = 24;
  constexpr int kItems = 200;
  BoundedQueue<int> queue(5, kLimit);
  std::vector<std::jthread> producers;
  std::atomic<int> left{kProducers};
  for (int p = 0; p < kProducers; ++p) {
    producers.emplace_back([&, p] {
      for (int i = 0; i < kItems; ++i) {
        // Some are heavier than everything together may be.
        ASSERT_TRUE(queue.push(p * kItems + i, static_cast<std::uint64_t>(p + i) % (kLimit + 3)));
      }
      if (--left == 0) {
        queue.close();
      }
    });
  }
  std::mutex mutex;
  std::vector<int> seen(kProducers * kItems, 0);
  std::vector<std::jthread> consumers;
  for (int c = 0; c < 3; ++c) {
    consumers.emplace_back([&, c] {
      while (true) {
        const auto item = c == 0 ? queue.pop_for(std::chrono::milliseconds(1)) : queue.pop();
        if (!item && queue.finished()) {
          return;
        }
        if (item) {
          const std::lock_guard lock(mutex);
          ++seen[static_cast<std::size_t>(*item)];
        }
      }
    });
  }
  consumers.clear();
  EXPECT_EQ(std::count(seen.begin(), seen.end(), 1), std::ssize(seen));
}

TEST(BoundedQueueTest, ClosingWakesEveryConsumer) {
  BoundedQueue<int> queue(1);
  std::vector<std::jthread> consumers;
  for (int i = 0; i < 16; ++i) {
    consumers.emplace_back([&] { EXPECT_FALSE(queue.pop().has_value()); });
  }
  queue.close();
  consumers.clear();
}

}  // namespace
}  // namespace vindex::engine::bounded_queue_test
