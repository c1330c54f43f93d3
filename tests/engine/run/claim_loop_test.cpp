// Which shares are claimed, and when, of a store that says who has them.
#include "engine/run/claim_loop.hpp"

#include "engine/plan/pace.hpp"

#include <gtest/gtest.h>

#include <chrono>
#include <map>
#include <thread>

namespace vindex::engine::claim_loop_test {
namespace {

using results::ShareState;

class FakeStore final : public results::RunStore {
 public:
  const std::vector<bool>& done() const override { return done_; }
  void add(results::ResultRow /*row*/) override {}
  void show_progress(const results::RunProgress& /*progress*/) override {}
  void set_environment(const std::string& /*json*/) override {}
  void publish_part() override {}
  void publish_file() override {}
  ShareState take_share(std::int32_t share) override {
    tried.push_back(share);
    return states.contains(share) ? states[share] : ShareState::kTaken;
  }
  void finish_share(std::int32_t share) override { finished.push_back(share); }

  std::map<std::int32_t, ShareState> states;
  std::vector<std::int32_t> tried, finished;

 private:
  std::vector<bool> done_;
};

/// Rows 0 .. 2n-1, of which share i has 2i and 2i+1, a unit each.
struct Claimed {
  explicit Claimed(std::int32_t count) {
    worker.count = count;
    worker.claims = true;
    for (std::int32_t row = 0; row < 2 * count; ++row) {
      worker.owners.push_back(row / 2);
      WorkUnit unit;
      unit.rows = {row};
      units.push_back(unit);
    }
  }
  ClaimHooks hooks() {
    return {.taken = [this](std::int32_t share) { taken.push_back(share); },
            .finished = [this](std::int32_t share) { elsewhere.push_back(share); }};
  }
  FakeStore store;
  results::WorkerShare worker;
  std::vector<WorkUnit> units;
  std::vector<std::int32_t> taken, elsewhere;
};

TEST(ClaimLoop, ClaimsNoMoreThanCanBeBegunAndFinishesWithTheLastRow) {
  Claimed setup(3);
  ClaimLoop loop(setup.store, setup.worker, setup.units, 4, 2, setup.hooks());
  loop.advance();
  EXPECT_EQ(setup.taken, std::vector<std::int32_t>{1}) << "begins at the fourth of three: number 1";
  loop.advance();
  EXPECT_EQ(setup.taken.size(), 1U) << "two units are ready";
  EXPECT_EQ(loop.next()->rows.front(), 2);
  loop.advance();
  EXPECT_EQ(setup.taken, (std::vector<std::int32_t>{1, 2}));
  loop.finished(2);
  EXPECT_TRUE(setup.store.finished.empty());
  loop.finished(3);
  EXPECT_EQ(setup.store.finished, std::vector<std::int32_t>{1});
  for (const std::int64_t row : {3, 4, 5}) {
    EXPECT_EQ(loop.next()->rows.front(), row);
  }
  loop.advance();
  EXPECT_EQ(loop.next()->rows.front(), 0);
  EXPECT_EQ(loop.next()->rows.front(), 1);
  EXPECT_EQ(loop.next(), nullptr) << "every share was claimed";
}

TEST(ClaimLoop, WhatOthersFinishIsToldAndWhatTheyHaveIsTriedAgain) {
  Claimed setup(3);
  setup.store.states = {{0, ShareState::kFinished}, {1, ShareState::kElsewhere}};
  ClaimLoop loop(setup.store, setup.worker, setup.units, 0, 4, setup.hooks());
  loop.advance();
  EXPECT_EQ(setup.elsewhere, std::vector<std::int32_t>{0});
  EXPECT_EQ(setup.taken, std::vector<std::int32_t>{2});
  loop.advance();
  EXPECT_EQ(setup.store.tried, (std::vector<std::int32_t>{0, 1, 2})) << "not asked all the time";
  std::jthread taker([&] {
    EXPECT_EQ(loop.next()->rows.front(), 4);
    EXPECT_EQ(loop.next()->rows.front(), 5);
    EXPECT_EQ(loop.next()->rows.front(), 2) << "of a share whose process died";
    EXPECT_EQ(loop.next()->rows.front(), 3);
    EXPECT_EQ(loop.next(), nullptr);
  });
  setup.store.states[1] = ShareState::kTaken;
  while (setup.taken.size() < 2) {
    loop.advance();
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
  }
  loop.advance();
}

TEST(ClaimLoop, AShareWithoutWorkIsFinishedAtOnce) {
  Claimed setup(2);
  setup.units.erase(setup.units.begin(), setup.units.begin() + 2);
  ClaimLoop loop(setup.store, setup.worker, setup.units, 0, 9, setup.hooks());
  loop.advance();
  EXPECT_EQ(setup.taken, (std::vector<std::int32_t>{0, 1}));
  EXPECT_EQ(setup.store.finished, std::vector<std::int32_t>{0});
}

TEST(ClaimLoop, AStopWakesWhoWaits) {
  Claimed setup(1);
  setup.store.states = {{0, ShareState::kElsewhere}};
  ClaimLoop loop(setup.store, setup.worker, setup.units, 0, 1, setup.hooks());
  loop.advance();
  std::jthread taker([&] { EXPECT_EQ(loop.next(), nullptr); });
  loop.stop();
}

TEST(Pace, IsOfTheLastMinuteAndSinksWhereNothingIsFinished) {
  Pace pace;
  EXPECT_EQ(pace.at(5.0), 0.0);
  for (int second = 0; second <= 600; ++second) {
    pace.mark(second, second < 300 ? 10.0 * second : 3000.0 + 2.0 * (second - 300));
  }
  EXPECT_NEAR(pace.at(600.0), 2.0, 1e-9) << "not 6, the mean of all";
  EXPECT_NEAR(pace.at(660.0), 1.0, 1e-9);
  EXPECT_LT(pace.at(6000.0), 0.03);
}

}  // namespace
}  // namespace vindex::engine::claim_loop_test
