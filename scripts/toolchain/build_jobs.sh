#!/usr/bin/env bash
# Prints how many compilers may run at once on this machine: one per core, with 1.2 GB of free memory for each.
set -euo pipefail

cores="$(nproc)"
free_kib="$(awk '/^MemAvailable:/ {print $2}' /proc/meminfo 2>/dev/null || true)"
fitting=$(( ${free_kib:-0} / 1200000 ))
if [[ -z "$free_kib" ]] || ((fitting > cores)); then
  fitting=$cores
fi
echo $((fitting > 0 ? fitting : 1))
