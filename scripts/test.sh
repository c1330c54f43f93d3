#!/usr/bin/env bash
# The same set-up as quickstart.sh, then every test: the CUDA build wherever nvcc >= 12.4 is found, and the CPU build.
set -euo pipefail
cd "$(dirname "$0")/.."

scripts/setup.sh
jobs="$(nproc)"
if folder="$(scripts/find_nvcc.sh)"; then
  echo "== CUDA build"
  export PATH="$folder:$PATH"
  cmake --preset cuda >/dev/null
  cmake --build --preset cuda -j "$jobs"
  ctest --preset cuda -j "$jobs"
else
  echo "== no CUDA toolkit: the CUDA back end is not compiled here"
fi
echo "== CPU build"
cmake --preset cpu >/dev/null
cmake --build --preset cpu -j "$jobs"
ctest --preset cpu -j "$jobs"
