#!/usr/bin/env bash
# installed.sh tree|library|packages|quickstart BUILD CMAKE CPACK: installs BUILD, or unpacks the packages made of it, into a
# folder of its own and measures with what lies there; library: with the example of docs/library/library.md, built against it;
# quickstart: that what scripts/quickstart.sh builds is all that an installation copies out of BUILD. 77: a tool of Debian's
# packaging is not here, BUILD is no build of Ninja's, or sanitizers are in the way.
set -euo pipefail

what=$1 build=$2 cmake=$3 cpack=$4
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT

# The program alone, from another folder: nothing of the build tree is needed.
try_program() {
  local root=$1 file
  for file in share/doc/vindex/{README.md,LICENSE,NOTICE,CHANGELOG.md,docs/measuring/metrics.md} share/vindex/jobs/local.sh; do
    [[ -f "$root/$file" ]] || { echo "$file is missing in $root"; exit 1; }
  done
  mkdir "$folder/work"
  cd "$folder/work"
  "$root/bin/vindex" --version
  "$root/bin/vindex" synth layer:2x64x32:bf16 -o model -q
  "$root/bin/vindex" measure model -o out.h5 --backend cpu -q
  "$root/bin/vindex" validate out.h5
  VINDEX="$root/bin/vindex" "$root/share/vindex/jobs/local.sh" 2 model split.h5 --backend cpu --progress none
  cd - >/dev/null
  rm -rf "$folder/work"
}

sanitized=0
grep -q '^VINDEX_SANITIZE:STRING=$' "$build/CMakeCache.txt" || sanitized=1

if [[ "$what" == quickstart ]]; then
  command -v ninja >/dev/null && [[ -f "$build/build.ninja" ]] || { echo "no build of Ninja's"; exit 77; }
  target=$(sed -n 's/.* --target \([a-z_]*\) .*/\1/p' "$(dirname "$0")/../../scripts/quickstart.sh")
  # What the target depends on, and what that is made of.
  { ninja -C "$build" -t query "$target" | sed 's/^ *//'; ninja -C "$build" -t inputs "$target"; } >"$folder/inputs"
  copied=$(grep -rhoE "\"$build/[^\"]*\"" "$build" --include=cmake_install.cmake | tr -d '"' | sort -u |
    grep -vE '\$\{|/CMakeFiles/|\.cmake$')
  [[ "$copied" == *"/apps/vindex"* && "$copied" == *"/libvindex.so"* ]] || { echo "what is installed is not seen: $copied"; exit 1; }
  for file in $copied; do
    name=${file#"$build/"}
    # A link is made with the file that it names.
    grep -qxF -e "$name" -e "$(realpath -m --relative-to="$build" "$file")" "$folder/inputs" ||
      { echo "scripts/quickstart.sh builds $target, without $name, which cmake --install copies"; exit 1; }
  done
  exit 0
fi

if [[ "$what" == tree ]]; then
  "$cmake" --install "$build" --prefix "$folder/prefix" >/dev/null
  bytes=$(stat -c %s "$folder/prefix/bin/vindex")
  if ((sanitized == 0)) && grep -q '^VINDEX_DEBUG_INFO:BOOL=OFF$' "$build/CMakeCache.txt"; then
    # 3.2 MB of libhdf5's archive, where it is used.
    ((bytes <= 13300000)) || { echo "the program has $bytes bytes, more than 13.3 MB"; exit 1; }
  fi
  try_program "$folder/prefix"
  exit 0
fi

if [[ "$what" == library ]]; then
  ((sanitized == 0)) || { echo "a program without sanitizers does not load a library with them"; exit 77; }
  prefix=$folder/prefix
  "$cmake" --install "$build" --prefix "$prefix" >/dev/null
  [[ "$(cd "$prefix/include" && find . -type f | sort | xargs)" == "./vindex/error.hpp ./vindex/vindex.hpp" ]] ||
    { echo "other headers than the two are installed"; exit 1; }
  others=$(nm -DC --defined-only "$prefix/lib/libvindex.so" | cut -c18- | grep -vE \
    'vindex::(v0::|[A-Za-z]*Error|OutOfMemory|fail_expectation|printable|escaped|excerpt)' || true)
  [[ -z "$others" ]] || { echo "the library shows other names: $others"; exit 1; }
  # As a program of others: its own build type and generator, no cache of ours.
  for command in "-S $prefix/share/doc/vindex/docs/library/example -B $folder/example -DCMAKE_PREFIX_PATH=$prefix" \
    "--build $folder/example"; do
    # shellcheck disable=SC2086
    "$cmake" $command >"$folder/log" 2>&1 || { cat "$folder/log"; exit 1; }
  done
  mkdir "$folder/work"
  cd "$folder/work"
  "$prefix/bin/vindex" synth layer:4x256x128:fp8 -o model -q
  env -u OPENBLAS_NUM_THREADS "$folder/example/example" model out.h5
  "$prefix/bin/vindex" validate out.h5
  code=0
  "$folder/example/example" absent out.h5 || code=$?
  [[ $code == 66 ]] || { echo "a model that is not there ends with $code"; exit 1; }
  exit 0
fi

for tool in dpkg-shlibdeps dpkg-deb file; do
  command -v "$tool" >/dev/null || { echo "$tool is not here"; exit 77; }
done
(cd "$folder" && "$cpack" --config "$build/CPackConfig.cmake" -G 'DEB;TGZ' -B "$folder/packages") >"$folder/log" 2>&1 ||
  { cat "$folder/log"; exit 1; }
deb=$(ls "$folder"/packages/vindex_*.deb)
depends=$(dpkg-deb -f "$deb" Depends)
echo "Depends: $depends"
for package in libhdf5 libc6 libopenblas0; do
  [[ "$depends" == *"$package"* ]] || { echo "the package does not depend on $package"; exit 1; }
done
dpkg-deb -x "$deb" "$folder/unpacked"
try_program "$folder/unpacked/usr"
mkdir "$folder/archive"
tar -xzf "$folder"/packages/vindex-*.tar.gz -C "$folder/archive" --strip-components 1
try_program "$folder/archive"
