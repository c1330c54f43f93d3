#!/usr/bin/env bash
# A wheel of scripts/wheel.sh where nothing else is: a bare Debian 12 with its own Python, and one with Python in /usr/local as
# the image python:3-slim lays it out. In each the wheel goes into an empty virtual environment and measures a model
# (scripts/wheel/check_inside.py). Needs root, debootstrap and the network. Usage: scripts/wheel/check.sh WHEEL [FOLDER]
# PYTHON_HOME: the Python that is copied for the second (the wheel's version, relocatable, as pyenv builds them); by default
# that of `python3`, unless it is Debian's own, which lies in /usr: the second system is then skipped, and the script ends
# with 77 where the first one went well.
set -euo pipefail
wheel=$(realpath "$1")
folder=${2:-}
cd "$(dirname "$0")/../.."

if [[ "${INSIDE:-}" != yes ]]; then
  [[ "$(id -u)" == 0 ]] || { echo "wheel_check: skipped: only root makes bare systems" >&2; exit 77; }
  command -v debootstrap >/dev/null || { echo "wheel_check: skipped: apt-get install debootstrap" >&2; exit 77; }
  # What is mounted below ends with this process.
  exec env INSIDE=yes unshare --mount --propagation private scripts/wheel/check.sh "$wheel" ${folder:+"$(realpath -m "$folder")"}
fi
if [[ -z "$folder" ]]; then
  folder=$(mktemp -d)
  trap 'umount "$folder"/*/proc 2>/dev/null; rm -rf "$folder"' EXIT
fi
mkdir -p "$folder/wheels" "$folder/cache"

version=$(basename "$wheel" | cut -d- -f3 | sed -E 's/^cp3/3./')
home=${PYTHON_HOME:-$(python3 -c 'import sys; print(sys.base_prefix)')}

echo "== what the wheel needs of PyPI"
cp "$wheel" "$folder/wheels/"
python3 -m pip download --quiet --disable-pip-version-check --only-binary :all: --python-version "$version" \
  --dest "$folder/wheels" "$wheel"

bare_system() {
  local name=$1 packages=$2
  [[ -d "$folder/$name/proc" ]] || debootstrap --variant=minbase --cache-dir="$folder/cache" --include="$packages" bookworm \
    "$folder/$name" >"$folder/$name.log" 2>&1 || { tail "$folder/$name.log"; exit 1; }
  mount -t proc proc "$folder/$name/proc"
}

try_wheel() {
  local name=$1 python=$2
  local system=$folder/$name
  rm -rf "$system/tmp/wheels" "$system/tmp/venv" "$system/tmp/work"
  cp -r "$folder/wheels" scripts/wheel/check_inside.py "$system/tmp/"
  in_system() { chroot "$system" env -i PATH=/usr/local/bin:/usr/bin:/bin LANG=C.UTF-8 HOME=/tmp "$@"; }
  if in_system /sbin/ldconfig -p | grep -E 'openblas|hdf5|libcurl|gfortran|libre2|libfmt'; then
    echo "wheel_check: $name is not bare" >&2
    exit 1
  fi
  in_system "$python" -m venv /tmp/venv
  in_system /tmp/venv/bin/pip install --quiet --disable-pip-version-check --no-index --find-links /tmp/wheels vindex-spectra
  # shellcheck disable=SC2016
  in_system sh -ec 'PATH=/tmp/venv/bin:$PATH; mkdir /tmp/work; cd /tmp/work; vindex --version; vindex synth kimi-k2-mini -o model -q
    python /tmp/check_inside.py model; vindex validate spectra.h5'
}

echo "== Debian 12 and its own Python"
bare_system debian python3,python3-venv
own=$(chroot "$folder/debian" python3 -c 'import sys; print("%d.%d" % sys.version_info[:2])')
[[ "$own" == "$version" ]] || { echo "wheel_check: Debian's Python is $own, the wheel is for $version" >&2; exit 1; }
try_wheel debian /usr/bin/python3

echo "== Python in /usr/local, as python:$version-slim has it"
if [[ "$home" == /usr || ! -x "$home/bin/python$version" ]]; then
  echo "wheel_check: skipped: $home holds no Python $version of its own to copy; PYTHON_HOME names one"
  exit 77
fi
# The packages that the image keeps for Python's extension modules.
bare_system slim ca-certificates,netbase,tzdata,libssl3,libffi8,libbz2-1.0,liblzma5,libsqlite3-0,libreadline8,libexpat1,zlib1g
[[ ! -e "$folder/slim/usr/bin/python3" ]] || { echo "wheel_check: the second system has a Python of Debian's" >&2; exit 1; }
cp -a "$home/bin" "$home/lib" "$folder/slim/usr/local/"
chroot "$folder/slim" /sbin/ldconfig  # as the image does: libpython lies in /usr/local/lib
try_wheel slim "/usr/local/bin/python$version"
