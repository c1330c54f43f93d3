// Which worker a process is, by what a scheduler says: a table.
#include "engine/plan/worker_share.hpp"

#include "tests/support/expect_error.hpp"

#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace vindex::engine::worker_share_test {
namespace {

using vindex::testing::error_of;
using vindex::testing::message_of;

SchedulerVariables array(const std::string& id, const std::string& count, const std::string& first,
                         const std::string& step, const std::string& last = "") {
  SchedulerVariables set;
  set.slurm_array_task_id = id;
  set.slurm_array_task_count = count;
  set.slurm_array_task_min = first;
  set.slurm_array_task_step = step;
  set.slurm_array_task_max = last;
  return set;
}

SchedulerVariables tasks(const std::string& rank, const std::string& count) {
  SchedulerVariables set;
  set.slurm_procid = rank;
  set.slurm_ntasks = count;
  return set;
}

SchedulerVariables completion(const std::string& index) {
  SchedulerVariables set;
  set.job_completion_index = index;
  return set;
}

/// A batch script of an array also has the variables of its one task.
SchedulerVariables with_tasks(SchedulerVariables set, const std::string& rank,
                              const std::string& count, const std::string& in_step) {
  set.slurm_procid = rank;
  set.slurm_ntasks = count;
  set.slurm_step_num_tasks = in_step;
  return set;
}

TEST(WorkerShare, IsWhatTheSchedulerSays) {
  struct Case {
    std::string wish;
    SchedulerVariables set;
    std::int32_t index, count;
    std::string source;  ///< its beginning
  };
  const std::vector<Case> cases = {
      {"", {}, 0, 1, ""},
      {"", array("3", "8", "0", "1"), 0, 1, ""},  // nothing happens unasked
      {"2/5", array("3", "8", "0", "1"), 2, 5, ""},
      {"auto", array("3", "8", "0", "1", "7"), 3, 8, "SLURM_ARRAY_TASK_ID=3"},
      {"auto", array("7", "3", "5", "1", "7"), 2, 3, "SLURM_ARRAY_TASK_ID=7"},
      {"auto", array("20", "4", "10", "10", "40"), 1, 4, "SLURM_ARRAY_TASK_ID=20"},
      {"auto", array("1", "4", "", ""), 1, 4, "SLURM_ARRAY_TASK_ID=1"},
      {"auto/4", array("1", "4", "0", "1"), 1, 4, "SLURM_ARRAY_TASK_ID=1"},
      {"auto", with_tasks(array("1", "4", "0", "1"), "0", "1", ""), 1, 4, "SLURM_ARRAY_TASK_ID=1"},
      {"auto", with_tasks(array("1", "4", "0", "1"), "0", "2", ""), 1, 4, "SLURM_ARRAY_TASK_ID=1"},
      {"auto", with_tasks(array("1", "4", "0", "1"), "1", "2", "2"), 3, 8,
       "SLURM_ARRAY_TASK_ID=1, _COUNT=4, _MIN=0, _STEP=1, SLURM_PROCID=1"},
      {"auto", tasks("5", "6"), 5, 6, "SLURM_PROCID=5, SLURM_NTASKS=6"},
      {"auto/6", tasks("5", "6"), 5, 6, "SLURM_PROCID=5, SLURM_NTASKS=6"},
      {"auto/9", completion("8"), 8, 9, "JOB_COMPLETION_INDEX=8"},
  };
  for (const Case& one : cases) {
    SCOPED_TRACE(one.wish + " " + one.source);
    const ChosenShare chosen = worker_share(one.wish, one.set);
    EXPECT_EQ(chosen.share.index, one.index);
    EXPECT_EQ(chosen.share.count, one.count);
    EXPECT_EQ(chosen.source.rfind(one.source, 0), 0U) << chosen.source;
    EXPECT_EQ(chosen.source.empty(), one.source.empty()) << chosen.source;
  }
}

TEST(WorkerShare, ContradictionsAreRefused) {
  const std::vector<std::pair<std::string, SchedulerVariables>> cases = {
      {"auto", {}},
      {"auto/4", {}},
      {"auto", completion("2")},                 // of how many?
      {"auto/2", completion("2")},               // out of range
      {"auto/5", tasks("1", "4")},               // the scheduler has four
      {"auto", tasks("4", "4")},                 // out of range
      {"auto", tasks("x", "4")},                 // no number
      {"auto", tasks("-1", "4")},                //
      {"auto", array("3", "", "0", "1")},        // without a count
      {"auto", array("9", "3", "1", "1", "9")},  // 1,2,9: gaps
      {"auto", array("2", "3", "1", "1", "9")},  // the same, seen by another task
      {"auto", array("6", "3", "1", "4")},       // between two steps
      {"auto", array("0", "3", "1", "1")},       // before the first
      {"auto", array("1", "3", "0", "0")},       // no step
      {"auto", array("1", "99999999999999999999", "0", "1")},
      {"auto", array("1", "9223372036854775807", "0", "9223372036854775807")},
      {"", {}}};
  for (const auto& [wish, set] : cases) {
    EXPECT_EQ(error_of([&, &wish = wish, &set = set] { worker_share(wish, set); }),
              wish.empty() ? "none" : "E-WORKER")
        << wish << " " << set.slurm_array_task_id;
  }
  for (const char* const wish : {"3/3", "-1/3", "1/0", "1/2/3", "1", "/", "a/b", "auto/", "auto/0",
                                 "auto/x", "1/2 ", "1/99999999999", "automatic", "0x1/2"}) {
    EXPECT_EQ(error_of([&] { worker_share(wish, {}); }), "E-WORKER") << wish;
  }
  EXPECT_NE(message_of([] { worker_share("auto", {}); }).find("SLURM_ARRAY_TASK_ID"),
            std::string::npos);
  EXPECT_NE(message_of([] { worker_share("auto", completion("1")); }).find("auto/n"),
            std::string::npos);
}

}  // namespace
}  // namespace vindex::engine::worker_share_test
