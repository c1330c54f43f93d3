#!/usr/bin/env bash
# The GPU checks, for a machine on which nothing can be installed. Two halves:
#   scripts/gpu_check.sh bundle                 where the project builds: preset cuda, then program, module, tests and
#                                               probe with the libraries they need, packed into bundle/bundle.tar.gz and
#                                               tried in an empty root folder
#   scripts/gpu_check.sh run [FOLDER [PART...]] on the GPU machine, from a checkout with bundle/: every part, each with
#                                               its time limit, the next one whatever became of it; JSON (vindex-bench/1)
#                                               and one log into FOLDER (default bench/results). Below nine minutes.
# Parts, in the order of a first contact: what cannot harm the device first, what may never come back late, each in a process
# of its own, so that a kernel that traps or hangs costs its own part and no earlier result:
#   facts self-test suites agreement stages bench conformance decode end-to-end peers probe sanitizer
# They want more than nine minutes together; what is cut says so. Three calls have room for all:
#   run FOLDER first    facts self-test suites agreement stages bench racecheck
#   run FOLDER second   self-test conformance decode sanitizer end-to-end
#   run FOLDER third    self-test peers probe
# Where the self-tests condemn a kernel, later parts take the best route that is left, and the log says which.
# Ends with 1 where a part failed, with 70 where there is no GPU.
set -euo pipefail
cd "$(dirname "$0")/.."

all_parts=(facts self-test suites agreement stages bench conformance decode end-to-end peers probe sanitizer)

# A lent machine answers for ten minutes; unpacking and the tables want some of them.
all_seconds="${VINDEX_CHECK_SECONDS:-520}"

# Each kernel once, on small arrays: a sanitizer slows kernels ten- to a hundredfold. Both Gram kernels, wgmma's and
# mma.sync's, run in every case of GramKernels.
sanitizer_filter="${VINDEX_SANITIZE_FILTER:-*GramKernels.BlockScaledFp8*/0:*GramKernels.CodesNeedNoAlignment/0:*GramKernels.OddShapes/0:\
*BandReduction.BatchesGive*/0:*BandChase.ABatch*/0:*TridiagonalValues.InPieces*/0:*Cholesky.Factors*/0:\
*TopSolvers.FastTakesWide*/0:*BandTail.*/0:*DecodeKernels.*/0}"

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

# The line of a log that says most of a failure.
reason_of() {
  { grep -m 1 -iE 'no gpu|E-[A-Z]+|VINDEX_REQUIRE|ERROR SUMMARY: [1-9]|not here|no test ran' "$1" || grep -v '^ *$' "$1" | tail -n 1; } |
    cut -c 1-160
}

# Into the summary and, at once, into the log: what is known must not wait for the end of this script.
note() {
  summary+=("$1")
  printf -- '-- %s\n' "$1" >>"$log"
}

# part NAME SECONDS COMMAND...: its output goes to the log, its end to the summary. What it printed before it was stopped
# is in the log too.
part() {
  local name="$1" limit="$2" status=0 start=$SECONDS
  shift 2
  if ((limit > all_seconds - SECONDS)); then limit=$((all_seconds - SECONDS)); fi
  if ((limit < 5)); then
    note "$(printf '%-28s NOT RUN: no time is left' "$name")"
    failed=1
    return 1
  fi
  echo "== $name" | tee -a "$log"
  timeout --kill-after=5 "$limit" "$@" >"$scratch/part.log" 2>&1 || status=$?
  cat "$scratch/part.log" >>"$log"
  tail -n "$((status == 0 ? 4 : 16))" "$scratch/part.log" | cut -c 1-240
  case "$status" in
    0) note "$(printf '%-28s well, %d s' "$name" $((SECONDS - start)))" ;;
    124 | 137) note "$(printf '%-28s STOPPED at its limit of %s s' "$name" "$limit")"; failed=1 ;;
    *) note "$(printf '%-28s FAILED (%d), %d s: %s' "$name" "$status" $((SECONDS - start)) "$(reason_of "$scratch/part.log")")"
      failed=1 ;;
  esac
  return "$status"
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
  printf '%s\n' "$environment"
  return "$status"
}

# The verdicts on the kernels that one route can use, from a small run of it, and what the run says of them: a device that a
# kernel broke takes only this process along.
self_test() {
  local route="$1" mode="$2" status=0 file="$scratch/small-$1-$2.h5"
  set -o pipefail
  [[ -d "$scratch/small" ]] || ours "$stage/programs/vindex" synth layer:4x512x384:fp8 -o "$scratch/small" -q || return 1
  ours "$stage/programs/vindex" measure "$scratch/small" -o "$file" --backend "${VINDEX_CHECK_BACKEND:-cuda}" --mode "$mode" \
    --svd-route "$route" --progress none 2>&1 | tail -n 4 || status=1
  ((status == 0)) || return "$status"
  python3 - "$file" <<'PYTHON'
import json
import sys

import h5py

with h5py.File(sys.argv[1]) as file:
    text = file["run/environment"][()]
    text = text if isinstance(text, (bytes, str)) else text[0]
    document = json.loads(text)
for device in document["back_ends"]:
    print("back end", device["backend"], device["device"], *device["libraries"], sep=", ")
    for test in device["self_tests"]:
        print("passed" if test["passed"] else "FAILED", test["name"] + ":", test["detail"])
    failed = [test["name"] for test in device["self_tests"] if not test["passed"]]
    if failed:
        sys.exit("ERROR in the self-tests: " + ", ".join(failed))
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
      local file="$name-${mode//[:+]/-}.h5" route="$best_route"
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

# Where the time of a batch goes: events around every launch; and where Nsight Compute is, its durations and bytes. The GPU's
# clocks are left as they are.
stages() {
  local status=0
  ours "$stage/programs/gpu_probe" --only stages --seconds 40 --samples 5 --json >"$raw/stages.json" || status=1
  if ! command -v ncu >/dev/null; then
    echo "ncu is not here: no counters"
    return "$status"
  fi
  ours timeout --kill-after=5 60 ncu --clock-control none --target-processes all --launch-count 400 --csv \
    --metrics gpu__time_duration.sum,dram__bytes.sum,lts__t_bytes.sum \
    "$stage/programs/gpu_probe" --only stages --seconds 45 --samples 1 >"$raw/stages-ncu.csv" 2>&1 || status=1
  tail -n 3 "$raw/stages-ncu.csv"
  return "$status"
}

# Runs one benchmark with a time limit of its own and keeps its document for the merge; where it is stopped, the rows so
# far.
bench_case() {
  local name="$1" limit="$2" status=0
  shift 2
  echo "-- $name"
  timeout --kill-after=15 "$limit" env LD_LIBRARY_PATH="$stage/lib:$cuda_folders" \
    "$stage/programs/vindex" bench --backend cuda --json --folder "$scratch" "$@" >"$raw/$name.json" || status=$?
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
    --shapes 7168x2048,4096x4096 --batch 64 --samples 3 || status=1
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

# Every route's kernels by the program's own self-tests, a process each, the least dangerous first; then the best route that
# came back well is that of the later parts. Ends with 70 where there is no GPU.
try_routes() {
  local route best=""
  for route in library two-stage+gram-mma+band-plain two-stage+gram-mma+band-tensor two-stage+gram-wgmma+band-plain auto; do
    if part "self-test $route" 25 bash -c "self_test $route default"; then
      best="$route"
    elif grep -q 'E-NO-GPU' "$scratch/part.log"; then
      printf '%s\n' "== summary" "${summary[@]}" "no GPU: the other parts were not started" | tee -a "$log"
      return 70
    fi
  done
  # wgmma with plain bands is a trial, not the best of a device on which `auto` fails for another reason.
  [[ "$best" != two-stage+gram-wgmma+band-plain ]] || best=two-stage+gram-mma+band-plain
  best_route="${best:-library}"
  note "$(printf '%-28s %s' "route of the later parts" "$best_route")"
  part "self-test strict" 25 bash -c "self_test $best_route strict" || true
  part "self-test fast" 25 bash -c "self_test $best_route fast" || true
}

# The kernels against their references, a process per suite.
try_suites() {
  local suite variants filter
  while read -r suite variants filter; do
    part "suite $suite" 25 bash -c "VINDEX_TEST_VARIANTS=$variants tests_on_gpu '$stage/programs/gpu_kernel_tests' '--gtest_filter=$filter'" \
      </dev/null || true
  done <<'SUITES'
values none *TridiagonalValues*
chase none *BandChase*
band-plain plain,library *BandReduction*:BandPlan*
band-tensor tensor *BandReduction*
gram-mma mma *GramKernels*:*GramAccuracy*:*GramSums*:*SlicedGram*
decode none *DecodeKernels*
top none *Cholesky*:*TopSolvers*
gram-wgmma wgmma *GramKernels*:*GramSums*
SUITES
}

run() {
  local out="${1:-bench/results}"
  shift || true
  local parts=("${@:-${all_parts[@]}}")
  case "${parts[*]}" in
    first) parts=(facts self-test suites agreement stages bench racecheck) ;;
    second) parts=(self-test conformance decode sanitizer end-to-end) ;;
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
  # What the machine's environment would do to the arithmetic and to the libraries: told, and taken away from programs that,
  # unlike vindex, do not do so themselves.
  environment="$(env | grep -E '^(CUBLAS|CUDA|CUSOLVER|NVIDIA)[A-Z0-9_]*=|TF32' || true)"
  environment="${environment:-nothing of CUBLAS, CUDA, NVIDIA or TF32 in the environment}"
  unset "${!OPENBLAS_@}" "${!OMP_@}" "${!CUBLAS_@}" NVIDIA_TF32_OVERRIDE || true
  local gpu
  gpu="$(nvidia-smi --query-gpu=name --format=csv,noheader 2>/dev/null | head -n 1 | tr '[:upper:]' '[:lower:]' | sed 's/nvidia //; s/[^a-z0-9]\+/-/g' || true)"
  gpu="${gpu:-no-gpu}"
  # A log for every call: a later one must not take the place of an earlier one's.
  local call
  call="${parts[0]}-$(date -u +%H%M%S)"
  log="$out/gpu-$gpu-checks-$call.log"
  : >"$log"
  # What programs print lies here as soon as they end, whatever becomes of the rest of this script.
  raw="$(cd "$out" && pwd)/gpu-$gpu-raw-$call"
  mkdir -p "$raw"
  summary=("commit $(cat "$stage/commit"), $gpu")
  failed=0
  # `timeout` runs programs, not functions: the parts below are functions of this script's own second start.
  export -f ours tests_on_gpu sanitize facts self_test agreement stages bench_case bench_table
  export stage scratch raw cuda_folders environment
  best_route=auto
  export best_route
  local chosen
  for chosen in "${parts[@]}"; do
    case "$chosen" in
      facts) part facts 30 bash -c facts || true ;;
      self-test) try_routes || return $? ;;
      suites) try_suites ;;
      agreement) part agreement 110 bash -c agreement || true ;;
      stages) part stages 110 bash -c stages || true
        keep "$raw/stages.json" "$out/gpu-$gpu-stages.json" ;;
      racecheck) part "sanitizer racecheck" 60 bash -c "sanitize racecheck gpu_kernel_tests '$sanitizer_filter'" || true ;;
      conformance) part conformance 90 bash -c "tests_on_gpu '$stage/programs/measure_tests' '--gtest_filter=*/cuda*-*emulated*'" || true ;;
      bench)
        local kept=0
        [[ " ${parts[*]} " != *" racecheck "* ]] || kept=65
        part bench $((all_seconds - SECONDS - kept)) bash -c bench_table || true
        merge_into "$out/gpu-$gpu-spectra.json" "$raw"/bench-*.json ;;
      decode) part decode 90 bash -c "ours '$stage/programs/gpu_probe' --only decode --seconds 60 --samples 5 --json >'$raw/decode.json'" || true
        keep "$raw/decode.json" "$out/gpu-$gpu-decode.json" ;;
      sanitizer)
        local tool
        # racecheck last: it may take bulk copies and their barriers for races.
        for tool in memcheck initcheck synccheck racecheck; do
          part "sanitizer $tool" 60 bash -c "sanitize $tool gpu_kernel_tests '$sanitizer_filter'" || true
        done ;;
      end-to-end) part end-to-end 120 bash -c "bench_case end-to-end 110 --sections read,end-to-end --synth layer:96x7168x2048:fp8 --samples 2" || true
        merge_into "$out/gpu-$gpu-end-to-end.json" "$raw/end-to-end.json" ;;
      peers) part peers 300 python3 bench/peers.py --program "$stage/vindex" --device cuda --samples 3 --peer-seconds 10 \
          --answer-seconds 45 --time-limit 220 --spectra trained,noise -o "$raw/peers.json" || true
        keep "$raw/peers.json" "$out/gpu-$gpu-peers.json" ;;
      probe) part probe 150 bash -c "ours '$stage/programs/gpu_probe' --only transfers,memory,peaks,barriers,gram,eigen --seconds 100 \
          --samples 5 --json >'$raw/probe.json'" || true
        keep "$raw/probe.json" "$out/gpu-$gpu-probe.json" ;;
      *) echo "gpu_check: no part is called $chosen: ${all_parts[*]}, or first, second, third" >&2; exit 64 ;;
    esac
  done
  # The end of the output is what a short reply shows.
  echo "== tables" | tee -a "$log"
  python3 bench/merge_results.py --table "$out"/gpu-"$gpu"-{spectra,stages,decode,end-to-end,peers}.json 2>&1 | tee -a "$log" | tail -n 70 || true
  printf '%s\n' "== summary" "${summary[@]}" | tee -a "$log"
  return "$failed"
}

# Keeps a document that is whole; what is not goes by name into the summary.
keep() { merge_into "$2" "$1"; }
merge_into() {
  local target="$1"
  shift
  if ! python3 bench/merge_results.py -o "$target" "$@" >>"$log" 2>&1; then
    note "$(printf '%-28s not written: no whole document' "$(basename "$target")")"
    failed=1
  fi
}

case "${1:-}" in
  bundle)
    source scripts/gpu_bundle.sh
    bundle ;;
  run) shift; run "$@" ;;
  *) sed -n '2,16p' "$0"; exit 64 ;;
esac
