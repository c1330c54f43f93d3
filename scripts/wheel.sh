#!/usr/bin/env bash
# Builds the Python wheel that needs nothing of the system but its C and C++ libraries: compiled, then completed by auditwheel
# with every library that it loads, at once or later, and with the licences of those. Usage: scripts/wheel.sh [--prefix DIR] OUTDIR
# --prefix: DIR has what `cmake --install` left there, and the module alone is compiled. PYTHON names the interpreter that the
# wheel is for (Debian's own, else python3); other settings of the build go in SETTINGS, as in SETTINGS="--config-settings cmake.define.VINDEX_CUDA=ON".
set -euo pipefail
cd "$(dirname "$0")/.."

settings=()
if [[ "${1:-}" == --prefix ]]; then
  settings+=(--config-settings "cmake.define.VINDEX_PREFIX=$(realpath "$2")")
  shift 2
fi
[[ $# == 1 && "$1" != -* ]] || { echo "usage: scripts/wheel.sh [--prefix DIR] OUTDIR" >&2; exit 64; }
mkdir -p "$1"
out=$(realpath "$1")
read -r -a more <<<"${SETTINGS:-}"
python=${PYTHON:-/usr/bin/python3}  # as scripts/python_env.sh: Debian's own first
[[ -x "$python" ]] || python=python3
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

tools=$(scripts/wheel/tools.sh "$python")
PATH="$tools/bin:$PATH"

CMAKE_BUILD_PARALLEL_LEVEL=$(scripts/toolchain/build_jobs.sh) pip wheel --quiet --disable-pip-version-check --no-deps \
  --no-build-isolation --wheel-dir "$work/plain" python/ "${settings[@]}" "${more[@]}"
# The driver's own libraries, and CUDA's of hundreds of megabytes, are the system's.
auditwheel repair --exclude 'libcuda.so.*' --exclude 'libcudart.so.*' --exclude 'libcublas*.so.*' --exclude 'libcusolver.so.*' \
  --exclude 'libcusparse.so.*' --exclude 'libnvJitLink.so.*' --wheel-dir "$work/whole" "$work"/plain/*.whl >"$work/log" 2>&1 ||
  { cat "$work/log" >&2; exit 1; }
scripts/wheel/licences.py "$work"/whole/*.whl "$out"
