#!/usr/bin/env bash
# What the job scripts do with signals and exit codes, by plain bash with the variables that a scheduler would set: the
# program is a stand-in that ends as it is told, and a request to be queued again is noted.
# usage: exit_codes_test.sh JOBS_FOLDER SCRATCH
set -euo pipefail
jobs=$1
scratch=$2
rm -rf "$scratch"
mkdir -p "$scratch/bin"
cd "$scratch"

fail() {
  echo "FAILED: $*" >&2
  exit 1
}

for script in "$jobs"/*.sh "$jobs"/*.sbatch; do
  bash -n "$script" || fail "$script"
done

cat >bin/vindex <<'STUB'
#!/usr/bin/env bash
if [[ -n "$ENDS_WITH" ]]; then
  ((ENDS_WITH <= 128)) || kill -$((ENDS_WITH - 128)) $$
  exit "$ENDS_WITH"
fi
trap 'exit 75' TERM USR1
touch started
while true; do sleep 0.05; done
STUB
cat >bin/scontrol <<'STUB'
#!/usr/bin/env bash
echo "$@" >>requeued
STUB
cat >bin/srun <<'STUB'
#!/usr/bin/env bash
while [[ "$1" == --* ]]; do shift; done
SLURM_PROCID=0 SLURM_NTASKS=1 "$@"
STUB
chmod +x bin/*
export PATH=$scratch/bin:$PATH VINDEX=vindex ENDS_WITH=
export SLURM_JOB_ID=9 SLURM_ARRAY_JOB_ID=9 SLURM_ARRAY_TASK_ID=1 SLURM_ARRAY_TASK_MIN=0 SLURM_ARRAY_TASK_STEP=1 \
  SLURM_ARRAY_TASK_COUNT=3 SGE_TASK_ID=1 SGE_TASK_FIRST=1 SGE_TASK_LAST=2

# ends SCRIPT SIGNAL CODE REQUEST: a worker that works while its script gets SIGNAL.
ends() {
  rm -f started requeued
  bash "$jobs/$1" model x.h5 2>/dev/null &
  local job=$! code=0
  while [[ ! -e started ]]; do sleep 0.05; done
  kill "-$2" "$job"
  wait "$job" || code=$?
  [[ $code == "$3" ]] || fail "$1 ends with $code after $2"
  [[ "$(cat requeued 2>/dev/null)" == "$4" ]] || fail "$1 after $2: $(cat requeued)"
}
# The warning before the time limit: again. TERM: whoever sent it decides, and scancel means never again.
ends slurm-array.sh USR1 75 "requeue 9_1"
ends slurm-array.sh TERM 75 ""
ends sge-array.sh USR1 99 ""

# answers SCRIPT CODE STARTS REQUEST: a worker that ends with CODE, in a job that was queued again STARTS times.
answers() {
  rm -f requeued
  local code=0
  ENDS_WITH=$2 SLURM_RESTART_COUNT=$3 bash "$jobs/$1" model x.h5 >/dev/null 2>&1 || code=$?
  [[ $code == "$2" ]] || fail "$1 ends with $code, not $2"
  [[ "$(cat requeued 2>/dev/null)" == "$4" ]] || fail "$1 after $2, start $3: $(cat requeued)"
}
for code in 0 64 65 66 73 77 78; do
  answers slurm-array.sh $code 0 ""
  answers slurm-nodes.sh $code 0 ""
done
for code in 69 70 74 137; do
  answers slurm-array.sh $code 0 "requeue 9_1"
  answers slurm-array.sh $code 2 "requeue 9_1"
  answers slurm-array.sh $code 3 ""
  answers slurm-nodes.sh $code 0 "requeue 9"
  answers slurm-nodes.sh $code 3 ""
done
answers slurm-nodes.sh 75 9 "requeue 9"
rm -rf "$scratch"
