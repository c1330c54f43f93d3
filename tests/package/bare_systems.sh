#!/usr/bin/env bash
# bare_systems.sh FOLDER: make_wheel.sh's wheel by scripts/wheel/check.sh, which makes two Debian systems from the network. 77:
# there is no wheel, or VINDEX_BARE_SYSTEMS is not 1: some minutes that not every test run is to pay for.
set -euo pipefail
folder=$1
cd "$(dirname "$0")/../.."
[[ "${VINDEX_BARE_SYSTEMS:-}" == 1 ]] || { echo "skipped: VINDEX_BARE_SYSTEMS=1 asks for it"; exit 77; }
wheels=("$folder"/wheel/*.whl)
[[ -f "${wheels[0]}" ]] || { echo "skipped: no wheel was made"; exit 77; }
exec scripts/wheel/check.sh "${wheels[0]}"
