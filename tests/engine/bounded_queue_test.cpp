#include "engine/bounded_queue.hpp"

#include <gtest/gtest.h>

#include <chrono>
#include <memory>
#include <thread>

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

}  // namespace
}  // namespace vindex::engine::bounded_queue_test
