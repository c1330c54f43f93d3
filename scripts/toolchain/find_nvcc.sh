#!/usr/bin/env bash
# Prints the folder of nvcc where one of at least CUDA 12.6 update 2 is found (12.6.77, the first whose cuSOLVER has the
# batched solver); fails with a reason otherwise.
set -euo pipefail

nvcc="$(command -v nvcc || true)"
[[ -n "$nvcc" ]] || nvcc=/usr/local/cuda/bin/nvcc
if [[ ! -x "$nvcc" ]]; then
  echo "no nvcc on PATH or in /usr/local/cuda/bin" >&2
  exit 1
fi
version="$("$nvcc" --version | sed -n 's/.*release .*, V\([0-9.]*\).*/\1/p')"
if [[ "$(printf '%s\n12.6.77\n' "$version" | sort -V | head -n 1)" != 12.6.77 ]]; then
  echo "nvcc $version is older than 12.6.77 (CUDA 12.6 update 2)" >&2
  exit 1
fi
dirname "$nvcc"
