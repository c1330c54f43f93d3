#!/usr/bin/env bash
# The GPU checks, for a machine on which nothing can be installed. Two halves:
#   scripts/gpu_check.sh bundle       where the project builds: preset cuda, then program, module, tests, benchmarks and
#                                     the shared libraries they need into bundle/ (about 50 MiB)
#   scripts/gpu_check.sh run [FOLDER] on the GPU machine, from a checkout with bundle/: conformance with
#                                     VINDEX_REQUIRE=cuda, compute-sanitizer, benchmark beside peers; JSON into FOLDER
#                                     (default bench/results). Ends within nine minutes.
set -euo pipefail
cd "$(dirname "$0")/.."

# Libraries that a CUDA toolkit or the system brings along anyway.
system_libraries='linux-vdso|ld-linux|libc\.so|libm\.so|libpthread|libdl|librt|libgcc_s|libstdc\+\+|libcuda|libcublas|libcusolver|libcusparse|libnvJitLink'

bundle() {
  export PATH="$(scripts/find_nvcc.sh):$PATH"
  cmake --preset cuda >/dev/null
  cmake --build --preset cuda -j "$(nproc)" --target vindex vindex_cuda_module measure_tests decode_tests
  rm -rf bundle
  mkdir -p bundle/lib
  cp build/cuda/apps/vindex build/cuda/tests/measure/measure_tests build/cuda/tests/decode/decode_tests \
    build/cuda/kernels/libvindex_cuda_module.so bundle/
  for file in bundle/vindex bundle/measure_tests bundle/decode_tests bundle/libvindex_cuda_module.so; do
    ldd "$file" | awk '/=> \// {print $3}'
  done | sort -u | grep -vE "$system_libraries" | while read -r library; do cp -L "$library" bundle/lib/; done
  strip --strip-debug bundle/vindex bundle/*_tests bundle/libvindex_cuda_module.so
  git rev-parse HEAD >bundle/commit
  du -sh bundle
}

run() {
  local out="${1:-bench/results}"
  mkdir -p "$out"
  local cuda=/usr/local/cuda
  export LD_LIBRARY_PATH="$PWD/bundle/lib:$cuda/lib64:$cuda/targets/x86_64-linux/lib:${LD_LIBRARY_PATH:-}"
  export PATH="$cuda/bin:$PATH" VINDEX_REQUIRE=cuda
  unset "${!OPENBLAS_@}" || true
  local commit
  commit="$(cat bundle/commit)"
  nvidia-smi --query-gpu=name,driver_version,memory.total --format=csv,noheader | tee "$out/gpu.txt"
  local failed=0

  echo "== conformance"
  timeout 180 bundle/measure_tests --gtest_filter='*/cuda' 2>&1 | tee "$out/conformance.log" | tail -n 25 || failed=1
  echo "== sanitizer"
  for tool in memcheck racecheck initcheck synccheck; do
    timeout 60 compute-sanitizer --tool "$tool" --error-exitcode 9 bundle/measure_tests \
      --gtest_filter='*SmallShapes*/cuda' >"$out/sanitizer-$tool.log" 2>&1 || { echo "$tool failed"; failed=1; }
    tail -n 2 "$out/sanitizer-$tool.log"
  done
  echo "== benchmark"
  timeout 120 bundle/vindex bench --backend cuda --sections spectra --batch 64 --samples 5 --json --modes default,strict \
    --shapes 7168x2048,2048x7168,4096x4096 >"$out/spectra-cuda.json" || failed=1
  timeout 180 python3 bench/peers.py --program bundle/vindex --device cuda --time-limit 150 -o "$out/peers-cuda.json" || failed=1
  return "$failed"
}

case "${1:-}" in
  bundle) bundle ;;
  run) run "${2:-}" ;;
  *) sed -n '2,8p' "$0"; exit 64 ;;
esac
