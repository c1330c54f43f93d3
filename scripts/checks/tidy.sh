#!/usr/bin/env bash
# clang-tidy over every host source, warnings as errors, from the compile commands of the preset `tidy`.
set -euo pipefail
cd "$(dirname "$0")/../.."

cmake --preset tidy -DCMAKE_CXX_CLANG_TIDY= >/dev/null
git ls-files 'host/*.cpp' 'apps/*.cpp' | xargs -P "$(nproc)" -n 4 clang-tidy -p build/tidy --quiet
