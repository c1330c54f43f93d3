// Owns which share of a run this process has by what the command line and a scheduler's variables
// say. Pure functions of both: who reads the environment is the program.
#pragma once

#include "results/runs/worker_share.hpp"

#include <string>

namespace vindex::engine {

/// What schedulers tell their tasks, as it stands in the environment; empty where it is not set.
struct SchedulerVariables {
  std::string slurm_array_task_id = {}, slurm_array_task_count = {}, slurm_array_task_min = {},
              slurm_array_task_max = {}, slurm_array_task_step = {};
  std::string slurm_procid = {}, slurm_ntasks = {}, slurm_step_num_tasks = {};
  std::string job_completion_index = {};
};

struct ChosenShare {
  results::WorkerShare share;
  std::string source;  ///< the variables that decided, "NAME=value, ..."; empty where none did
};

/// `wish` is "i/n"; "auto": by the first of these that is set,
///   SLURM_ARRAY_TASK_ID, with _COUNT, _MIN, _STEP (of an array whose tasks each have a step of
///     several tasks (SLURM_STEP_NUM_TASKS): these too, one behind the other),
///   SLURM_PROCID and SLURM_NTASKS,
///   JOB_COMPLETION_INDEX (Kubernetes), which needs the count: "auto/n";
/// or empty, a single run, whatever is set. Errors: UsageError E-WORKER (64), also where "auto"
/// finds none of them, or they contradict each other or the count given.
ChosenShare worker_share(const std::string& wish, const SchedulerVariables& variables);

}  // namespace vindex::engine
