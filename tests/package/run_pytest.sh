#!/usr/bin/env bash
# run_pytest.sh FOLDER TESTS...: those of make_wheel.sh's environment, in which the package is the wheel's. 77: there is none.
set -euo pipefail
folder=$1
shift
[[ -x "$folder/venv/bin/pytest" ]] || { echo "skipped: no wheel was made"; exit 77; }
# The package in the checkout has no module and no program: nothing may find it.
cd /
PYTHONDONTWRITEBYTECODE=1 exec "$folder/venv/bin/pytest" -q -p no:cacheprovider "$@"
