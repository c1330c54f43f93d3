#!/usr/bin/env bash
# What the parts of gpu_check.sh do on the GPU machine: parts.sh PART [ARGUMENT...], in the environment that gpu_check.sh
# makes (stage, scratch, raw, cuda_folders, environment, best_route). Each is a process that may trap, hang or be stopped.
# Ends as record.sh says. `parts.sh suites` prints the table of suites.
set -euo pipefail
cd "$(dirname "$0")/../.."

trials_failed=3
not_here=4
no_gpu=70

# name, variants (VINDEX_TEST_VARIANTS), filter: every suite of gpu_kernel_tests is in one of them
# (tests/bench/gpu_check_test.py). Those that failed or were changed since a device was met come first, then what cannot harm
# a device, and last what can wait for ever.
suites() {
  cat <<'SUITES'
plans none BandPlanTest*:ChasePlan*:ChaseShape*:Choose*:CodeScales*:DeferredBandPlan*:ForwardPlan*:GramCut*:GramShape*:OperandLayout*
top none *Cholesky*:*TopSolvers*
chase none *BandChase*
chase-flags none *SharedChase*
values none *TridiagonalValues*:*Additive*
band-plain plain *BandReduction*:*BandPanel*
band-tail none *BandTail*
band-update plain,tensor *BandUpdate*
band-tensor tensor *BandReduction*
band-deferred deferred *DeferredBand.*
gram-mma mma *GramKernels*:*GramAccuracy*:*GramSums*:*SlicedGram*
native-operands none *NativeOperands*
codes-mma mma *CodeSlices*
decode none *DecodeKernels*
accuracy none *StageAccuracy*
forward none *ForwardKernels*:*ForwardCalls*:ForwardSelfTest*
codes-wgmma wgmma *CodeSlices*
gram-wgmma wgmma *GramKernels*:*GramSums*
gram-clusters clusters *GramKernels*
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
conformance() { tests_on_gpu "$stage/programs/backend_tests" '--gtest_filter=*/cuda*-*emulated*'; }

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

# synccheck of the chase alone: well where it finds nothing, or only what gpu_check.sh expects of that kernel. An objection ends
# the context, so that errors of later calls say nothing.
synccheck_of_chase() {
  local status=0 objections others
  sanitize synccheck "$@" || status=$?
  ((status != 0 && status != not_here)) || return "$status"
  # Each begins with its kind; where it is and in which kernel follows.
  read -r objections others < <(awk '
    /^=+ *Barrier error detected/ { others += open && !named; open = 1; named = 0; objections++ }
    /chase/ { named = 1 }
    END { print objections + 0, others + (open && !named) }' "$scratch/tests.log")
  if ((objections > 0 && others == 0)); then
    echo "expected: synccheck objects to bar.sync with a count of threads that two loops reach, $objections times, and to nothing else"
    return 0
  fi
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

# Sizes of the product, where kernels run in many waves, strips and pieces; the tests' sizes are the emulation's. Conditions
# between 30 and 200, as trained experts have them once they are quantised, decide whether float32 is enough: 45 (power law
# of 2048 values), 169 (trained, INT4), 32 and 64 (power laws of 1024 and 4096); then noise, the widest panels, a chase beyond
# 2048, and shapes that fill no tile.
agreement_specs=(layer:4x7168x2048:fp8:powerlaw layer:1x7168x2048:int4:trained layer:4x1024x1024:bf16:powerlaw
  layer:1x4096x4096:bf16:powerlaw layer:1x4096x4096:bf16 layer:4x2048x7168:int4:gaussian layer:3x1000x1777:bf16:spiked)
[[ -z "${VINDEX_AGREEMENT:-}" ]] || read -ra agreement_specs <<<"$VINDEX_AGREEMENT"

# The models and their float64 spectra on the CPU: started with the call, in parallel with parts that need the GPU.
references() {
  local number
  # Side by side: a large matrix alone keeps one core busy.
  for number in "${!agreement_specs[@]}"; do
    reference "$scratch/agreement-$number" "${agreement_specs[number]}" &
  done
  wait
}
reference() {
  ours "$stage/programs/vindex" synth "$2" -o "$1" -q &&
    ours "$stage/programs/vindex" measure "$1" --progress none -o "$1-reference.h5" --backend cpu --mode strict || true
  touch "$1.done"
}

# Every mode and route against the references, reported one by one.
agreement() {
  local number name mode route file status=0 compared
  for number in "${!agreement_specs[@]}"; do
    name="$scratch/agreement-$number"
    echo "-- ${agreement_specs[number]}"
    until [[ -e "$name.done" ]]; do sleep 0.2; done
    compared=()
    for mode in default strict fast default:two-stage+gram-mma default:two-stage+kernels-former strict:library; do
      file="$name-${mode//[:+]/-}.h5"
      route="$best_route"
      [[ "$mode" == *:* ]] && route="${mode#*:}"
      ours_within 40 "$stage/programs/vindex" measure "$name" --progress none -o "$file" --backend "$backend" \
        --mode "${mode%%:*}" --svd-route "$route" 2>&1 | grep -E 'escalated|E-[A-Z]' || true
      compared+=("${mode%%:*}:$file")
    done
    python3 scripts/gpu/compare_routes.py "$name-reference.h5" "${compared[@]}" || status=1
  done
  return "$status"
}

# Where the time of a batch goes: events around every launch.
stages() {
  ours "$stage/programs/gpu_probe" --only stages --chase 7,9,12,14 --seconds 40 --samples 5 --json >"$raw/stages.json"
}

# What counters() looks at: a kernel by its name with the arguments of its template, and in the next line the stages of gpu_probe
# that launch it.
kernel_of() {
  case "$1" in
    update) printf '%s\n' 'update_and_multiply_halves_kernel<(\(bool\))?(1|true), *(\(int\))?8>' '--stages band' ;;
    operands) printf '%s\n' '(^|[^_])operand_kernel' '--stages gram' ;;
    panel) printf '%s\n' 'factor_panel_kernel' '--stages band' ;;
    chase32) printf '%s\n' '(^|[^_])chase_kernel<float, *float>' '--stages chase32 --chase 14' ;;
    deferred) printf '%s\n' 'update_deferred_kernel' '--stages band' ;;
    deferred-products) printf '%s\n' 'multiply_deferred_kernel' '--stages band' ;;
    native) printf '%s\n' 'native_operand_kernel' '--stages gram' ;;
    chase-flags) printf '%s\n' 'shared_chase_kernel<float, *float' '--stages chase32 --chase 14' ;;
    codes) printf '%s\n' 'code_warpgroup_kernel' '--stages strict' ;;
    back) printf '%s\n' 'wide_back_transform_kernel' '--stages back' ;;
    product) printf '%s\n' 'warpgroup_product_kernel' '--stages gram' ;;
    *) return 1 ;;
  esac
}

# Durations, bytes and what warps wait for of three launches of one kernel by Nsight Compute, the GPU's clocks left as they are.
counters() {
  command -v ncu >/dev/null || { echo "ncu is not here: no counters"; return "$not_here"; }
  local status=0 file="$raw/counters-$1.txt" kernel stages
  { read -r kernel; read -ra stages; } < <(kernel_of "$1")
  ours ncu --clock-control none --target-processes all --kernel-name-base demangled -k "regex:$kernel" -c 3 \
    --section SpeedOfLight --section ComputeWorkloadAnalysis --section MemoryWorkloadAnalysis --section SchedulerStats \
    --section WarpStateStats --section Occupancy --section LaunchStats \
    --metrics gpu__time_duration.sum,dram__bytes.sum,lts__t_bytes.sum \
    "$stage/programs/gpu_probe" --only stages "${stages[@]}" --seconds 15 --samples 1 >"$file" 2>&1 || status=1
  grep -E 'gpu__time_duration|dram__bytes|lts__t_bytes' "$file" | tail -n 3 || true
  if grep -q 'LibraryNotLoaded\|ERR_NVGPUCTRPERM' "$file"; then return "$not_here"; fi
  if grep -q 'No kernels were profiled' "$file"; then
    echo "no launch of $kernel: has the kernel another name now?"
    return 1
  fi
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

# Beside every figure the time of its bytes over the bus. The newer kernels and, in the same call, the former ones; each sample
# is four calls of each lane at least. The goals' own figures first: batches of 384, fast at the batch of default beside it,
# one matrix, strict, small matrices.
bench_table() {
  local status=0
  # Of noise but for the case of trained weights: the time of a product is the same for all.
  local spectra=(--sections spectra --spectra noise --case-seconds 6) tall=7168x2048
  local best=(--routes "$best_route") both=(--routes "$best_route$(former_route)")
  bench_case bench-384 60 "${spectra[@]}" "${both[@]}" --modes default,fast --shapes "$tall" --batch 384 --samples 3 || status=1
  bench_case bench-batches 45 "${spectra[@]}" "${both[@]}" --modes default,fast --shapes "$tall" --batch 1,64 --samples 3 || status=1
  bench_case bench-strict 45 "${spectra[@]}" "${both[@]}" --modes strict --shapes "$tall" --batch 64 --samples 3 || status=1
  # Experts of small mixtures, and what is watched while a model is trained.
  bench_case bench-small 50 "${spectra[@]}" "${both[@]}" --modes default,fast --encodings BF16 --shapes 512x1024,1024x1024 \
    --batch 96,768 --samples 3 || status=1
  bench_case bench-trained 45 --sections spectra --spectra trained,noise --case-seconds 6 "${best[@]}" --modes default,fast \
    --encodings BF16 --shapes "$tall" --batch 64 --samples 3 || status=1
  bench_case bench-4096 50 --sections spectra --spectra trained,noise --case-seconds 6 "${both[@]}" --modes default --encodings BF16 \
    --shapes 4096x4096 --batch 32 --samples 2 || status=1
  bench_case bench-library 45 "${spectra[@]}" --modes strict --routes library --shapes "$tall" --batch 64 --samples 2 || status=1
  bench_case bench-wide 40 "${spectra[@]}" "${best[@]}" --modes default --shapes 2048x7168 --batch 384 --samples 2 || status=1
  bench_case bench-products 40 "${spectra[@]}" --modes default --routes two-stage+gram-mma,two-stage+gram-wgmma,two-stage+band-plain \
    --shapes "$tall" --batch 64 --samples 2 || status=1
  bench_case bench-encodings 45 "${spectra[@]}" "${best[@]}" --modes default --encodings INT4,BF16,Q8_0 --shapes "$tall" --batch 64 \
    --samples 2 || status=1
  bench_case bench-square 60 "${spectra[@]}" --modes strict --routes auto,library --encodings BF16 --shapes 4096x4096 --batch 16 \
    --samples 2 || status=1
  bench_case bench-shapes 60 "${spectra[@]}" "${best[@]}" --modes default --shapes 768x2048,7168x18432 --batch 16 --samples 2 || status=1
  return "$status"
}

# Behind the route of the later parts and a comma, the same without the kernels that no device has judged yet, where it has them.
former_route() { [[ "$best_route" != auto ]] || echo ,two-stage+kernels-former; }

# Models to measure end to end, written beside the first parts: a layer of a large mixture and a quarter of one.
expert_specs=("${VINDEX_END_TO_END:-layer:384x7168x2048:fp8}" "${VINDEX_END_TO_END_LESS:-layer:96x7168x2048:fp8}")
experts() {
  local number
  for number in "${!expert_specs[@]}"; do
    ours "$stage/programs/vindex" synth "${expert_specs[number]}" -o "$scratch/experts-$number" -q || true
    touch "$scratch/experts-$number.done"
  done
}

# What users start, `vindex measure`, with its start; then the same by bench, from the page cache and past it, beside the rates
# of the storage, the bus and the kernels alone.
end_to_end() {
  local number status=0 models=()
  for number in "${!expert_specs[@]}"; do
    until [[ -e "$scratch/experts-$number.done" ]]; do sleep 0.2; done
    models+=("$scratch/experts-$number")
  done
  python3 bench/peers/measure_times.py --program "$stage/vindex" --backend "$backend" --folder "$scratch" --samples 3 \
    -o "$raw/end-to-end-measure.json" "${models[@]}" || status=1
  bench_case end-to-end-0 60 --sections read,end-to-end --model "${models[0]}" --samples 2 || status=1
  bench_case end-to-end-1 30 --sections end-to-end --model "${models[1]}" --samples 2 || status=1
  rm -rf "${models[@]}"
  return "$status"
}

# A forward pass against the host's, and its time.
trace() { python3 scripts/gpu/time_trace.py "$stage/vindex" "$scratch/trace" --backend "$backend"; }

# peers torch-jax|cupy SECONDS: packages of Python, a process for each peer. Ours is beside the first; the bench has it in full.
# VINDEX_PEERS_SPECTRA: other weights.
peers() {
  local names ours=(--modes default --batch 16,64)
  names=torch.svdvals.gesvd,torch.svdvals.gesvda,torch.svdvals.gesvdj,torch.gram32+eigvalsh,jax.gram32+eigvalsh,torch.gram64+eigvalsh
  names+=,torch.svd_lowrank
  if [[ "$1" == cupy ]]; then
    names=cupy.gram32+eigvalsh,cupy.svd ours=(--no-ours --batch 16)
  fi
  # Their errors are known (docs/runs/performance.md) and would cost a float64 SVD on the host.
  python3 bench/peers/peers.py --program "$stage/vindex" --device cuda --samples 3 --peer-seconds 8 --answer-seconds 30 --no-errors \
    --time-limit "$2" --spectra "${VINDEX_PEERS_SPECTRA:-noise}" --peers "$names" "${ours[@]}" -o "$raw/peers-$1.json"
}

"$@"
