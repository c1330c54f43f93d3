#!/usr/bin/env bash
# Plain srun inside an allocation: a worker per task, then the merge.
#   salloc --ntasks=8 --cpus-per-task=8 --gpus-per-task=1 --mem=64G jobs/srun.sh MODEL OUT.h5 [flags of measure]
# Tasks of one node share the memory of the job there (--mem, --mem-per-cpu): each gets its share of three quarters of it.
# Nothing is queued again: if the time runs out, the same command does what is missing. VINDEX names the program where it
# is not on the PATH.
set -uo pipefail

vindex=${VINDEX:-vindex}
model=${1:?usage: salloc --ntasks=N ... srun.sh MODEL OUT.h5 [flags]}
output=${2:?usage: salloc --ntasks=N ... srun.sh MODEL OUT.h5 [flags]}
shift 2
: "${SLURM_JOB_ID:?this runs inside an allocation: salloc --ntasks=N}"

# srun does not take this from the allocation by itself (since Slurm 22.05).
cores=()
if [[ -n "${SLURM_CPUS_PER_TASK:-}" ]]; then
  cores=(--cpus-per-task="$SLURM_CPUS_PER_TASK")
fi
# Quoted for the shell of each task: only that shell has the task's numbers. SLURM_GTIDS lists the tasks of its node.
# shellcheck disable=SC2016
srun --kill-on-bad-exit=0 "${cores[@]}" bash -c '
  IFS=, read -ra here <<<"$SLURM_GTIDS"
  memory=${SLURM_MEM_PER_NODE:-$((${SLURM_MEM_PER_CPU:-0} * SLURM_CPUS_ON_NODE))}
  share=()
  if ((${#here[@]} > 1)) && [[ " ${*:3} " != *" --ram-budget"* ]]; then
    if ((memory == 0)); then
      echo "srun.sh: several tasks on a node share its memory: say how much (--mem of salloc, or --ram-budget)" >&2
      exit 64
    fi
    share=(--ram-budget "$((memory * 3 / 4 / ${#here[@]}))MiB")
  fi
  exec "$0" measure "$1" -o "$2" --worker "$SLURM_PROCID/$SLURM_NTASKS" "${share[@]}" "${@:3}"
' "$vindex" "$model" "$output" "$@" || exit
"$vindex" merge "$output.parts" -o "$output" && "$vindex" validate "$output"
