#!/usr/bin/env bash
# usage: keep_compiler_output.sh COMPILER ARGUMENT...
# Runs a CUDA compiler and keeps its output next to the object, as OBJECT.said, for scripts/compiler_checks.py. Prints all of
# it but ptxas's table of registers and stacks. A launcher of CMake (kernels/CMakeLists.txt).
set -uo pipefail

object="" previous=""
for argument in "$@"; do
  [[ "$previous" == -o ]] && object="$argument"
  previous="$argument"
done
[[ -n "$object" ]] || exec "$@"
"$@" 2>"$object.said"
status=$?
grep -vE '^ptxas info +: ([0-9]+ bytes gmem|Compiling entry function|Function properties|Used [0-9]+ registers|Compile time|Overriding)|^ +[0-9]+ bytes stack frame' \
  "$object.said" >&2
exit "$status"
