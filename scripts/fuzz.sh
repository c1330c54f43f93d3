#!/usr/bin/env bash
# Builds every fuzz target with libFuzzer and runs each from its corpus for the given number of seconds (default 60), with
# another seed each time; `scripts/fuzz.sh --same RUNS`: for that many runs, the same ones each time, so that a
# push fails only for its own changes. Fails where a target does not build or finds something. Findings are kept
# under build/fuzz/findings.
set -euo pipefail
cd "$(dirname "$0")/.."

if [[ "${1:-}" == --same ]]; then
  length="${2:?how many runs} runs"
  limits=(-seed=1 "-runs=$2")
else
  length="${1:-60} s"
  limits=("-max_total_time=${1:-60}")
fi
cmake --preset fuzz >/dev/null
cmake --build --preset fuzz -j "$(scripts/toolchain/build_jobs.sh)" --target fuzzers
findings="$PWD/build/fuzz/findings"
mkdir -p "$findings"
count=0
for target in build/fuzz/tests/fuzz/fuzz_*; do
  [[ -x "$target" && -f "$target" ]] || continue
  name="$(basename "$target")"
  work="$(mktemp -d)"
  log="$work.log"
  corpus=("tests/fuzz/corpus/${name#fuzz_}")
  [[ -d "${corpus[0]}" ]] || corpus=(tests/fuzz/corpus/gguf) # targets that share GGUF's
  [[ "$name" != fuzz_rewrite ]] || corpus+=(tests/fuzz/corpus/safetensors)
  echo "== $name for $length"
  "$target" "${limits[@]}" -rss_limit_mb=2048 -timeout=10 -print_final_stats=1 \
    -artifact_prefix="$findings/$name-" "$work" "${corpus[@]}" >"$log" 2>&1 || { tail -n 40 "$log"; exit 1; }
  grep -E 'stat::number_of_executed' "$log"
  rm -rf "$work" "$log"
  count=$((count + 1))
done
if ((count == 0)); then
  echo "fuzzing: no target was built" >&2
  exit 1
fi
