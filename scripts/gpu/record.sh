# The half of gpu_check.sh that runs parts and keeps what they leave; it sources this. A call leaves two files, however many
# parts it had, since a machine that is lent may hand few back:
#   FOLDER/gpu-NAME-CALL.json      vindex-gpu-check/1: of every part how it ended, after how long, and the line that says most
#   FOLDER/gpu-NAME-CALL-raw.tgz   all output: a log of every part, documents of benchmarks, tables, core dumps of the device
# Both are written anew after every part and at the end, whatever ends the call. Requires: out, call_name, raw, scratch, commit, gpu,
# all_seconds, do_part.

rows=()      # of the summary, JSON
lines=()     # the same, human-readable
failed=0     # 1 where a part failed
ended=false  # true where the call came to its end
number=0     # of parts so far
running=     # the process of the part that runs
last_log=/dev/null

# How a part may end beside 0 and the codes of `timeout`. scripts/gpu/parts.sh ends with these.
trials_failed=3  # it came to its end, and what failed there is not used any more
not_here=4       # a tool that this machine lacks
no_gpu=70

json_text() { printf '%s' "$1" | LC_ALL=C tr -c '[:print:]' ' ' | sed 's/\\/\\\\/g; s/"/\\"/g'; }

# The most informative line of a log about a failure.
reason_of() {
  { grep -m 1 -E 'E-[A-Z]{2,}|VINDEX_REQUIRE|ERROR SUMMARY: [1-9]|ERROR in|exception with' "$1" ||
    grep -m 1 -iE 'no gpu|no test ran|not here' "$1" || grep -m 1 -E '^\[  FAILED' "$1" || grep -v '^ *$' "$1" | tail -n 1 || true; } | cut -c 1-600
}

# record NAME ENDING CODE SECONDS REASON: into the summary and, at once, to the terminal.
record() {
  rows+=("$(printf '{"part": "%s", "ending": "%s", "code": %d, "seconds": %d, "log": "%s", "reason": "%s"}' \
    "$(json_text "$1")" "$2" "$3" "$4" "$(basename "$last_log")" "$(json_text "$5")")")
  lines+=("$(printf '%-46s %s%s' "$1" "$2, $4 s" "${5:+: ${5:0:160}}")")
  printf -- '-- %s\n' "${lines[-1]}"
}

write_summary() {
  local row separator=""
  printf '{"schema": "vindex-gpu-check/1", "commit": "%s", "gpu": "%s", "call": "%s", "seconds": %d, "ended": %s, "failed": %s,\n' \
    "$(json_text "$commit")" "$(json_text "$gpu")" "$(json_text "$call_name")" "$SECONDS" "$ended" \
    "$( ((failed == 0)) && echo false || echo true)"
  printf ' "route": "%s", "parts": [' "$(json_text "${best_route:-}")"
  for row in ${rows[@]+"${rows[@]}"}; do
    printf '%s\n  %s' "$separator" "$row"
    separator=,
  done
  printf '\n ]}\n'
}

# Parallel parts may write meanwhile, for which tar returns 1.
archive() { tar -czf "$scratch/raw.tgz" "$@" -C "$scratch" "$(basename "$raw")" 2>/dev/null || (($? == 1)); }

# Core dumps may be too large to be handed back; all else is text.
pack() {
  local most=$((15 << 20))
  write_summary >"$scratch/summary.json"
  cp "$scratch/summary.json" "$raw/summary.json"
  archive
  if (($(stat -c %s "$scratch/raw.tgz") > most)); then
    ls -l "$raw"/core-* >"$raw/left-out.txt" 2>/dev/null || true
    archive --exclude='core-*'
  fi
  mv "$scratch/raw.tgz" "$out/$call_name-raw.tgz"
  mv "$scratch/summary.json" "$out/$call_name.json"
}

# part NAME SECONDS COMMAND...: its output goes to a log of its own, also what it printed before it was stopped. Ends as it did.
part() {
  local name="$1" limit="$2" code=0 start=$SECONDS ending
  shift 2
  number=$((number + 1))
  last_log="$raw/$(printf '%02d' "$number")-${name//[^A-Za-z0-9.+-]/-}.log"
  : >"$last_log"
  if ((limit > all_seconds - SECONDS)); then limit=$((all_seconds - SECONDS)); fi
  if ((limit < ${VINDEX_CHECK_LEAST:-5})); then
    failed=1
    record "$name" "not run" 0 0 "no time is left"
    pack
    return 1
  fi
  echo "== $name"
  # In the background, so that a signal to this script is not kept waiting for the part.
  timeout --kill-after=5 "$limit" "$@" >"$last_log" 2>&1 </dev/null &
  running=$!
  wait "$running" || code=$?
  running=
  tail -n "$((code == 0 ? 4 : 16))" "$last_log" | cut -c 1-240
  case "$code" in
    0) ending=well ;;
    "$trials_failed") ending="well but for trials" ;;
    "$not_here") ending="not here" ;;
    "$no_gpu") ending="no GPU" ;;
    124 | 137) ending="stopped at its limit of $limit s" ;;
    *) ending=failed ;;
  esac
  ((code == 0 || code == not_here)) || failed=1
  record "$name" "$ending" "$code" $((SECONDS - start)) "$( ((code == 0)) || reason_of "$last_log")"
  pack
  return "$code"
}

# begin_beside PART [ARGUMENT...]: beside the parts, to the end of the call at most. Under `timeout`, which hands a signal on to
# all that a part started.
background=()
begin_beside() {
  timeout --kill-after=5 "$((all_seconds + 20))" "$do_part" "$@" >"$raw/$1.log" 2>&1 </dev/null &
  background+=("$!")
}

# Processes that this script started and that may still run, by their ids; then the last state of the two files.
end_call() {
  local one
  for one in "$running" ${background[@]+"${background[@]}"}; do
    [[ -z "$one" ]] || { kill "$one" && wait "$one"; } 2>/dev/null || true
  done
  [[ "$ended" == true ]] || failed=1
  pack
  rm -rf "$scratch"
}
