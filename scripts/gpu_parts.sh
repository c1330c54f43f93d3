#!/usr/bin/env bash
# What the parts of gpu_check.sh do on the GPU machine: gpu_parts.sh PART [ARGUMENT...], in the environment that gpu_check.sh
# makes (stage, scratch, raw, cuda_folders, environment, best_route). Each is a process that may trap, hang or be stopped.
# Ends as gpu_record.sh says. `gpu_parts.sh suites` prints the table of suites.
set -euo pipefail
cd "$(dirname "$0")/.."

trials_failed=3
not_here=4
no_gpu=70

# name, variants (VINDEX_TEST_VARIANTS), filter: every suite of gpu_kernel_tests is in one of them
# (tests/bench/gpu_check_test.py). What cannot harm a device first, what can wait for ever last.
suites() {
  cat <<'SUITES'
plans none BandPlanTest*:ChaseShape*:Choose*:ForwardPlan*:GramCut*:GramShape*:OperandLayout*
values none *TridiagonalValues*
chase none *BandChase*
band-plain plain,library *BandReduction*
band-tail none *BandTail*
band-update plain,tensor *BandUpdate*
band-tensor tensor *BandReduction*
band-deferred deferred *DeferredBand*
gram-mma mma *GramKernels*:*GramAccuracy*:*GramSums*:*SlicedGram*
decode none *DecodeKernels*
forward none *ForwardKernels*:*ForwardCalls*:ForwardSelfTest*
top none *Cholesky*:*TopSolvers*
gram-wgmma wgmma *GramKernels*:*GramSums*
SUITES
}

# Our programs see the libraries of the bundle first, then whatever the machine finds its driver and its toolkit by.
library_path() { printf '%s' "$stage/lib${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}:$cuda_folders"; }
ours() { env LD_LIBRARY_PATH="$(library_path)" "$@"; }

# The same with a time limit. In the foreground: a `timeout` otherwise makes a process group of its own, which the limit of
# the part does not reach.
ours_within() {
  local limit="$1"
  shift
  timeout --foreground --kill-after=5 "$limit" env LD_LIBRARY_PATH="$(library_path)" "$@"
}

backend="${VINDEX_CHECK_BACKEND:-cuda}"

facts() {
  local code=0
  nvidia-smi --query-gpu=name,driver_version,memory.total,compute_mode,clocks.sm,clocks.mem,pcie.link.gen.current,pcie.link.width.current \
    --format=csv || echo "nvidia-smi is not here or finds nothing"
  nvcc --version 2>/dev/null | grep release || echo "nvcc is not here"
  for tool in ncu compute-sanitizer cuda-gdb; do command -v "$tool" || echo "$tool is not here"; done
  echo "library path: $(library_path)"
  if ours ldd "$stage"/programs/* | grep 'not found'; then code=1; fi
  ours "$stage/programs/vindex" --version || code=1
  free -g | head -n 2 || true
  grep -m 1 'model name' /proc/cpuinfo || true
  nproc || true
  # Matrix units of the processor, which the host's Gram could use.
  echo "matrix instructions of the processor: $(grep -m 1 '^flags' /proc/cpuinfo | grep -oE 'amx_[a-z0-9]+|avx512_bf16|avx512_vnni|avx_vnni' | tr '\n' ' ' || true)"
  printf '%s\n' "$environment"
  python3 -c 'import h5py, numpy; print("h5py", h5py.__version__, "numpy", numpy.__version__)' || code=1
  # The driver's library is loaded by name, which no `ldd` shows: whether a device is reached, only reaching it says.
  local reached=0
  ours "$stage/programs/gpu_probe" --only transfers --seconds 2 --samples 1 || reached=$?
  if ((reached == no_gpu)); then
    echo "no GPU: no device was reached"
    return "$no_gpu"
  fi
  ((reached == 0)) || code=1
  return "$code"
}

# Tests that skip without a GPU have not passed. Printed as they run, so that a test that hangs is the last line.
tests_on_gpu() {
  local status=0
  ours "$@" 2>&1 | grep --line-buffered -vE '^\[ +(OK|SKIPPED) |own thread order|: Skipped$|^$' | tee "$scratch/tests.log" || status=$?
  if ((status != 0)); then
    grep -E '^\[  FAILED|Failure|VINDEX_REQUIRE|ERROR SUMMARY' "$scratch/tests.log" | tail -n 12
    return 1
  fi
  grep -qE '^\[  PASSED  \] [1-9]' "$scratch/tests.log" || { echo "no test ran: no GPU, or no test for it"; return 1; }
}

suite() { VINDEX_TEST_VARIANTS="$1" tests_on_gpu "$stage/programs/gpu_kernel_tests" "--gtest_filter=$2"; }
conformance() { tests_on_gpu "$stage/programs/measure_tests" '--gtest_filter=*/cuda*-*emulated*'; }

# Failed tests once more with synchronous launches: the error then names the kernel.
awaited() { CUDA_LAUNCH_BLOCKING=1 VINDEX_AWAIT_LAUNCHES=1 suite "$@"; }

# And once more with a dump of the device at the exception: which kernel, which block, which instruction. Not in the first
# run: the driver may end the process before it says what it knows.
dumped() {
  ulimit -c 0
  export CUDA_ENABLE_COREDUMP_ON_EXCEPTION=1 CUDA_ENABLE_LIGHTWEIGHT_COREDUMP=1 CUDA_ENABLE_CPU_COREDUMP_ON_EXCEPTION=0
  export CUDA_COREDUMP_FILE="$raw/core-%p"
  local status=0 core
  suite "$@" || status=$?
  for core in "$raw"/core-*; do
    [[ -f "$core" ]] || { echo "no dump was made"; break; }
    command -v cuda-gdb >/dev/null || break
    timeout --foreground 20 cuda-gdb -batch -ex "target cudacore $core" -ex 'info cuda kernels' -ex 'info cuda lanes' -ex bt \
      "$stage/programs/gpu_kernel_tests" 2>&1 | tail -n 60
  done
  return "$status"
}

# sanitize TOOL PROGRAM FILTER [VARIANTS]
sanitize() {
  command -v compute-sanitizer >/dev/null || { echo "compute-sanitizer is not here"; return "$not_here"; }
  local tool="$1" program="$2" filter="$3" status=0
  if [[ -n "${4:-}" ]]; then export VINDEX_TEST_VARIANTS="$4"; fi
  # The first errors say what is wrong; thousands would only fill the log.
  tests_on_gpu compute-sanitizer --tool "$tool" --print-limit 20 --error-exitcode 9 "$stage/programs/$program" \
    "--gtest_filter=$filter" || status=$?
  if grep -q 'Device not supported' "$scratch/tests.log"; then return "$not_here"; fi
  return "$status"
}

# The verdicts on the kernels that one route can use, from a small run of it, and what the run says of them. Ends with 3
# where the run came to its end without a kernel that failed: the route is good, the kernel is not.
self_test() {
  local route="$1" mode="$2" file="$scratch/small-$1-$2.h5"
  [[ -d "$scratch/small" ]] || ours "$stage/programs/vindex" synth layer:4x512x384:fp8 -o "$scratch/small" -q || return 1
  ours "$stage/programs/vindex" measure "$scratch/small" -o "$file" --backend "$backend" --mode "$mode" \
    --svd-route "$route" --progress none 2>&1 | tail -n 4 || return 1
  python3 - "$file" "$trials_failed" <<'PYTHON'
import json
import sys

import h5py

with h5py.File(sys.argv[1]) as file:
    text = file["run/environment"][()]
    text = text if isinstance(text, (bytes, str)) else text[0]
    document = json.loads(text)
failed = []
for device in document["back_ends"]:
    print("back end", device["backend"], device["device"], *device["libraries"], sep=", ")
    for test in device["self_tests"]:
        print("passed" if test["passed"] else "FAILED", test["name"] + ":", test["detail"])
    failed += [test["name"] + ": " + test["detail"] for test in device["self_tests"] if not test["passed"]]
if failed:
    print("ERROR in the self-tests: " + "; ".join(failed))
    sys.exit(int(sys.argv[2]))
PYTHON
}

# Sizes of the product, where kernels run in many waves, strips and pieces; the last has the widest panels and a chase
# beyond 2048. The tests' sizes are the emulation's.
agreement_specs=(layer:4x7168x2048:fp8:powerlaw layer:1x4096x4096:bf16 layer:4x2048x7168:int4:gaussian layer:3x1000x1777:bf16:spiked)

# The models and their float64 spectra on the CPU: started with the call, in parallel with parts that need the GPU.
references() {
  local number name
  for number in "${!agreement_specs[@]}"; do
    name="$scratch/agreement-$number"
    ours "$stage/programs/vindex" synth "${agreement_specs[number]}" -o "$name" -q &&
      ours "$stage/programs/vindex" measure "$name" --progress none -o "$name-reference.h5" --backend cpu --mode strict || true
    touch "$name.done"
  done
}

# Every mode and route against the references, reported one by one.
agreement() {
  local number name mode route file status=0
  for number in "${!agreement_specs[@]}"; do
    name="$scratch/agreement-$number"
    echo "-- ${agreement_specs[number]}"
    until [[ -e "$name.done" ]]; do sleep 0.2; done
    for mode in default strict fast default:two-stage+gram-mma strict:library; do
      file="$name-${mode//[:+]/-}.h5"
      route="$best_route"
      [[ "$mode" == *:* ]] && route="${mode#*:}"
      ours_within 40 "$stage/programs/vindex" measure "$name" --progress none -o "$file" --backend "$backend" \
        --mode "${mode%%:*}" --svd-route "$route" 2>&1 | grep -E 'escalated|E-[A-Z]' || true
      python3 scripts/compare_routes.py "$name-reference.h5" "${mode%%:*}:$file" || status=1
    done
  done
  return "$status"
}

# Where the time of a batch goes: events around every launch.
stages() { ours "$stage/programs/gpu_probe" --only stages --seconds 40 --samples 5 --json >"$raw/stages.json"; }

# Durations and bytes of three launches of one kernel by Nsight Compute, the GPU's clocks left as they are.
counters() {
  command -v ncu >/dev/null || { echo "ncu is not here: no counters"; return "$not_here"; }
  local status=0
  ours ncu --clock-control none --target-processes all -k "regex:$1" -c 3 --csv \
    --metrics gpu__time_duration.sum,dram__bytes.sum,lts__t_bytes.sum,sm__throughput.avg.pct_of_peak_sustained_elapsed \
    "$stage/programs/gpu_probe" --only stages --seconds 20 --samples 1 >"$raw/counters-$1.csv" 2>&1 || status=1
  tail -n 4 "$raw/counters-$1.csv"
  if grep -q 'LibraryNotLoaded\|ERR_NVGPUCTRPERM' "$raw/counters-$1.csv"; then return "$not_here"; fi
  return "$status"
}

# A context on the device for so many seconds.
hold() { ours "$stage/programs/gpu_probe" --hold "$1"; }

probe() { ours "$stage/programs/gpu_probe" --only "$1" --seconds "$2" --samples 5 --json >"$raw/$3.json"; }

# Runs one benchmark with a time limit of its own and keeps its document for the merge; where it is stopped, the rows so
# far. VINDEX_BENCH_CASES: only these of them.
bench_case() {
  local name="$1" limit="$2" status=0
  shift 2
  [[ -z "${VINDEX_BENCH_CASES:-}" || " $VINDEX_BENCH_CASES " == *" $name "* ]] || return 0
  echo "-- $name"
  ours_within "$limit" "$stage/programs/vindex" bench --backend "$backend" --json --folder "$scratch" "$@" >"$raw/$name.json" ||
    status=$?
  ((status == 0)) || echo "-- $name ended with $status"
  return "$status"
}

# Every mode, the routes side by side, shapes and batches; beside each the time of its bytes over the bus. The goals' own
# figures first: default at batch 384, trained weights beside noise, strict, both orientations and the square.
bench_table() {
  local status=0
  # Of noise but for the case of trained weights: the time of a product is the same for all.
  local spectra=(--sections spectra --spectra noise) two=7168x2048,2048x7168
  local best=(--routes "$best_route")
  bench_case bench-default 90 "${spectra[@]}" "${best[@]}" --modes default --shapes "$two" --batch 384 --samples 5 || status=1
  bench_case bench-trained 90 --sections spectra --spectra trained,noise "${best[@]}" --modes default,fast --encodings BF16 \
    --shapes 7168x2048 --batch 64 --samples 3 || status=1
  bench_case bench-4096 60 --sections spectra --spectra trained,noise "${best[@]}" --modes default --encodings BF16 \
    --shapes 4096x4096 --batch 32 --samples 2 || status=1
  # Experts of small mixtures, and what is watched while a model is trained.
  bench_case bench-small 40 "${spectra[@]}" "${best[@]}" --modes default --encodings BF16 --shapes 512x1024,1024x1024 --batch 96,384 \
    --samples 3 || status=1
  bench_case bench-strict 50 "${spectra[@]}" "${best[@]}" --modes strict --shapes "$two" --batch 64 --samples 3 || status=1
  bench_case bench-fast 45 "${spectra[@]}" "${best[@]}" --modes fast --shapes "$two" --batch 128 --samples 3 || status=1
  bench_case bench-library 60 "${spectra[@]}" --modes strict --routes library --shapes "$two" --batch 64 --samples 2 || status=1
  bench_case bench-square 60 "${spectra[@]}" --modes strict --routes auto,library --encodings BF16 --shapes 4096x4096 --batch 16 \
    --samples 2 || status=1
  bench_case bench-batches 45 "${spectra[@]}" "${best[@]}" --modes default --shapes 7168x2048 --batch 1,16,64 --samples 3 || status=1
  bench_case bench-products 40 "${spectra[@]}" --modes default --routes two-stage+gram-mma,two-stage+gram-wgmma,two-stage+band-plain \
    --shapes 7168x2048 --batch 64 --samples 3 || status=1
  bench_case bench-encodings 45 "${spectra[@]}" "${best[@]}" --modes default --encodings INT4,BF16,Q8_0 --shapes 7168x2048 --batch 64 --samples 3 ||
    status=1
  bench_case bench-shapes 60 "${spectra[@]}" "${best[@]}" --modes default --shapes 768x2048,7168x18432 --batch 16 --samples 2 || status=1
  return "$status"
}

end_to_end() { bench_case end-to-end 110 --sections read,end-to-end --synth "${VINDEX_END_TO_END:-layer:96x7168x2048:fp8}" --samples 2; }

# A forward pass against the host's, and its time.
trace() { python3 scripts/gpu_trace.py "$stage/vindex" "$scratch/trace" --backend "$backend"; }

# VINDEX_PEERS_SECONDS, VINDEX_PEERS_SPECTRA: less of them.
peers() {
  python3 bench/peers.py --program "$stage/vindex" --device cuda --samples 3 --peer-seconds 10 --answer-seconds 45 \
    --time-limit "${VINDEX_PEERS_SECONDS:-220}" --spectra "${VINDEX_PEERS_SPECTRA:-trained,noise}" -o "$raw/peers.json"
}

"$@"
