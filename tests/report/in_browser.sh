#!/bin/sh
# Runs a test in a browser; skips (77) where packages or chromium are missing, but fails with VINDEX_BROWSER_REQUIRED=1, so that a
# machine that has to run these tests cannot leave them out. Usage: in_browser.sh PYTHON SCRIPT ARGUMENTS...
folder="$(dirname "$0")"
python="$1"
shift
"$folder/../python/with_packages.sh" "$python" "playwright h5py numpy pypdf" "$@"
code=$?
if [ "$code" = 77 ] && [ "${VINDEX_BROWSER_REQUIRED:-0}" = 1 ]; then
  echo "failed: VINDEX_BROWSER_REQUIRED=1 and the test was skipped" >&2
  exit 1
fi
exit "$code"
