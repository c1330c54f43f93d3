#!/usr/bin/env bash
# make_wheel.sh BUILD CMAKE FOLDER: FOLDER/wheel gets the wheel of BUILD, FOLDER/venv an environment with it and what its tests
# need. 77: no Python with headers, no network for the tools, or a build with sanitizers.
set -euo pipefail
build=$1 cmake=$2 folder=$3
cd "$(dirname "$0")/../.."

skip() {
  rm -rf "$folder/wheel" "$folder/venv"  # what an earlier run left is not this build's
  echo "skipped: $*"
  exit 77
}
grep -q '^VINDEX_SANITIZE:STRING=$' "$build/CMakeCache.txt" || skip "an interpreter without sanitizers does not load a module with them"
[[ "$(uname -m)" == x86_64 ]] || skip "wheels are made for x86-64"
python=${PYTHON:-/usr/bin/python3}  # as scripts/python_env.sh: Debian's own first
[[ -x "$python" ]] || python=python3
headers=$("$python" -c 'import sysconfig; print(sysconfig.get_path("include"))')
[[ -f "$headers/Python.h" ]] || skip "$python has no headers; on Debian: apt-get install python3-dev"
scripts/wheel/tools.sh "$python" >/dev/null || skip "the tools of python/ cannot be installed"

rm -rf "$folder/prefix" "$folder/wheel" "$folder/venv"
"$cmake" --install "$build" --prefix "$folder/prefix" >/dev/null
PYTHON=$python scripts/wheel.sh --prefix "$folder/prefix" "$folder/wheel"
"$python" -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet --disable-pip-version-check "$(echo "$folder"/wheel/*.whl)[plot,arrow]" \
  -r python/tests/requirements.txt
"$folder/venv/bin/vindex" --version
