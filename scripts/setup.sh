#!/usr/bin/env bash
# Installs what is missing on Debian 12 (or a release like it). Never installs CUDA: the preset `cuda` is built wherever
# nvcc >= 12.6.2 is found. Usage: scripts/setup.sh [--tests|--development]
# --tests: with the commands that tests call; --development: with what CI and scripts/deep_checks.sh need too.
set -euo pipefail

packages=(g++ cmake ninja-build git python3 python3-venv libcli11-dev libhdf5-dev libopenblas-dev liblapacke-dev
          libcurl4-openssl-dev nlohmann-json3-dev libfmt-dev libssl-dev liburing-dev libre2-dev libkissfft-dev
          zlib1g-dev libjs-vega libgtest-dev)
if [[ "${1:-}" == "--tests" || "${1:-}" == "--development" ]]; then
  packages+=(hdf5-tools sqlite3 tmux dpkg-dev file xz-utils python3-dev)
fi
if [[ "${1:-}" == "--development" ]]; then
  # nginx-light: a real web server for the tests of remote models. Debian starts it, so that --tests leaves it out.
  packages+=(nginx-light chromium curl clang libclang-rt-14-dev clang-format clang-tidy codespell debootstrap
             slurmctld slurmd slurm-client munge parallel
             python3-h5py python3-h5netcdf python3-netcdf4 python3-pandas python3-xarray python3-yaml)
fi

missing=()
for package in "${packages[@]}"; do
  if ! dpkg-query -W -f='${Status}' "$package" 2>/dev/null | grep -q 'install ok installed'; then
    missing+=("$package")
  fi
done
if ((${#missing[@]} == 0)); then
  exit 0
fi
as_root=()
if [[ "$(id -u)" != 0 ]]; then
  command -v sudo >/dev/null || { echo "setup: install as root: ${missing[*]}" >&2; exit 1; }
  as_root=(sudo)
fi
echo "setup: installing ${missing[*]}" >&2
"${as_root[@]}" env DEBIAN_FRONTEND=noninteractive apt-get update -qq
"${as_root[@]}" env DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends "${missing[@]}" >/dev/null
