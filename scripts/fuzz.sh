#!/usr/bin/env bash
# Builds every fuzz target with libFuzzer and runs each for the given number of seconds (default 60) from its corpus.
# Fails where a target does not build or finds something. Findings are left under build/fuzz/findings.
set -euo pipefail
cd "$(dirname "$0")/.."

seconds="${1:-60}"
cmake --preset fuzz >/dev/null
cmake --build --preset fuzz -j "$(nproc)" --target fuzzers
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
  echo "== $name for $seconds s"
  "$target" -max_total_time="$seconds" -rss_limit_mb=2048 -timeout=10 -print_final_stats=1 \
    -artifact_prefix="$findings/$name-" "$work" "${corpus[@]}" >"$log" 2>&1 || { tail -n 40 "$log"; exit 1; }
  grep -E 'stat::number_of_executed' "$log"
  rm -rf "$work" "$log"
  count=$((count + 1))
done
if ((count == 0)); then
  echo "fuzzing: no target was built" >&2
  exit 1
fi
