#!/usr/bin/env bash
# Makes every system call of short runs fail, one run for each, and prints how they ended: the table of
# docs/runs/reliability.md. Exit code 1 where a run did not end as expected. Arguments go to tests/faults/walk.py
# (--stride 20 for a quick look, --scenario merge). --stride 4 makes 10,300 runs, 20 minutes on two cores; in memory where
# there is such a folder, because a disk takes four times as long.
set -euo pipefail
cd "$(dirname "$0")/../.."

cmake --preset cpu >/dev/null
cmake --build --preset cpu -j "$(scripts/toolchain/build_jobs.sh)" --target vindex vindex_faults >/dev/null
memory=/dev/shm
[ -d $memory ] && [ -w $memory ] || memory=${TMPDIR:-/tmp}
work=$(mktemp -d -p $memory)
trap 'rm -rf "$work"' EXIT
python3 tests/faults/walk.py --program build/cpu/apps/vindex --library build/cpu/tests/faults/vindex_faults.so \
  --work "$work" --table "$@"
