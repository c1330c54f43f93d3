#!/usr/bin/env bash
# Slurm, one worker per array task, on any nodes that share a file system:
#   job=$(sbatch --parsable --array=0-15 jobs/slurm-array.sh MODEL OUT.h5 [flags of measure])
#   sbatch --dependency=afterok:$job jobs/slurm-merge.sh OUT.h5
# A worker that runs out of time publishes its finished rows and is queued again (exit 75 of vindex).
# VINDEX names the program where it is not on the PATH.
#SBATCH --job-name=vindex
#SBATCH --nodes=1
#SBATCH --ntasks=1
#SBATCH --cpus-per-task=16
#SBATCH --mem=32G
#SBATCH --time=04:00:00
#SBATCH --signal=B:TERM@120
#SBATCH --requeue
set -uo pipefail

vindex=${VINDEX:-vindex}
model=${1:?usage: sbatch --array=0-N slurm-array.sh MODEL OUT.h5 [flags]}
output=${2:?usage: sbatch --array=0-N slurm-array.sh MODEL OUT.h5 [flags]}
shift 2
index=$((${SLURM_ARRAY_TASK_ID:?this is a job array: sbatch --array=0-N} - SLURM_ARRAY_TASK_MIN))

# The shell receives Slurm's warning, passes it on and continues to wait.
trap 'kill -TERM "$worker" 2>/dev/null' TERM USR1
"$vindex" measure "$model" -o "$output" --worker "$index/$SLURM_ARRAY_TASK_COUNT" \
  "$@" &
worker=$!
while wait "$worker"; code=$?; kill -0 "$worker" 2>/dev/null; do :; done

if ((code == 75)); then
  scontrol requeue "${SLURM_ARRAY_JOB_ID}_${SLURM_ARRAY_TASK_ID}"
fi
exit "$code"
