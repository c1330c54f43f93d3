#!/usr/bin/env bash
# GNU parallel, without a scheduler: WORKERS shares of the work, one at a time on each machine that ssh reaches, then the
# merge. The machines share a file system and have the program at the same path.
#   jobs/parallel.sh WORKERS HOST,HOST,... MODEL OUT.h5 [flags of measure]
# ":" is this machine. More workers than machines even out their speeds: a machine takes the next share when it is done. A
# share that failed is tried three times in all, elsewhere if it can be. The same command again does what is missing.
# VINDEX names the program where it is not on the PATH.
set -uo pipefail

vindex=${VINDEX:-vindex}
workers=${1:?usage: parallel.sh WORKERS HOST,HOST,... MODEL OUT.h5 [flags]}
hosts=${2:?usage: parallel.sh WORKERS HOST,HOST,... MODEL OUT.h5 [flags]}
model=${3:?usage: parallel.sh WORKERS HOST,HOST,... MODEL OUT.h5 [flags]}
output=${4:?usage: parallel.sh WORKERS HOST,HOST,... MODEL OUT.h5 [flags]}
shift 4

# --quote: arguments with spaces arrive as they are. TERM first, and KILL after what the program needs to stop.
seq 0 $((workers - 1)) |
  parallel --quote --sshlogin "$hosts" --jobs 1 --workdir "$PWD" --retries 3 --line-buffer --termseq TERM,25000,KILL,100 \
    "$vindex" measure "$model" -o "$output" --worker "{}/$workers" "$@" || exit
"$vindex" merge "$output.parts" -o "$output" && "$vindex" validate "$output"
