// Owns reading these variables, the ones in which schedulers number their tasks among them.
#include "environment.hpp"

#include <cstdlib>

namespace vindex::apps {

std::string environment_variable(const char* name) {
  const char* const value = std::getenv(name);
  return value == nullptr ? std::string() : std::string(value);
}

engine::SchedulerVariables scheduler_variables() {
  return {.slurm_array_task_id = environment_variable("SLURM_ARRAY_TASK_ID"),
          .slurm_array_task_count = environment_variable("SLURM_ARRAY_TASK_COUNT"),
          .slurm_array_task_min = environment_variable("SLURM_ARRAY_TASK_MIN"),
          .slurm_array_task_max = environment_variable("SLURM_ARRAY_TASK_MAX"),
          .slurm_array_task_step = environment_variable("SLURM_ARRAY_TASK_STEP"),
          .slurm_procid = environment_variable("SLURM_PROCID"),
          .slurm_ntasks = environment_variable("SLURM_NTASKS"),
          .slurm_step_num_tasks = environment_variable("SLURM_STEP_NUM_TASKS"),
          .job_completion_index = environment_variable("JOB_COMPLETION_INDEX")};
}

}  // namespace vindex::apps
