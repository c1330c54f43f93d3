"""What scripts/wheel/check.sh does with the wheel in a bare system: check_inside.py MODEL, in the virtual environment.

Measures the model by the program, one matrix of it in the process, and compares both; then looks which libraries the process
has mapped: all but those that every glibc system has must lie in the environment.
"""
import pathlib
import sys

import numpy as np
import vindex

OF_SYSTEM = ("ld-linux", "libc.so", "libm.so", "libgcc_s", "libstdc++", "libz.so", "libdl.so", "libpthread.so", "librt.so",
             "libutil.so", "libresolv.so", "libnss_", "libpython")
# What Python's own modules load.
OF_PYTHON = ("libcrypto.so", "libssl.so", "libffi.so", "libbz2.so", "liblzma.so", "libsqlite3.so", "libuuid.so", "libexpat.so",
             "libreadline.so", "libtinfo.so", "libncursesw.so", "libmpdec.so", "libb2.so")


def mapped() -> set[pathlib.Path]:
    """Libraries of this process."""
    lines = pathlib.Path("/proc/self/maps").read_text().splitlines()
    return {pathlib.Path(line.split()[-1]) for line in lines if ".so" in line}


def main(model: str) -> None:
    results = vindex.measure(model, "spectra.h5", progress=False)
    matrix = results.matrix
    assert results.status == "complete", results.status
    assert len(matrix) > 0
    assert (matrix["status"].astype(str) == "measured").all()
    row = matrix.iloc[0]
    slice_ = None if row["slice"] < 0 else int(row["slice"])
    weights = vindex.decode(model, row["tensor"], slice_)
    spectrum = vindex.spectrum(weights)
    stored = results.spectrum(row["tensor"], slice_)
    worst = float(np.max(np.abs(spectrum.sigma[: len(stored)] - stored)) / stored[0])
    assert worst <= 1e-6, worst
    try:
        vindex.decode("https://127.0.0.1:1/model.safetensors", "w")  # loads libcurl; nobody listens
    except vindex.Error as error:
        assert error.code == 69, error
    libraries = mapped()
    for name in ("libopenblas", "libcurl", "libhdf5"):
        assert any(path.name.startswith(name) for path in libraries), f"{name} was not loaded"
    strange = [path for path in libraries
               if not path.is_relative_to(sys.prefix) and not path.name.startswith((*OF_SYSTEM, *OF_PYTHON))
               and not path.is_relative_to(pathlib.Path(sys.base_prefix) / "lib" / f"python3.{sys.version_info.minor}")]
    assert not strange, f"of the system: {strange}"
    print(f"vindex {vindex.__version__}, Python {sys.version.split()[0]}: {len(matrix)} matrices measured; in the process "
          f"{row['tensor']} to {worst:.1e} of s_1; stable rank {spectrum.stable_rank:.2f}, of noise {spectrum.stable_rank_null:.2f}")


if __name__ == "__main__":
    main(sys.argv[1])
