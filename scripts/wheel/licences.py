#!/usr/bin/env python3
"""Puts the licences of what a wheel carries into it: licences.py WHEEL OUTDIR, after auditwheel.

The libraries that auditwheel has added are files of Debian packages; to these come the packages whose code is in the program
itself. Each package's copyright file goes to licenses/PACKAGE.txt of the wheel's metadata, with the
licences of /usr/share/common-licenses that it refers to. Prints the wheel's path, the number of libraries and its size.
Needs: wheel (its commands unpack and pack), a Debian system.
"""
import importlib.metadata
import pathlib
import re
import subprocess
import sys
import tempfile

# Statically linked, or of headers alone.
WITHIN = ["liburing-dev", "libcli11-dev", "nlohmann-json3-dev", "libkissfft-dev"]
DOCUMENTATION = pathlib.Path("/usr/share/doc")
COMMON = pathlib.Path("/usr/share/common-licenses")


def carried_packages(libraries: list[str]) -> list[str]:
    """Names of the Debian packages that `libraries` are of: auditwheel has put a digest into each name."""
    packages = set()
    for library in libraries:
        name = re.sub(r"-[0-9a-f]{8}(?=\.)", "", library, count=1)
        found = subprocess.run(["dpkg-query", "--search", f"*/{name}"], capture_output=True, text=True)
        if found.returncode != 0:
            sys.exit(f"wheel_licences: no package has {name}: its licence is not known")
        packages.add(found.stdout.split(":")[0])
    return sorted(packages)


def licences(packages: list[str]) -> dict[str, str]:
    """Texts by file name. Ends the program where a package says nothing."""
    texts = {}
    for package in packages:
        path = DOCUMENTATION / package / "copyright"
        if not path.is_file():
            sys.exit(f"wheel_licences: {path} is not there: the licence of {package} is not known")
        texts[f"{package}.txt"] = path.read_text(errors="replace")
    for name in {name for text in texts.values() for name in re.findall(r"/usr/share/common-licenses/([A-Za-z0-9.+-]*\w)", text)}:
        path = COMMON / name
        if path.is_file():
            texts[f"{path.resolve().name}.txt"] = path.read_text()
    nanobind = importlib.metadata.distribution("nanobind")
    texts["nanobind.txt"] = next(file.read_text() for file in nanobind.files or [] if file.name.startswith("LICENSE"))
    return texts


def add(metadata: pathlib.Path, texts: dict[str, str]) -> None:
    """Writes `texts` and names them in the metadata, before its description."""
    lines = []
    for name, text in sorted(texts.items()):
        (metadata / "licenses" / name).write_text(text)
        lines.append(f"License-File: {name}\n")
    path = metadata / "METADATA"
    head, blank, description = path.read_text().partition("\n\n")
    path.write_text(head + "\n" + "".join(lines).rstrip("\n") + blank + description)


def main(wheel: str, out: str) -> None:
    with tempfile.TemporaryDirectory() as folder:
        unpack = [sys.executable, "-m", "wheel", "unpack", "--dest", folder, wheel]
        subprocess.run(unpack, check=True, stdout=subprocess.DEVNULL)
        (root,) = pathlib.Path(folder).iterdir()
        (metadata,) = root.glob("*.dist-info")
        (carried,) = root.glob("*.libs")
        libraries = sorted(file.name for file in carried.iterdir())
        if not any("openblas" in name for name in libraries):
            sys.exit("wheel_licences: auditwheel added no OpenBLAS")
        packages = carried_packages(libraries)
        add(metadata, licences([*packages, *WITHIN]))
        pack = [sys.executable, "-m", "wheel", "pack", "--dest-dir", out, str(root)]
        subprocess.run(pack, check=True, stdout=subprocess.DEVNULL)
    result = pathlib.Path(out) / pathlib.Path(wheel).name
    print(f"{result}: {len(libraries)} libraries of {len(packages)} packages carried, {result.stat().st_size / 1e6:.1f} MB")


if __name__ == "__main__":
    if len(sys.argv) != 3:
        sys.exit(__doc__)
    main(sys.argv[1], sys.argv[2])
