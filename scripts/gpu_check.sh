#!/usr/bin/env bash
# The GPU checks, for a machine on which nothing can be installed. Two halves:
#   scripts/gpu_check.sh bundle                 where the project builds: preset cuda, then program, module, tests and
#                                               probe with the libraries they need, packed into bundle/bundle.tar.xz and
#                                               tried in an empty root folder
#   scripts/gpu_check.sh run [FOLDER [PART...]] on the GPU machine, from a checkout with bundle/: every part, each with
#                                               its time limit, whatever the result of the one before. Below nine minutes.
# FOLDER (default bench/results) gets two files a call, written anew after every part: a summary (JSON) and an archive of
# all output (scripts/gpu/record.sh). Documents for bench/results lie in the archive.
# Parts, what decides most first, each in a process of its own, so that a kernel that traps or hangs costs only its own part
# and no earlier result:
#   facts self-test suites conformance stages end-to-end bench peers agreement counters sanitizer initcheck racecheck trace
# Together they need more than nine minutes; parts that are cut off are reported. Two calls have everything that matters, and
# together fit into fifteen minutes of a device:
#   run FOLDER first    facts self-test suites conformance stages end-to-end bench peers                     (8.7 minutes at most)
#   run FOLDER second   facts self-test agreement counters sanitizer initcheck racecheck trace                              (4.5)
# Where the self-tests reject a kernel, later parts use the best remaining route, which the summary names. A suite that
# fails is run again with synchronous launches, with a dump of the device, and under memcheck.
# Exit code: 0 if all parts succeeded, 1 if a part failed, 70 without a GPU, 64 for wrong usage, 66 without a bundle.
set -euo pipefail
cd "$(dirname "$0")/.."

first_parts=(facts self-test suites conformance stages end-to-end bench peers)
second_parts=(facts self-test agreement counters sanitizer initcheck racecheck trace)
all_parts=("${first_parts[@]}" "${second_parts[@]:2}")

# A borrowed machine is available for ten minutes a call and for fifteen in all; its start, unpacking and the tables take some
# of them.
all_seconds="${VINDEX_CHECK_SECONDS:-520}"
second_seconds=270
# What the peers behind the benchmarks get of a call, whatever the benchmarks still have to do.
peers_seconds="${VINDEX_PEERS_SECONDS:-150}"

# Each kernel once, on small arrays: a sanitizer slows kernels ten- to a hundredfold. All Gram kernels, wgmma's (in clusters,
# too) and mma.sync's, run in every case of GramKernels, and both of codes in every case of CodeSlices.
sanitizer_filter="${VINDEX_SANITIZE_FILTER:-*GramKernels.BlockScaledFp8*/0:*GramKernels.CodesNeedNoAlignment/0:*GramKernels.OddShapes/0:\
*BandReduction.BatchesGive*/0:*BandChase.ABatch*/0:*TridiagonalValues.InPieces*/0:*Cholesky.Factors*/0:\
*DeferredBand.BatchesGive*/0:*SharedChase.ABroken*/0:*NativeOperands.Scales*/0:*CodeSlices.DigitsAt*/0:*TridiagonalValues.InFloat32Have*/0:\
*TopSolvers.FastTakesWide*/0:*BandTail.*/0:*BandUpdate.*/0:*DecodeKernels.*/0:*ForwardCalls.Little*/0:*ForwardCalls.Products*/0}"

do_part=scripts/gpu/parts.sh

# synccheck objects to the chase by design: its warps reach one barrier, whose number of threads is given, from two loops, as
# PTX allows (bar.sync a, b). So the chase is looked at by itself, and of it only such an objection is expected.
chase_filter="${VINDEX_SANITIZE_CHASE:-*BandChase.ABatch*/0}"

find_cuda_folders() {
  # A toolkit, or the packages that PyTorch brings along; then a driver that nothing else leads to.
  local folder found=""
  for folder in /usr/local/cuda/lib64 /usr/local/cuda/targets/x86_64-linux/lib \
    $(python3 -c 'import site, glob
for root in site.getsitepackages():
    print("\n".join(sorted(glob.glob(root + "/nvidia/*/lib"))))' 2>/dev/null) \
    /usr/local/nvidia/lib64 /usr/local/nvidia/lib /usr/lib/wsl/lib; do
    [[ -d "$folder" ]] && found+="${found:+:}$folder"
  done
  printf '%s' "$found"
}

# Every route's kernels by the program's own self-tests, one process each, the safest first: those without the newer kernels,
# then `auto` with them, so that a newer kernel that breaks the device costs itself alone. Later parts use the best route whose
# process completed: a kernel that failed its self-test there is not used, and does not exclude others. The first process loads
# the libraries from a cold cache.
former_routes=(two-stage+gram-mma+band-plain+kernels-former two-stage+gram-mma+band-tensor+kernels-former
  two-stage+gram-wgmma+band-plain+kernels-former two-stage+kernels-former)
try_routes() {
  local route best="" code limit=60
  for route in library "${former_routes[@]}" auto; do
    code=0
    part "self-test $route" "$limit" "$do_part" self_test "$route" default || code=$?
    ((code != 0 && code != trials_failed)) || best="$route"
    if grep -q 'E-NO-GPU' "$last_log"; then return "$no_gpu"; fi
    limit=25
  done
  # wgmma with plain bands is a trial, not the best of a device on which what follows fails for another reason.
  [[ "$best" != "${former_routes[2]}" ]] || best="${former_routes[0]}"
  best_route="${best:-library}"
  echo "-- route of the later parts: $best_route"
  part "self-test strict" 25 "$do_part" self_test "$best_route" strict || true
  part "self-test fast" 25 "$do_part" self_test "$best_route" fast || true
}

# The kernels against their references, a process per suite.
try_suites() {
  local suite variants filter
  while read -r suite variants filter; do
    part "suite $suite" 30 "$do_part" suite "$variants" "$filter" || look_closer "$suite" "$variants" "$last_log"
  done < <("$do_part" suites)
}

# Repeats the first few failures of a suite with more diagnostics: a broken device causes many.
looks_left=3
look_closer() {
  local suite="$1" variants="$2" log="$3" cases
  # The cases that failed; of a process that ended before it could say, the one that ran.
  cases="$(sed -nE 's/^\[  FAILED  \] ([A-Za-z0-9_\/]+\.[A-Za-z0-9_\/]+).*/\1/p' "$log" | sort -u | head -n 4 | paste -sd: -)"
  [[ -n "$cases" ]] || cases="$(sed -nE 's/^\[ RUN      \] ([A-Za-z0-9_\/.]+).*/\1/p' "$log" | tail -n 1)"
  if [[ -z "$cases" ]] || ((looks_left == 0)); then return 0; fi
  looks_left=$((looks_left - 1))
  part "suite $suite, awaited" 25 "$do_part" awaited "$variants" "$cases" || true
  if grep -qE 'E-CUDA|launch failure|illegal|misaligned|KernelFault' "$log" "$last_log"; then
    part "suite $suite, dumped" 25 "$do_part" dumped "$variants" "$cases" || true
    part "suite $suite, memcheck" 40 "$do_part" sanitize memcheck gpu_kernel_tests "$cases" "$variants" || true
  fi
}

do_parts() {
  local chosen one
  for chosen in "$@"; do
    case "$chosen" in
      facts)
        one=0
        part facts 40 "$do_part" facts || one=$?
        ((one != no_gpu)) || return "$no_gpu"
        hold_device ;;
      self-test) try_routes || return $? ;;
      suites) try_suites ;;
      agreement) part agreement 120 "$do_part" agreement || true ;;
      stages)
        part stages 60 "$do_part" stages || true
        merge_into stages.json "$raw/stages.json" ;;
      counters)
        # A call for each: the launches before it, of which there are hundreds, would use up a common count. Newer kernels first.
        for one in deferred deferred-products native chase-flags codes back update operands panel chase32 product; do
          part "counters $one" 30 "$do_part" counters "$one" || true
        done ;;
      initcheck)
        part "sanitizer initcheck" 45 "$do_part" sanitize initcheck gpu_kernel_tests "$sanitizer_filter" || true ;;
      racecheck)
        # Last: it may take bulk copies and their barriers for races.
        part "sanitizer racecheck" 60 "$do_part" sanitize racecheck gpu_kernel_tests "$sanitizer_filter" || true ;;
      conformance) part conformance 80 "$do_part" conformance || true ;;
      bench)
        local kept=0
        [[ " $* " != *" peers "* ]] || kept="$peers_seconds"
        local limit=$((all_seconds - SECONDS - kept))
        ((limit <= ${VINDEX_BENCH_SECONDS:-$limit})) || limit="$VINDEX_BENCH_SECONDS"
        part bench "$limit" "$do_part" bench_table || true
        merge_into spectra.json "$raw"/bench-*.json ;;
      trace) part trace 75 "$do_part" trace || true ;;
      sanitizer)
        part "sanitizer memcheck" 45 "$do_part" sanitize memcheck gpu_kernel_tests "$sanitizer_filter" || true
        part "sanitizer synccheck" 45 "$do_part" sanitize synccheck gpu_kernel_tests "$sanitizer_filter:-*BandChase*:*SharedChase*" || true
        part "sanitizer synccheck, chase by flags" 20 "$do_part" sanitize synccheck gpu_kernel_tests "*SharedChase.ABroken*/0" || true
        part "sanitizer synccheck, chase" 20 "$do_part" synccheck_of_chase gpu_kernel_tests "$chase_filter" || true ;;
      end-to-end)
        part end-to-end 110 "$do_part" end_to_end || true
        merge_into end-to-end.json "$raw"/end-to-end-*.json ;;
      peers)
        # The strongest first; after each, what is known of all.
        part "peers cusolver values" 40 "$do_part" probe values 30 peers-values || true
        merge_into peers.json "$raw"/peers-*.json
        part "peers torch, jax" "$((peers_seconds * 3 / 5))" "$do_part" peers torch-jax "$((peers_seconds / 2))" || true
        merge_into peers.json "$raw"/peers-*.json
        part "peers cusolver svd" 30 "$do_part" probe svd 20 peers-svd || true
        part "peers cupy" 60 "$do_part" peers cupy 40 || true
        merge_into peers.json "$raw"/peers-*.json ;;
      *) echo "gpu_check: no part is called $chosen: ${all_parts[*]}, or first, second" >&2; return 64 ;;
    esac
  done
}

# Some forty processes follow, and each would wake the driver. Where a device takes one process at a time, they go without.
hold_device() {
  if nvidia-smi --query-gpu=compute_mode --format=csv,noheader 2>/dev/null | grep -q Exclusive; then return 0; fi
  begin_beside hold "$((all_seconds - SECONDS + 20))"
}

# A document that is whole becomes gpu-NAME-WHAT in the archive; what is not goes by name into the summary.
merge_into() {
  local target="gpu-$gpu-$1"
  shift
  if ! python3 bench/records/merge_results.py -o "$raw/$target" "$@" >"$raw/merge.log" 2>&1; then
    last_log="$raw/merge.log"
    record "$target" failed 1 0 "not written: no whole document"
    failed=1
  fi
}

run() {
  out="${1:-bench/results}"
  shift || true
  local parts=("${@:-${all_parts[@]}}") code=0
  case "${parts[*]}" in
    first) parts=("${first_parts[@]}") ;;
    second)
      parts=("${second_parts[@]}")
      all_seconds="${VINDEX_CHECK_SECONDS:-$second_seconds}" ;;
  esac
  local one
  for one in "${parts[@]}"; do
    [[ " ${all_parts[*]} " == *" $one "* ]] ||
      { echo "gpu_check: no part is called $one: ${all_parts[*]}, or first, second" >&2; exit 64; }
  done
  [[ -f bundle/bundle.tar.xz ]] || { echo "gpu_check: bundle/bundle.tar.xz is not here; make it with \`$0 bundle\`" >&2; exit 66; }
  mkdir -p "$out"
  gpu="$(nvidia-smi --query-gpu=name --format=csv,noheader 2>/dev/null | head -n 1 | tr '[:upper:]' '[:lower:]' | sed 's/nvidia //; s/[^a-z0-9]\+/-/g' || true)"
  gpu="${gpu:-no-gpu}"
  # A name for every call: a later one must not take the place of an earlier one's.
  call_name="gpu-$gpu-${parts[0]}-$(date -u +%H%M%S)-$$"
  scratch="$(mktemp -d)"
  raw="$scratch/$call_name"
  mkdir -p "$raw"
  commit=unknown
  best_route=auto
  source scripts/gpu/record.sh
  trap end_call EXIT
  trap 'exit 130' INT
  trap 'exit 143' TERM
  # Where there is no xz, Python has one.
  tar -xJf bundle/bundle.tar.xz -C "$scratch" 2>/dev/null ||
    python3 -m tarfile -e bundle/bundle.tar.xz "$scratch" >"$raw/unpacking.log" 2>&1 ||
    { echo "gpu_check: bundle/bundle.tar.xz is not whole, or this machine has neither xz nor Python's lzma; make it again with \`$0 bundle\`" >&2
      exit 66; }
  stage="$scratch/vindex-gpu"
  commit="$(cat "$stage/commit")"
  cuda_folders="$(find_cuda_folders)"
  export VINDEX_CUDA_FOLDERS="$cuda_folders" VINDEX_REQUIRE=cuda PATH="/usr/local/cuda/bin:/usr/local/cuda/compute-sanitizer:$PATH" PYTHONUNBUFFERED=1
  # Settings of the environment that would affect arithmetic or libraries: reported, and unset for programs that, unlike
  # vindex, do not do so themselves.
  environment="$(env | grep -E '^(CUBLAS|CUDA|CUSOLVER|NVIDIA|LD_LIBRARY)[A-Z0-9_]*=|TF32' || true)"
  environment="${environment:-nothing of CUBLAS, CUDA, NVIDIA, LD_LIBRARY or TF32 in the environment}"
  unset "${!OPENBLAS_@}" "${!OMP_@}" "${!CUBLAS_@}" NVIDIA_TF32_OVERRIDE || true
  export stage scratch raw cuda_folders environment best_route
  pack
  # What needs no device is made ready beside parts that do.
  [[ " ${parts[*]} " != *" agreement "* ]] || begin_beside references
  [[ " ${parts[*]} " != *" end-to-end "* ]] || begin_beside experts
  do_parts "${parts[@]}" || code=$?
  if ((code == no_gpu)); then
    echo "gpu_check: no GPU: the other parts were not started"
  else
    # The end of the output is what a short reply shows.
    if compgen -G "$raw/gpu-$gpu-*.json" >/dev/null; then
      python3 bench/records/merge_results.py --table "$raw"/gpu-"$gpu"-*.json >"$raw/tables.txt" 2>&1 || true
      tail -n 70 "$raw/tables.txt"
    fi
  fi
  ended=true
  printf '%s\n' "== summary of commit $commit, $gpu" "${lines[@]}"
  echo "== in $out: $call_name.json $call_name-raw.tgz"
  ((code == 0)) || exit "$code"
  exit "$failed"
}

case "${1:-}" in
  bundle)
    source scripts/gpu/bundle.sh
    bundle ;;
  run) shift; run "$@" ;;
  *) awk 'NR > 1 && !/^#/ { exit } NR > 1' "$0"; exit 64 ;;
esac
