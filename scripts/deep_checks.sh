#!/usr/bin/env bash
# The checks that take too long for every push: every test under address and undefined-behaviour sanitizers,
# the threaded parts under the thread sanitizer, adapters beside PEFT and captures beside transformers, every system call
# of short runs failing, the container image in bare systems (as root), a minute of every fuzz target, every source and
# every header compiled alone, clang-tidy over every host source. Run them before a release and after large changes.
set -euo pipefail
cd "$(dirname "$0")/.."

scripts/setup.sh --development

echo "== sanitizers"
cmake --preset sanitize >/dev/null
cmake --build --preset sanitize -j "$(scripts/toolchain/build_jobs.sh)"
ctest --preset sanitize -j "$(nproc)"

echo "== thread sanitizer"
cmake --preset thread >/dev/null
cmake --build --preset thread -j "$(scripts/toolchain/build_jobs.sh)"
ctest --preset thread -j "$(nproc)"

echo "== PEFT and transformers"  # 6 GB of packages, once; then three minutes
scripts/python_env.sh --models
cmake --preset cpu >/dev/null
cmake --build --preset cpu -j "$(scripts/toolchain/build_jobs.sh)" --target vindex
ctest --preset cpu -R 'Peft|CaptureAgrees'

echo "== container image"
scripts/checks/container.sh

echo "== every fault"
scripts/checks/faults.sh

echo "== fuzz targets"
scripts/fuzz.sh 60

echo "== every source and header alone"
scripts/checks/alone.py

echo "== clang-tidy"
scripts/checks/tidy.sh
