#!/bin/sh
# Runs a test with the interpreter $1, or skips (77) where it is not there. Usage: run.sh PYTHON SCRIPT ARGUMENTS...
# As with_packages.sh.
. "$(dirname "$0")/plain_environment.sh"
export PYTHONPATH="$(dirname "$0")/../support"
if [ ! -x "$1" ]; then
  echo "skipped: $1 is not there; scripts/python_env.sh makes it"
  exit 77
fi
exec "$@"
