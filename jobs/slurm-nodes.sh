#!/usr/bin/env bash
# Slurm, one job over several nodes: a worker on each, with all its GPUs, then the merge.
#   sbatch --nodes=4 jobs/slurm-nodes.sh MODEL OUT.h5 [flags of measure]
# If it runs out of time, finished rows are kept and the job is queued again (exit 75 of vindex).
# VINDEX names the program where it is not on the PATH.
#SBATCH --job-name=vindex
#SBATCH --ntasks-per-node=1
#SBATCH --exclusive
#SBATCH --mem=0
#SBATCH --time=04:00:00
#SBATCH --signal=TERM@120
#SBATCH --requeue
set -uo pipefail

vindex=${VINDEX:-vindex}
model=${1:?usage: sbatch --nodes=N slurm-nodes.sh MODEL OUT.h5 [flags]}
output=${2:?usage: sbatch --nodes=N slurm-nodes.sh MODEL OUT.h5 [flags]}
shift 2

# Quoted for the shell of each task: only that shell has the task's number.
# shellcheck disable=SC2016
srun --kill-on-bad-exit=0 bash -c '
  exec "$0" measure "$1" -o "$2" --device all --worker "$SLURM_PROCID/$SLURM_NTASKS" \
    "${@:3}"' "$vindex" "$model" "$output" "$@"
code=$?
if ((code == 75)); then
  scontrol requeue "$SLURM_JOB_ID"
fi
if ((code != 0)); then
  exit "$code"
fi
"$vindex" merge "$output.parts" -o "$output" && "$vindex" validate "$output"
