#!/usr/bin/env bash
# Without a cluster: N workers on this machine, one after another, then the merge. To try the
# division of work, and for machines where one process should not run for days.
#   jobs/local.sh N MODEL OUT.h5 [flags of measure]
# VINDEX names the program where it is not on the PATH.
set -euo pipefail

vindex=${VINDEX:-vindex}
count=${1:?usage: local.sh N MODEL OUT.h5 [flags]}
model=${2:?usage: local.sh N MODEL OUT.h5 [flags]}
output=${3:?usage: local.sh N MODEL OUT.h5 [flags]}
shift 3
for ((index = 0; index < count; ++index)); do
  "$vindex" measure "$model" -o "$output" --worker "$index/$count" "$@"
done
"$vindex" merge "$output.parts" -o "$output"
"$vindex" validate "$output"
