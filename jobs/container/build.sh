#!/usr/bin/env bash
# The first stage of the images: from a checkout on a bare Debian 12, or a release like it, to a package of the program.
# Usage: build.sh PRESET PACKAGE.deb   (PRESET: cpu, or cuda where nvcc is; as root)
set -euo pipefail
cd "$(dirname "$0")/../.."

preset=${1:?usage: build.sh cpu|cuda PACKAGE.deb}
package=${2:?usage: build.sh cpu|cuda PACKAGE.deb}
scripts/setup.sh --tests  # cpack asks dpkg-dev for the libraries' packages
if [[ "$preset" == cuda ]]; then
  PATH="$(scripts/toolchain/find_nvcc.sh):$PATH"
fi
# The base may have a newer compiler, which warns of more.
cmake --preset "$preset" -DVINDEX_TESTS=OFF -DVINDEX_BENCH=OFF -DVINDEX_STRICT_WARNINGS=OFF
cmake --build --preset "$preset" -j "$(scripts/toolchain/build_jobs.sh)"
folder="build/$preset/packages"
rm -rf "$folder"
cpack --config "build/$preset/CPackConfig.cmake" -G DEB -B "$folder"
cp "$folder"/vindex_*.deb "$package"
