#!/usr/bin/env bash
# Grid Engine, one worker per array task on a shared file system:
#   qsub -N workers -t 1-16 jobs/sge-array.sh MODEL OUT.h5 [flags of measure]
#   qsub -hold_jid workers -b y vindex merge OUT.h5.parts -o OUT.h5
# A worker that receives a warning (-notify) publishes its finished rows and is queued again (exit 99).
# VINDEX names the program where it is not on the PATH.
#$ -cwd
#$ -S /bin/bash
#$ -notify
#$ -r y
set -uo pipefail

vindex=${VINDEX:-vindex}
model=${1:?usage: qsub -t 1-N sge-array.sh MODEL OUT.h5 [flags]}
output=${2:?usage: qsub -t 1-N sge-array.sh MODEL OUT.h5 [flags]}
shift 2
index=$((${SGE_TASK_ID:?this is an array job: qsub -t 1-N} - SGE_TASK_FIRST))
count=$((SGE_TASK_LAST - SGE_TASK_FIRST + 1))

trap 'kill -TERM "$worker" 2>/dev/null' USR1 USR2 TERM
"$vindex" measure "$model" -o "$output" --worker "$index/$count" "$@" &
worker=$!
while wait "$worker"; code=$?; kill -0 "$worker" 2>/dev/null; do :; done

if ((code == 75)); then
  exit 99  # Grid Engine's "run me again"
fi
exit "$code"
