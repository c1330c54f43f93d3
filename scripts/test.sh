#!/usr/bin/env bash
# The same set-up as quickstart.sh, then the tests; with --all also those of some minutes (label `long`: pages in a browser, the
# Python package, the server). Where nvcc >= 12.6.2 is found the build includes the CUDA back end,
# whose tests skip with a reason where there is no GPU.
# Usage: scripts/test.sh [--all|--build|--short|--long]; the last three are the steps of --all, for a caller that tells them apart.
set -euo pipefail
cd "$(dirname "$0")/.."

steps="--build --short"
case "${1:-}" in
  "") ;;
  --all) steps="--build --short --long" ;;
  --build | --short | --long) steps="$1" ;;
  *)
    sed -n '2,5s/^# \{0,1\}//p' "$0" >&2
    exit 64
    ;;
esac

at_once=$(($(nproc) + 1))  # many tests wait for a server, a lock or a page for a while

preset=cpu
if folder="$(scripts/toolchain/find_nvcc.sh)"; then
  preset=cuda
  export PATH="$folder:$PATH"
else
  echo "no CUDA toolkit: the CUDA back end is not compiled here" >&2
fi
if [[ "$steps" == *--build* ]]; then
  scripts/setup.sh
  scripts/setup.sh --tests || echo "tests of commands that are not here are skipped" >&2
  scripts/python_env.sh || echo "no Python environment: the tests of docs/files/results-file.md are skipped" >&2
  began=$SECONDS
  cmake --preset "$preset" >/dev/null
  NINJA_STATUS='[%f of %t, %e s] ' cmake --build --preset "$preset" -j "$(scripts/toolchain/build_jobs.sh)"
  echo "built in $((SECONDS - began)) s"
fi
if [[ "$steps" == *--short* ]]; then
  ctest --preset "$preset" -j "$at_once"
fi
if [[ "$steps" == *--long* ]]; then
  ctest --test-dir "build/$preset" --output-on-failure -L '^long$' -j "$at_once"
elif [[ "$steps" == *--short* ]]; then
  echo "tests of some minutes (browser, Python package, server): scripts/test.sh --all" >&2
fi
echo "in all $SECONDS s"
