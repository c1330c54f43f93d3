#!/usr/bin/env bash
# The cluster scripts without a cluster: their syntax, and every one of them run by plain bash with
# the variables that its scheduler would set. All must give the table of one run.
# usage: jobs_test.sh VINDEX JOBS_FOLDER SCRATCH
set -euo pipefail
export VINDEX=$1
jobs=$2
scratch=$3
rm -rf "$scratch"
mkdir -p "$scratch/bin"
cd "$scratch"

fail() {
  echo "FAILED: $*" >&2
  exit 1
}
table_of() {
  "$VINDEX" export "$1" --format csv -o "$1.csv" --force
}
same_as_one_run() {
  table_of "$1"
  cmp "$1.csv" one.h5.csv || fail "$1 differs from one run"
}

for script in "$jobs"/*.sh; do
  bash -n "$script" || fail "$script"
done

"$VINDEX" synth kimi-k2-mini -o model >/dev/null
flags=(--layers 0-1 --progress none)
"$VINDEX" measure model -o one.h5 "${flags[@]}" >/dev/null
table_of one.h5

"$jobs/local.sh" 3 model local.h5 "${flags[@]}" >/dev/null
same_as_one_run local.h5

for id in 5 6 7; do
  SLURM_ARRAY_TASK_ID=$id SLURM_ARRAY_TASK_MIN=5 SLURM_ARRAY_TASK_COUNT=3 SLURM_ARRAY_JOB_ID=9 \
    bash "$jobs/slurm-array.sh" model array.h5 "${flags[@]}" >/dev/null
done
bash "$jobs/slurm-merge.sh" array.h5 >/dev/null
same_as_one_run array.h5

for id in 1 2; do
  SGE_TASK_ID=$id SGE_TASK_FIRST=1 SGE_TASK_LAST=2 \
    bash "$jobs/sge-array.sh" model sge.h5 "${flags[@]}" >/dev/null
done
"$VINDEX" merge sge.h5.parts -o sge.h5 >/dev/null
same_as_one_run sge.h5

# srun as Slurm's: the command once per task.
cat > bin/srun <<'STUB'
#!/usr/bin/env bash
shift
for task in 0 1; do
  SLURM_PROCID=$task SLURM_NTASKS=2 "$@" || exit $?
done
STUB
cat > bin/scontrol <<'STUB'
#!/usr/bin/env bash
echo "$@" >> requeued
STUB
chmod +x bin/srun bin/scontrol
PATH=$scratch/bin:$PATH bash "$jobs/slurm-nodes.sh" model nodes.h5 "${flags[@]}" >/dev/null
same_as_one_run nodes.h5

# A worker that is stopped is queued again, and goes on where it was.
cat > bin/slow <<'STUB'
#!/usr/bin/env bash
trap 'exit 75' TERM
touch started
while true; do sleep 0.05; done
STUB
chmod +x bin/slow
rm -f started requeued
VINDEX=$scratch/bin/slow PATH=$scratch/bin:$PATH SLURM_ARRAY_TASK_ID=1 SLURM_ARRAY_TASK_MIN=0 \
  SLURM_ARRAY_TASK_COUNT=3 SLURM_ARRAY_JOB_ID=9 bash "$jobs/slurm-array.sh" model x.h5 &
job=$!
while [[ ! -e started ]]; do sleep 0.05; done
kill -TERM "$job"
code=0
wait "$job" || code=$?
[[ $code == 75 ]] || fail "a stopped worker ends with $code"
[[ "$(cat requeued)" == "requeue 9_1" ]] || fail "requeued: $(cat requeued)"
rm -rf "$scratch"
