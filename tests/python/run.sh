#!/bin/sh
# Runs a test with the interpreter $1, or skips (77) where it is not there. Usage: run.sh PYTHON SCRIPT ARGUMENTS...
# As with_packages.sh.
export OPENBLAS_NUM_THREADS=1 PYTHONDONTWRITEBYTECODE=1 PYTHONPATH="$(dirname "$0")/../support${PYTHONPATH:+:$PYTHONPATH}"
if [ ! -x "$1" ]; then
  echo "skipped: $1 is not there; scripts/python_env.sh makes it"
  exit 77
fi
exec "$@"
