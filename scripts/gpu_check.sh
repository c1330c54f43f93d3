#!/usr/bin/env bash
# The GPU checks, for a machine on which nothing can be installed. Two halves:
#   scripts/gpu_check.sh bundle                 where the project builds: preset cuda, then program, module, tests and
#                                               probe with the libraries they need, packed into bundle/bundle.tar.gz and
#                                               tried in an empty root folder
#   scripts/gpu_check.sh run [FOLDER [PART...]] on the GPU machine, from a checkout with bundle/: every part, each with
#                                               its time limit, the next one whatever became of it; JSON (vindex-bench/1)
#                                               and one log into FOLDER (default bench/results). Below nine minutes.
# Parts, the most valuable first: facts self-test agreement kernels conformance bench decode sanitizer end-to-end peers probe.
# They want more than nine minutes together; what is cut says so. Three calls have room for all:
#   run FOLDER first    facts self-test agreement kernels conformance bench
#   run FOLDER second   self-test decode sanitizer end-to-end
#   run FOLDER third    self-test peers probe
# Ends with 1 where a part failed, with 70 where there is no GPU.
set -euo pipefail
cd "$(dirname "$0")/.."

all_parts=(facts self-test agreement kernels conformance bench decode sanitizer end-to-end peers probe)

# Programs of the bundle and where the build leaves them.
programs=(apps/vindex kernels/libvindex_cuda_module.so tests/measure/measure_tests tests/kernels/gpu_kernel_tests
          bench/gpu_probe)
# What the GPU machine has itself: the C library, the driver, CUDA's toolkit. libstdc++ and libgcc_s travel along.
own_system='/(linux-vdso|ld-linux[^/]*|libc|libm|libpthread|libdl|librt|libresolv|libutil)\.so'
own_cuda='/(libcuda|libcublas|libcublasLt|libcusolver|libcusparse|libnvJitLink|libcudart)\.so'

# A lent machine answers for ten minutes; unpacking and the tables want some of them.
all_seconds="${VINDEX_CHECK_SECONDS:-520}"

# Each kernel once, on small arrays: a sanitizer slows kernels ten- to a hundredfold. Both Gram kernels, wgmma's and
# mma.sync's, run in every case of GramKernels.
sanitizer_filter="${VINDEX_SANITIZE_FILTER:-*GramKernels.BlockScaledFp8*/0:*GramKernels.CodesNeedNoAlignment/0:*GramKernels.OddShapes/0:\
*BandReduction.BatchesGive*/0:*BandChase.ABatch*/0:*TridiagonalValues.InPieces*/0:*Cholesky.Factors*/0:\
*TopSolvers.FastTakesWide*/0:*DecodeKernels.*/0}"

libraries_of() {
  LD_LIBRARY_PATH="$cuda_folders" ldd "$@" 2>/dev/null | awk '/=> \// {print $3}' | sort -u
}

find_cuda_folders() {
  # A toolkit, or the packages that PyTorch brings along.
  local folder found=""
  for folder in /usr/local/cuda/lib64 /usr/local/cuda/targets/x86_64-linux/lib \
    $(python3 -c 'import site, glob
for root in site.getsitepackages():
    print("\n".join(sorted(glob.glob(root + "/nvidia/*/lib"))))' 2>/dev/null); do
    [[ -d "$folder" ]] && found+="${found:+:}$folder"
  done
  printf '%s' "$found"
}

bundle() {
  local stage file library newest
  PATH="$(scripts/find_nvcc.sh):$PATH"
  export PATH
  cuda_folders="$(find_cuda_folders)"
  cmake --preset cuda >/dev/null
  local targets=(vindex_cuda_module)
  for file in "${programs[@]}"; do [[ "$file" == *.so ]] || targets+=("$(basename "$file")"); done
  cmake --build --preset cuda -j "$(nproc)" --target "${targets[@]}"
  rm -rf bundle
  stage=bundle/vindex-gpu
  mkdir -p "$stage/lib" "$stage/programs"
  for file in "${programs[@]}"; do cp "build/cuda/$file" "$stage/programs/"; done
  # The program loads OpenBLAS itself, by this name: ldd does not know of it.
  local openblas
  openblas="$(sed -n 's/^VINDEX_OPENBLAS:[A-Z]*=//p' build/cuda/CMakeCache.txt)"
  cp -L "$openblas" "$stage/lib/libopenblas.so.0"
  libraries_of "$stage"/programs/* "$stage/lib/libopenblas.so.0" | grep -vE "$own_system|$own_cuda" | while read -r library; do
    cp -L "$library" "$stage/lib/"
  done
  strip --strip-debug "$stage"/programs/* "$stage"/lib/*
  cat >"$stage/vindex" <<'WRAPPER'
#!/bin/sh
# The program with the libraries that travel with it; other programs keep the machine's own.
here="$(cd "$(dirname "$0")" && pwd)"
LD_LIBRARY_PATH="$here/lib:$VINDEX_CUDA_FOLDERS" exec "$here/programs/vindex" "$@"
WRAPPER
  chmod +x "$stage/vindex"
  git describe --always --dirty >"$stage/commit"
  newest="$(objdump -T "$stage"/programs/* "$stage"/lib/* 2>/dev/null | grep -o 'GLIBC_[0-9.]*' | sort -uV | tail -n 1)"
  echo "needs the C library $newest or newer"
  try_bundle "$stage"
  tar -czf bundle/bundle.tar.gz -C bundle vindex-gpu
  rm -rf "$stage"
  du -h bundle/bundle.tar.gz
  local bytes
  bytes="$(( $(stat -c %s bundle/bundle.tar.gz) + $(git ls-files -z | du -cb --files0-from=- | tail -n 1 | cut -f 1) ))"
  echo "with the tracked files $((bytes >> 20)) MiB"
  ((bytes < 64 << 20)) || { echo "gpu_check: more than 64 MiB" >&2; return 1; }
}

# Every library comes from the bundle, the C library or CUDA; what needs no CUDA starts in a root folder that holds only
# the C library.
try_bundle() {
  local stage="$1" strangers root
  strangers="$(LD_LIBRARY_PATH="$stage/lib:$cuda_folders" ldd "$stage"/programs/* "$stage"/lib/* |
    awk '/not found/ {print $1} /=> \// {print $3}' | sort -u |
    grep -vE "$own_system|$own_cuda|$(printf '%s' "$stage/lib")" || true)"
  if [[ -n "$strangers" ]]; then
    printf 'gpu_check: not in the bundle:\n%s\n' "$strangers" >&2
    return 1
  fi
  if [[ "$(id -u)" != 0 ]]; then
    echo "not root: the bundle is not tried in an empty root folder"
    return 0
  fi
  root="$(mktemp -d)"
  mkdir -p "$root/lib64" "$root/lib/x86_64-linux-gnu" "$root/tmp" "$root/dev" "$root/proc"
  cp -L /lib64/ld-linux-x86-64.so.2 "$root/lib64/"
  local name
  for name in libc.so.6 libm.so.6 libpthread.so.0 libdl.so.2 librt.so.1 libresolv.so.2; do
    cp -L "/lib/x86_64-linux-gnu/$name" "$root/lib/x86_64-linux-gnu/"
  done
  cp -r "$stage" "$root/bundle"
  local status=0
  LD_LIBRARY_PATH=/bundle/lib chroot "$root" /bundle/programs/vindex --version || status=1
  LD_LIBRARY_PATH=/bundle/lib chroot "$root" /bundle/programs/vindex synth layer:2x256x128:fp8 -o /tmp/model -q || status=1
  LD_LIBRARY_PATH=/bundle/lib chroot "$root" /bundle/programs/vindex bench -q --backend cpu --sections end-to-end \
    --model /tmp/model --samples 1 --folder /tmp >/dev/null || status=1
  LD_LIBRARY_PATH=/bundle/lib chroot "$root" /bundle/programs/measure_tests --gtest_list_tests >/dev/null || status=1
  rm -rf "$root"
  ((status == 0)) || echo "gpu_check: the bundle does not start by itself" >&2
  return "$status"
}

# The line of a log that says most of a failure.
reason_of() {
  { grep -m 1 -iE 'no gpu|E-[A-Z]+|VINDEX_REQUIRE|ERROR SUMMARY: [1-9]|not here|no test ran' "$1" || grep -v '^ *$' "$1" | tail -n 1; } |
    cut -c 1-160
}

# part NAME SECONDS COMMAND...: its output goes to the log, its end to the summary. What it printed before it was stopped
# is in the log too.
part() {
  local name="$1" limit="$2" status=0 start=$SECONDS
  shift 2
  if ((limit > all_seconds - SECONDS)); then limit=$((all_seconds - SECONDS)); fi
  if ((limit < 5)); then
    summary+=("$(printf '%-28s NOT RUN: no time is left' "$name")")
    failed=1
    return
  fi
  echo "== $name" | tee -a "$log"
  timeout --kill-after=5 "$limit" "$@" >"$scratch/part.log" 2>&1 || status=$?
  cat "$scratch/part.log" >>"$log"
  tail -n "$((status == 0 ? 4 : 16))" "$scratch/part.log" | cut -c 1-240
  case "$status" in
    0) summary+=("$(printf '%-28s well, %d s' "$name" $((SECONDS - start)))") ;;
    124 | 137) summary+=("$(printf '%-28s STOPPED at its limit of %s s' "$name" "$limit")"); failed=1 ;;
    *) summary+=("$(printf '%-28s FAILED (%d), %d s: %s' "$name" "$status" $((SECONDS - start)) \
      "$(reason_of "$scratch/part.log")")"); failed=1 ;;
  esac
}

# Our programs see the libraries of the bundle; everybody else the machine's own.
ours() { env LD_LIBRARY_PATH="$stage/lib:$cuda_folders" "$@"; }

# Tests that skip for want of a GPU have not passed. Printed as they run, so that a test that hangs is the last line.
tests_on_gpu() {
  local status=0
  set -o pipefail
  ours "$@" 2>&1 | grep --line-buffered -vE '^\[ +(OK|SKIPPED) |own thread order|: Skipped$|^$' | tee "$scratch/tests.log" || status=$?
  if ((status != 0)); then
    grep -E '^\[  FAILED|Failure|VINDEX_REQUIRE|ERROR SUMMARY' "$scratch/tests.log" | tail -n 12
    return 1
  fi
  grep -qE '^\[  PASSED  \] [1-9]' "$scratch/tests.log" || { echo "no test ran: no GPU, or no test for it"; return 1; }
}

sanitize() {
  command -v compute-sanitizer >/dev/null || { echo "compute-sanitizer is not here"; return 1; }
  local tool="$1" program="$2" filter="$3"
  # The first errors say what is wrong; thousands would only fill the log.
  tests_on_gpu compute-sanitizer --tool "$tool" --print-limit 20 --error-exitcode 9 "$stage/programs/$program" \
    "--gtest_filter=$filter"
}

facts() {
  local status=0
  nvidia-smi --query-gpu=name,driver_version,memory.total,clocks.sm,clocks.mem,pcie.link.gen.current,pcie.link.width.current \
    --format=csv || { echo "no GPU: nvidia-smi is not here or finds none"; status=1; }
  nvcc --version 2>/dev/null | grep release || echo "nvcc is not here"
  echo "CUDA libraries looked for in: $cuda_folders"
  if ours ldd "$stage"/programs/* | grep 'not found'; then status=1; fi
  ours "$stage/programs/vindex" --version || status=1
  free -g | head -n 2
  grep -m 1 'model name' /proc/cpuinfo
  nproc
  return "$status"
}

# The verdict on every kernel, from a small run of every mode: the first thing to look at, and what tells a machine
# without a GPU before anything else is tried.
self_test() {
  local mode status=0
  set -o pipefail
  ours "$stage/programs/vindex" synth layer:4x512x384:fp8 -o "$scratch/small" -q
  for mode in default strict fast; do
    ours "$stage/programs/vindex" measure "$scratch/small" -o "$scratch/small-$mode.h5" --backend cuda --mode "$mode" \
      --progress none 2>&1 | tail -n 4 || status=1
  done
  ((status == 0)) || return "$status"
  python3 - "$scratch/small-default.h5" "$scratch/small-fast.h5" <<'PYTHON' || echo "no details of the self-tests"
import json
import sys

import h5py

def text(value):
    value = value[()] if hasattr(value, "shape") else value
    return value.decode() if isinstance(value, bytes) else str(value)

for path in sys.argv[1:]:
    with h5py.File(path) as file:
        said = [text(value) for value in file["run"].attrs.values()]
        file["run"].visititems(
            lambda name, item: said.append(text(item)) if isinstance(item, h5py.Dataset) and item.shape == () else None)
    for one in said:
        try:
            document = json.loads(one)
        except ValueError:
            continue
        for device in document.get("back_ends", []) if isinstance(document, dict) else []:
            print("back end", device["backend"], device["device"], *device["libraries"], sep=", ")
            for test in device["self_tests"]:
                print("passed" if test["passed"] else "FAILED", test["name"] + ":", test["detail"])
PYTHON
}

# Every mode and route at the sizes of the product, where kernels run in many waves, strips and pieces, against the
# processor's float64. The tests' sizes are the emulation's.
agreement() {
  local spec name mode status=0
  local number=0
  for spec in layer:4x7168x2048:fp8:powerlaw layer:4x2048x7168:int4:gaussian layer:3x1000x1777:bf16:spiked; do
    number=$((number + 1))
    name="$scratch/agreement-$number"
    ours "$stage/programs/vindex" synth "$spec" -o "$name" -q
    local measure=(env LD_LIBRARY_PATH="$stage/lib:$cuda_folders" "$stage/programs/vindex" measure "$name" --progress none)
    "${measure[@]}" -o "$name-reference.h5" --backend cpu --mode strict >/dev/null 2>&1 || status=1
    local files=()
    for mode in default strict fast default:two-stage+gram-mma strict:library; do
      local file="$name-${mode//[:+]/-}.h5" route=auto
      [[ "$mode" == *:* ]] && route="${mode#*:}"
      timeout 40 "${measure[@]}" -o "$file" --backend "${VINDEX_CHECK_BACKEND:-cuda}" --mode "${mode%%:*}" --svd-route "$route" \
        2>&1 | grep -E 'escalated|E-[A-Z]' || true
      files+=("${mode%%:*}:$file")
    done
    echo "-- $spec"
    python3 scripts/compare_routes.py "$name-reference.h5" "${files[@]}" || status=1
  done
  return "$status"
}

# Runs one benchmark with a time limit of its own and keeps its document for the merge; where it is stopped, the rows so
# far.
bench_case() {
  local name="$1" limit="$2" status=0
  shift 2
  echo "-- $name"
  timeout --kill-after=15 "$limit" env LD_LIBRARY_PATH="$stage/lib:$cuda_folders" \
    "$stage/programs/vindex" bench --backend cuda --json --folder "$scratch" "$@" >"$scratch/$name.json" || status=$?
  ((status == 0)) || echo "-- $name ended with $status"
  return "$status"
}

# Every mode, the routes side by side, shapes and batches; beside each the time of its bytes over the bus. The goals' own
# figures first: default at batch 384 and strict, both orientations and the square.
bench_table() {
  local status=0
  local spectra=(--sections spectra) two=7168x2048,2048x7168
  bench_case bench-default 120 "${spectra[@]}" --modes default --shapes "$two" --batch 384 --samples 5 || status=1
  bench_case bench-strict 60 "${spectra[@]}" --modes strict --shapes "$two" --batch 64 --samples 3 || status=1
  bench_case bench-fast 45 "${spectra[@]}" --modes fast --shapes "$two" --batch 128 --samples 3 || status=1
  bench_case bench-library 60 "${spectra[@]}" --modes strict --routes library --shapes "$two" --batch 64 --samples 2 || status=1
  bench_case bench-square 60 "${spectra[@]}" --modes strict --routes auto,library --encodings BF16 --shapes 4096x4096 --batch 16 \
    --samples 2 || status=1
  bench_case bench-batches 45 "${spectra[@]}" --modes default --shapes 7168x2048 --batch 1,16,64 --samples 3 || status=1
  bench_case bench-products 40 "${spectra[@]}" --modes default --routes two-stage+gram-mma,two-stage+gram-wgmma,two-stage+band-plain \
    --shapes 7168x2048 --batch 64 --samples 3 || status=1
  bench_case bench-encodings 45 "${spectra[@]}" --modes default --encodings INT4,BF16,Q8_0 --shapes 7168x2048 --batch 64 --samples 3 ||
    status=1
  bench_case bench-shapes 60 "${spectra[@]}" --modes default --shapes 768x2048,7168x18432 --batch 16 --samples 2 || status=1
  return "$status"
}

run() {
  local out="${1:-bench/results}"
  shift || true
  local parts=("${@:-${all_parts[@]}}")
  case "${parts[*]}" in
    first) parts=(facts self-test agreement kernels conformance bench) ;;
    second) parts=(self-test decode sanitizer end-to-end) ;;
    third) parts=(self-test peers probe) ;;
  esac
  [[ -f bundle/bundle.tar.gz ]] || { echo "gpu_check: bundle/bundle.tar.gz is not here; make it with \`$0 bundle\`" >&2; exit 66; }
  mkdir -p "$out"
  scratch="$(mktemp -d)"
  trap 'rm -rf "$scratch"' EXIT
  tar -xzf bundle/bundle.tar.gz -C "$scratch"
  stage="$scratch/vindex-gpu"
  cuda_folders="$(find_cuda_folders)"
  export VINDEX_CUDA_FOLDERS="$cuda_folders" VINDEX_REQUIRE=cuda PATH="/usr/local/cuda/bin:/usr/local/cuda/compute-sanitizer:$PATH" PYTHONUNBUFFERED=1
  unset "${!OPENBLAS_@}" "${!OMP_@}" || true
  local gpu
  gpu="$(nvidia-smi --query-gpu=name --format=csv,noheader 2>/dev/null | head -n 1 | tr '[:upper:]' '[:lower:]' | sed 's/nvidia //; s/[^a-z0-9]\+/-/g' || true)"
  gpu="${gpu:-no-gpu}"
  # A log for every call: a later one must not take the place of an earlier one's.
  log="$out/gpu-$gpu-checks-${parts[0]}-$(date -u +%H%M%S).log"
  : >"$log"
  summary=("commit $(cat "$stage/commit"), $gpu")
  failed=0
  # `timeout` runs programs, not functions: the parts below are functions of this script's own second start.
  export -f ours tests_on_gpu sanitize facts self_test agreement bench_case bench_table
  export stage scratch cuda_folders
  local chosen
  for chosen in "${parts[@]}"; do
    case "$chosen" in
      facts) part facts 30 bash -c facts ;;
      self-test)
        part self-test 60 bash -c self_test
        if grep -q 'E-NO-GPU' "$scratch/part.log"; then
          printf '%s\n' "== summary" "${summary[@]}" "no GPU: the other parts were not started" | tee -a "$log"
          return 70
        fi
        # A kernel that never ends would end every later part at its limit: only what says which one.
        if grep -q 'self-test .*STOPPED' <<<"${summary[*]}"; then
          part kernels 120 bash -c "tests_on_gpu '$stage/programs/gpu_kernel_tests'"
          printf '%s\n' "== summary" "${summary[@]}" "a kernel hangs: the other parts were not started" | tee -a "$log"
          return 1
        fi ;;
      agreement) part agreement 120 bash -c agreement ;;
      kernels) part kernels 90 bash -c "tests_on_gpu '$stage/programs/gpu_kernel_tests'" ;;
      conformance) part conformance 90 bash -c "tests_on_gpu '$stage/programs/measure_tests' '--gtest_filter=*/cuda*-*emulated*'" ;;
      bench) part bench 430 bash -c bench_table
        merge_into "$out/gpu-$gpu-spectra.json" "$scratch"/bench-*.json ;;
      decode) part decode 90 bash -c "ours '$stage/programs/gpu_probe' --only decode --seconds 60 --samples 5 --json >'$scratch/decode.json'"
        keep "$scratch/decode.json" "$out/gpu-$gpu-decode.json" ;;
      sanitizer)
        local tool
        for tool in memcheck racecheck initcheck synccheck; do
          part "sanitizer $tool" 60 bash -c "sanitize $tool gpu_kernel_tests '$sanitizer_filter'"
        done ;;
      end-to-end) part end-to-end 120 bash -c "bench_case end-to-end 110 --sections read,end-to-end --synth layer:96x7168x2048:fp8 --samples 2"
        merge_into "$out/gpu-$gpu-end-to-end.json" "$scratch/end-to-end.json" ;;
      peers) part peers 300 python3 bench/peers.py --program "$stage/vindex" --device cuda --samples 3 --peer-seconds 10 \
          --answer-seconds 45 --time-limit 220 --spectra gaussian,powerlaw -o "$scratch/peers.json"
        keep "$scratch/peers.json" "$out/gpu-$gpu-peers.json" ;;
      probe) part probe 150 bash -c "ours '$stage/programs/gpu_probe' --only transfers,memory,peaks,barriers,gram,eigen --seconds 100 \
          --samples 5 --json >'$scratch/probe.json'"
        keep "$scratch/probe.json" "$out/gpu-$gpu-probe.json" ;;
      *) echo "gpu_check: no part is called $chosen: ${all_parts[*]}, or first, second, third" >&2; exit 64 ;;
    esac
  done
  # The end of the output is what a short reply shows.
  echo "== tables" | tee -a "$log"
  python3 bench/merge_results.py --table "$out"/gpu-"$gpu"-{spectra,decode,end-to-end,peers}.json 2>&1 | tee -a "$log" | tail -n 70 || true
  printf '%s\n' "== summary" "${summary[@]}" | tee -a "$log"
  return "$failed"
}

# Keeps a document that is whole; what is not goes by name into the summary.
keep() { merge_into "$2" "$1"; }
merge_into() {
  local target="$1"
  shift
  if ! python3 bench/merge_results.py -o "$target" "$@" >>"$log" 2>&1; then
    summary+=("$(printf '%-28s not written: no whole document' "$(basename "$target")")")
    failed=1
  fi
}

case "${1:-}" in
  bundle) bundle ;;
  run) shift; run "$@" ;;
  *) sed -n '2,16p' "$0"; exit 64 ;;
esac
