#!/usr/bin/env bash
# From a fresh checkout to a measured model: installs what is missing, builds, makes a small Kimi-K2-like mixture of
# experts with planted spectra, measures it, and shows planted against measured.
set -euo pipefail
cd "$(dirname "$0")/.."

scripts/setup.sh
preset=cpu
if folder="$(scripts/find_nvcc.sh 2>/dev/null)"; then
  preset=cuda
  export PATH="$folder:$PATH"
fi
cmake --preset "$preset" >/dev/null
cmake --build --preset "$preset" --target vindex
vindex="build/$preset/apps/vindex"

work="$(mktemp -d)"
trap 'rm -rf "$work"' EXIT
echo
echo "== vindex synth kimi-k2-mini"
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
