#!/usr/bin/env bash
# measure_overhead.sh FOLDER SOURCE FACADE_CALLS VINDEX: bench/speed/python_overhead.py on a small matrix: results agree in every bit, what
# it prints has the form. Says nothing of speed. 77: there is no wheel.
set -euo pipefail
folder=$1 source=$2 facade_calls=$3 vindex=$4
[[ -x "$folder/venv/bin/python" ]] || { echo "skipped: no wheel was made"; exit 77; }
cd /
"$folder/venv/bin/python" -B "$source/bench/speed/python_overhead.py" "$facade_calls" "$vindex" --rows 160 --cols 96 --repeats 2 \
  >"$folder/overhead.json"
"$folder/venv/bin/python" -B "$source/bench/records/check_form.py" "$folder/overhead.json"
