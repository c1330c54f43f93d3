# The half of gpu_check.sh that packs the bundle; it sources this. Requires find_cuda_folders().
# VINDEX_BUNDLE_BUILD: another build folder than build/cuda, configured beforehand, say for the one architecture at hand, whose
# kernels then compile in a third of the time.

# Programs of the bundle and where the build leaves them.
programs=(apps/vindex lib/vindex/libvindex_cuda_module.so tests/backend/backend_tests tests/kernels/gpu_kernel_tests
          bench/gpu_probe)
# The GPU machine itself provides the C library, the driver and CUDA's toolkit; libstdc++ and libgcc_s are bundled.
own_system='/(linux-vdso|ld-linux[^/]*|libc|libm|libpthread|libdl|librt|libresolv|libutil)\.so'
own_cuda='/(libcuda|libcublas|libcublasLt|libcusolver|libcusparse|libnvJitLink|libcudart)\.so'

libraries_of() {
  LD_LIBRARY_PATH="${LD_LIBRARY_PATH:+$LD_LIBRARY_PATH:}$cuda_folders" ldd "$@" 2>/dev/null | awk '/=> \// {print $3}' | sort -u
}

bundle() {
  local stage file library newest
  PATH="$(scripts/toolchain/find_nvcc.sh):$PATH"
  export PATH
  cuda_folders="$(find_cuda_folders)"
  local build="${VINDEX_BUNDLE_BUILD:-build/cuda}"
  [[ -n "${VINDEX_BUNDLE_BUILD:-}" ]] || cmake --preset cuda >/dev/null
  local targets=(vindex_cuda_module)
  for file in "${programs[@]}"; do [[ "$file" == *.so ]] || targets+=("$(basename "$file")"); done
  cmake --build "$build" -j "$(scripts/toolchain/build_jobs.sh)" --target "${targets[@]}"
  rm -rf bundle
  stage=bundle/vindex-gpu
  mkdir -p "$stage/lib" "$stage/programs"
  for file in "${programs[@]}"; do cp "$build/$file" "$stage/programs/"; done
  # The program loads OpenBLAS itself, under this name: ldd does not list it.
  local openblas
  openblas="$(sed -n 's/^VINDEX_OPENBLAS:[A-Z]*=//p' "$build/CMakeCache.txt")"
  cp -L "$openblas" "$stage/lib/libopenblas.so.0"
  libraries_of "$stage"/programs/* "$stage/lib/libopenblas.so.0" | grep -vE "$own_system|$own_cuda" | while read -r library; do
    cp -L "$library" "$stage/lib/"
  done
  strip --strip-debug "$stage"/programs/* "$stage"/lib/*
  cat >"$stage/vindex" <<'WRAPPER'
#!/bin/sh
# The program with the bundled libraries; other programs use the machine's own.
here="$(cd "$(dirname "$0")" && pwd)"
LD_LIBRARY_PATH="$here/lib${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}:$VINDEX_CUDA_FOLDERS" exec "$here/programs/vindex" "$@"
WRAPPER
  chmod +x "$stage/vindex"
  # As the program has it: records name this commit, whatever the checkout is by now.
  LD_LIBRARY_PATH="$stage/lib" "$stage/programs/vindex" --version | sed -nE 's/.*\(([^,]+),.*/\1/p' >"$stage/commit"
  [[ -s "$stage/commit" ]] || { echo "gpu_check: the program names no commit" >&2; return 1; }
  newest="$(objdump -T "$stage"/programs/* "$stage"/lib/* 2>/dev/null | grep -o 'GLIBC_[0-9.]*' | sort -uV | tail -n 1)"
  echo "needs the C library $newest or newer"
  try_bundle "$stage"
  # Kernels for three architectures in three programs: with gzip the bundle would be twice as large, too large to copy.
  XZ_OPT=-T0 tar -cJf bundle/unfinished.tar.xz -C bundle vindex-gpu
  mv bundle/unfinished.tar.xz bundle/bundle.tar.xz
  rm -rf "$stage"
  du -h bundle/bundle.tar.xz
  local bytes
  bytes="$(( $(stat -c %s bundle/bundle.tar.xz) + $(git ls-files -z | du -cb --files0-from=- | tail -n 1 | cut -f 1) ))"
  echo "with the tracked files $((bytes >> 20)) MiB"
  ((bytes < 64 << 20)) || { echo "gpu_check: more than 64 MiB" >&2; return 1; }
}

# Every library comes from the bundle, the C library or CUDA; what needs no CUDA starts in a root folder that holds only
# the C library.
try_bundle() {
  local stage="$1" strangers root
  strangers="$(LD_LIBRARY_PATH="$stage/lib${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}:$cuda_folders" ldd "$stage"/programs/* "$stage"/lib/* |
    awk '/not found/ {print $1} /=> \// {print $3}' | sort -u |
    grep -vE "$own_system|$own_cuda|$(printf '%s' "$stage/lib")" || true)"
  if [[ -n "$strangers" ]]; then
    printf 'gpu_check: not in the bundle:\n%s\n' "$strangers" >&2
    return 1
  fi
  if [[ "$(id -u)" != 0 ]]; then
    echo "not root: the bundle is not tried in an empty root folder"
    return 0
  fi
  root="$(mktemp -d)"
  mkdir -p "$root/lib64" "$root/lib/x86_64-linux-gnu" "$root/tmp" "$root/dev" "$root/proc"
  cp -L /lib64/ld-linux-x86-64.so.2 "$root/lib64/"
  local name
  for name in libc.so.6 libm.so.6 libpthread.so.0 libdl.so.2 librt.so.1 libresolv.so.2; do
    cp -L "/lib/x86_64-linux-gnu/$name" "$root/lib/x86_64-linux-gnu/"
  done
  cp -r "$stage" "$root/bundle"
  local status=0
  LD_LIBRARY_PATH=/bundle/lib chroot "$root" /bundle/programs/vindex --version || status=1
  LD_LIBRARY_PATH=/bundle/lib chroot "$root" /bundle/programs/vindex synth layer:2x256x128:fp8 -o /tmp/model -q || status=1
  LD_LIBRARY_PATH=/bundle/lib chroot "$root" /bundle/programs/vindex bench -q --backend cpu --sections end-to-end \
    --model /tmp/model --samples 1 --folder /tmp >/dev/null || status=1
  LD_LIBRARY_PATH=/bundle/lib chroot "$root" /bundle/programs/backend_tests --gtest_list_tests >/dev/null || status=1
  rm -rf "$root"
  ((status == 0)) || echo "gpu_check: the bundle does not start by itself" >&2
  return "$status"
}
