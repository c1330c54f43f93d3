#!/usr/bin/env bash
# Slurm, one job over several nodes: a worker on each, with all its GPUs, then the merge.
#   sbatch --nodes=4 jobs/slurm-nodes.sh MODEL OUT.h5 [flags of measure]
# If it runs out of time, finished rows are kept and the job is queued again; also after a failure that may pass, three
# times at most. VINDEX names the program where it is not on the PATH.
#SBATCH --job-name=vindex
#SBATCH --output=%x-%j.out
#SBATCH --open-mode=append
#SBATCH --ntasks-per-node=1
#SBATCH --exclusive
#SBATCH --mem=0
#SBATCH --time=04:00:00
#SBATCH --signal=USR1@120
#SBATCH --requeue
set -uo pipefail

vindex=${VINDEX:-vindex}
model=${1:?usage: sbatch --nodes=N slurm-nodes.sh MODEL OUT.h5 [flags]}
output=${2:?usage: sbatch --nodes=N slurm-nodes.sh MODEL OUT.h5 [flags]}
shift 2

# The warning before the time limit goes to the workers alone (no B: above), and srun ends with their code. A TERM (scancel,
# scontrol requeue, preemption) ends this shell too: what becomes of the job is decided there.
# All cores of the node for its worker. Quoted for the shell of each task: only that shell has the task's number.
# shellcheck disable=SC2016
srun --kill-on-bad-exit=0 --cpu-bind=none bash -c '
  exec "$0" measure "$1" -o "$2" --device all --worker "$SLURM_PROCID/$SLURM_NTASKS" \
    "${@:3}"' "$vindex" "$model" "$output" "$@"
code=$?
again=
case $code in
  75) again=yes ;;
  69 | 70 | 74 | 137)  # remote storage, device or process, disk, killed
    ((${SLURM_RESTART_COUNT:-0} < 3)) && again=yes
    ;;
esac
if [[ -n "$again" ]]; then
  scontrol requeue "$SLURM_JOB_ID"
fi
if ((code != 0)); then
  exit "$code"
fi
"$vindex" merge "$output.parts" -o "$output" && "$vindex" validate "$output"
