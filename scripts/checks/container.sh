#!/usr/bin/env bash
# The container image without a container engine: both stages of jobs/container/Dockerfile in bare Debian systems that
# debootstrap makes, by the Dockerfile's own RUN lines, then a model measured in the second, which has no compiler. Needs root,
# debootstrap and the network; a build without a compiler cache. Usage: scripts/checks/container.sh [FOLDER]
set -euo pipefail
cd "$(dirname "$0")/../.."

if [[ "${INSIDE:-}" != yes ]]; then
  command -v debootstrap >/dev/null || { echo "container_check: apt-get install debootstrap" >&2; exit 1; }
  # What is mounted below ends with this process.
  exec env INSIDE=yes unshare --mount --propagation private "$0" "$@"
fi
folder=${1:-$(mktemp -d)}
mkdir -p "$folder"
[[ $# == 1 ]] || trap 'umount "$folder"/*/proc 2>/dev/null; rm -rf "$folder"' EXIT

mapfile -t run_lines < <(sed -n 's/^RUN //p' jobs/container/Dockerfile)
((${#run_lines[@]} == 2)) || { echo "container_check: two RUN lines expected in the Dockerfile" >&2; exit 1; }

in_system() {
  local system=$1
  shift
  chroot "$folder/$system" env -i PATH=/usr/sbin:/usr/bin:/sbin:/bin PRESET=cpu "$@"
}

echo "== two bare systems"
debootstrap --variant=minbase bookworm "$folder/build" >"$folder/debootstrap.log" || { tail "$folder/debootstrap.log"; exit 1; }
cp -a "$folder/build" "$folder/run"
for system in build run; do
  cp /etc/resolv.conf "$folder/$system/etc/"
  mount -t proc proc "$folder/$system/proc"
done

echo "== ${run_lines[0]}"
mkdir "$folder/build/vindex"
git ls-files -z | tar --create --null --files-from=- | tar --extract --directory "$folder/build/vindex"
in_system build bash -c "cd /vindex && ${run_lines[0]}"

echo "== ${run_lines[1]}"
cp "$folder/build/vindex.deb" "$folder/build/vindex/jobs/container/install.sh" "$folder/run/tmp/"
in_system run bash -c "${run_lines[1]}"

echo "== a model"
if in_system run bash -c 'command -v gcc g++ cmake'; then
  echo "container_check: the second stage holds tools of the first" >&2
  exit 1
fi
in_system run bash -ec 'cd /tmp && vindex synth kimi-k2-mini -o model && vindex measure model -o out.h5 --progress none &&
  vindex validate out.h5 && vindex status out.h5'
du -sm --exclude=proc "$folder/run" | awk '{print "the second system has " $1 " MB"}'
