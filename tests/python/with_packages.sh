#!/bin/sh
# Runs a test with the first interpreter that has its packages: $1 (VINDEX_PYTHON), python3 on the PATH, Debian's own. Skips (77)
# where none has them. Usage: with_packages.sh PYTHON "PACKAGE ..." SCRIPT ARGUMENTS...
. "$(dirname "$0")/plain_environment.sh"
# What the scripts share, and the comparison of results files.
export PYTHONPATH="$(dirname "$0")/../support:$(dirname "$0")/../../scripts${VINDEX_PACKAGE:+:$VINDEX_PACKAGE}"
first="$1"
packages="$2"
shift 2
for python in "$first" "$(command -v python3)" /usr/bin/python3; do
  if [ -x "$python" ] && "$python" -c "import $(echo "$packages" | tr ' ' ',')" 2>/dev/null; then
    echo "with $python" >&2
    exec "$python" "$@"
  fi
done
echo "skipped: no interpreter has $packages; scripts/python_env.sh makes one"
exit 77
