#!/usr/bin/env bash
# Builds docs/ as a web site, with the reference of the Python package; every warning is an error.
# Usage: scripts/site.sh [FOLDER] (default: build/site)
set -euo pipefail
cd "$(dirname "$0")/.."

folder="${1:-build/site}"
scripts/python_env.sh --site
build/python-site/bin/sphinx-build --fail-on-warning --keep-going --quiet -d build/site-cache docs "$folder"
echo "$folder/index.html"
