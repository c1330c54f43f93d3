#!/usr/bin/env bash
# Slurm: merges the parts of all workers into one results file; run it after they have finished
# (usage in jobs/slurm-array.sh).
#SBATCH --job-name=vindex-merge
#SBATCH --nodes=1
#SBATCH --ntasks=1
#SBATCH --cpus-per-task=4
#SBATCH --mem=16G
#SBATCH --time=00:30:00
set -euo pipefail

vindex=${VINDEX:-vindex}
output=${1:?usage: sbatch slurm-merge.sh OUT.h5}
"$vindex" merge "$output.parts" -o "$output"
"$vindex" validate "$output"
"$vindex" status "$output"
