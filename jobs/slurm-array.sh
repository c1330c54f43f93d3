#!/usr/bin/env bash
# Slurm, one worker with one GPU per array task, on any nodes that share a file system:
#   job=$(sbatch --parsable --array=0-15 jobs/slurm-array.sh MODEL OUT.h5 [flags of measure])
#   sbatch --dependency=afterok:$job jobs/slurm-merge.sh OUT.h5
# On nodes without GPUs: sbatch --gpus-per-task=0 ... . Memory: the program takes three quarters of --mem as its budget.
# A worker that runs out of time publishes its finished rows and is queued again; so is one that failed for a reason that
# may pass, three times at most. The same command again does what is missing, also with another number of workers.
# VINDEX names the program where it is not on the PATH.
#SBATCH --job-name=vindex
#SBATCH --output=%x-%A_%a.out
#SBATCH --open-mode=append
#SBATCH --nodes=1
#SBATCH --ntasks=1
#SBATCH --gpus-per-task=1
#SBATCH --cpus-per-task=16
#SBATCH --mem=32G
#SBATCH --time=04:00:00
#SBATCH --signal=B:USR1@120
#SBATCH --requeue
set -uo pipefail

vindex=${VINDEX:-vindex}
model=${1:?usage: sbatch --array=0-N slurm-array.sh MODEL OUT.h5 [flags]}
output=${2:?usage: sbatch --array=0-N slurm-array.sh MODEL OUT.h5 [flags]}
shift 2
index=$(((${SLURM_ARRAY_TASK_ID:?this is a job array: sbatch --array=0-N} - SLURM_ARRAY_TASK_MIN) / SLURM_ARRAY_TASK_STEP))
if ((index >= SLURM_ARRAY_TASK_COUNT)); then
  echo "slurm-array: --array takes a range (0-15, 0-30:2), not a list with gaps" >&2
  exit 64
fi

# The shell receives Slurm's signals, passes them on and continues to wait. USR1 is the warning before the time limit. TERM
# comes from scancel, scontrol requeue and preemption: what becomes of the task is decided there, and a requeue from here
# would bring a cancelled task back.
warned=
trap 'warned=yes; kill -USR1 "$worker" 2>/dev/null' USR1
trap 'kill -TERM "$worker" 2>/dev/null' TERM
"$vindex" measure "$model" -o "$output" --worker "$index/$SLURM_ARRAY_TASK_COUNT" "$@" &
worker=$!
while wait "$worker"; code=$?; kill -0 "$worker" 2>/dev/null; do :; done

again=
case $code in
  75) again=$warned ;;
  69 | 70 | 74 | 137)  # remote storage, device or process, disk, killed
    ((${SLURM_RESTART_COUNT:-0} < 3)) && again=yes
    ;;
esac
if [[ -n "$again" ]]; then
  scontrol requeue "${SLURM_ARRAY_JOB_ID}_${SLURM_ARRAY_TASK_ID}"
fi
exit "$code"
