#!/usr/bin/env bash
# A Python environment with the readers that docs/results-file.md names, at the versions of tests/python/requirements.txt, for
# the tests that run that page's recipes. Does nothing where it is there already. Usage: scripts/python_env.sh [--models | --browser] [FOLDER]
# --models: with transformers, peft and torch instead (some GB), which scripts/capture.py and the tests beside it need:
# tests/python/requirements-models.txt, by default in build/python-models.
# --browser: with Playwright instead, which drives Debian's chromium over pages of `vindex report`: tests/report/requirements.txt, by
# default in build/python-browser.
set -euo pipefail
cd "$(dirname "$0")/.."

name=
wanted=tests/python/requirements.txt
if [[ "${1:-}" == --models ]]; then
  name=-models
  wanted=tests/python/requirements-models.txt
  shift
elif [[ "${1:-}" == --browser ]]; then
  name=-browser
  wanted=tests/report/requirements.txt
  shift
fi
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
