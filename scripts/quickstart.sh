#!/usr/bin/env bash
# From a fresh checkout to a measured model: installs what is missing, builds, makes a small Kimi-K2-like mixture of
# experts with planted spectra, measures it, and shows planted against measured.
# Usage: scripts/quickstart.sh [--cuda|--cpu]
#   --cuda  build the CUDA back end even where no GPU is found (needs nvcc >= 12.6.2)
#   --cpu   leave the CUDA back end out even where a GPU is found
set -euo pipefail
cd "$(dirname "$0")/.."

backend=auto
case "${1:-}" in
  "") ;;
  --cuda | --cpu) backend="${1#--}" ;;
  *)
    sed -n '2,6s/^# \{0,1\}//p' "$0" >&2
    exit 64
    ;;
esac

has_gpu() {
  compgen -G '/dev/nvidia[0-9]*' >/dev/null || command -v nvidia-smi >/dev/null || ldconfig -p | grep -q 'libcuda\.so'
}

preset=cpu
architectures=()
why="no GPU and no driver of one here"
if [[ "$backend" == cpu ]]; then
  why="asked for by --cpu"
elif [[ "$backend" == cuda ]] || has_gpu; then
  if folder="$(scripts/toolchain/find_nvcc.sh)"; then
    preset=cuda
    export PATH="$folder:$PATH"
    why="a GPU is here"
    if compgen -G '/dev/nvidia[0-9]*' >/dev/null; then
      architectures=(-DCMAKE_CUDA_ARCHITECTURES=native)  # of the GPUs of this machine alone
    else
      why="asked for by --cuda; no GPU here, so for sm_80, sm_89 and sm_90a"
    fi
  elif [[ "$backend" == cuda ]]; then
    exit 1
  else
    why="a GPU is here, but no CUDA toolkit"
  fi
fi

jobs="$(scripts/toolchain/build_jobs.sh)"
echo "vindex quickstart"
echo "  1. install the packages that are missing (Debian 12, asks for root or sudo)"
echo "  2. build the program and its library, preset $preset ($why): with $jobs compilers at once"
if [[ "$preset" == cpu ]]; then
  echo "     2 to 5 minutes on two cores, less with more"
else
  echo "     10 to 20 minutes on two cores, less with more"
fi
echo "  3. make a small model with known spectra, measure it, compare, make a page of it (seconds)"
echo

echo "== 1. packages"
scripts/setup.sh
echo "== 2. build"
began=$SECONDS
cmake --preset "$preset" "${architectures[@]}" >/dev/null
NINJA_STATUS='[%f of %t, %e s] ' cmake --build --preset "$preset" --target installed -j "$jobs"
echo "built in $((SECONDS - began)) s: build/$preset/apps/vindex"
vindex="build/$preset/apps/vindex"

work="$(mktemp -d)"
trap 'rm -rf "$work"' EXIT
echo
echo "== 3. vindex synth kimi-k2-mini"
"$vindex" synth kimi-k2-mini -o "$work/mini"
echo
echo "== vindex inspect"
"$vindex" inspect "$work/mini"
echo
echo "== vindex measure"
"$vindex" measure "$work/mini" -o "$work/spectra.h5"
echo
echo "== planted against measured"
"$vindex" --quiet export "$work/spectra.h5" --format csv -o "$work/spectra.csv"
python3 scripts/compare_truth.py "$work/mini/truth.json" "$work/spectra.csv"
echo
echo "== vindex report: a page for a browser"
"$vindex" report "$work/spectra.h5" -o "build/$preset/quickstart.html" --force
echo
echo "Next: $vindex --help"
echo "      cmake --install build/$preset --prefix DIR"
