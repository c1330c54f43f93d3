#!/usr/bin/env bash
# A Python environment in build/, with what a file of requirements lists; does nothing where it is there already.
# Usage: scripts/python_env.sh [--models | --site] [FOLDER]
# without a flag: what the tests need, readers of results files, the package and a driver of browsers among it
#   (tests/python/requirements.txt, in build/python)
# --models: transformers, peft and torch (some GB), which scripts/capture.py and the tests beside it need
#   (tests/python/requirements-models.txt, in build/python-models)
# --site: Sphinx, for scripts/site.sh (docs/requirements.txt, in build/python-site)
set -euo pipefail
cd "$(dirname "$0")/.."

name=
wanted=tests/python/requirements.txt
case "${1:-}" in
  --models) name=-models wanted=tests/python/requirements-models.txt ;;
  --site) name=-site wanted=docs/requirements.txt ;;
esac
[[ -z "$name" ]] || shift
folder="${1:-build/python$name}"
if cmp -s "$wanted" "$folder/requirements.txt"; then
  exit 0
fi
# Debian's own interpreter: another one on the PATH may be of a version that has no such packages.
python=/usr/bin/python3
[[ -x "$python" ]] || python=python3
if [[ -e "$folder" && ! -f "$folder/pyvenv.cfg" ]]; then
  echo "python_env: $folder is there and no Python environment: name another folder" >&2
  exit 1
fi
rm -rf "$folder"
"$python" -m venv "$folder" || { echo "python_env: no venv; on Debian: apt-get install python3-venv" >&2; exit 1; }
"$folder/bin/pip" install --quiet --disable-pip-version-check --only-binary :all: -r "$wanted"
cp "$wanted" "$folder/requirements.txt"
