#!/usr/bin/env bash
# The second stage of the images: the package and what it depends on, on a bare system of the same release; nothing of the
# build. Usage: install.sh PACKAGE.deb   (as root)
set -euo pipefail

package=$(realpath "${1:?usage: install.sh PACKAGE.deb}")
export DEBIAN_FRONTEND=noninteractive
apt-get update -qq
# Certificates: for models that are read over https.
apt-get install -y -qq --no-install-recommends ca-certificates "$package"
rm -rf /var/lib/apt/lists/*
vindex --version
