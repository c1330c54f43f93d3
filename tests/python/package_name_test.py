#!/usr/bin/env python3
"""package_name_test.py CHECKOUT: nothing tells anybody to install `vindex` from a package index.

That name belongs to somebody else's package there; ours is `vindex-spectra` (or a folder, or the
file of a wheel). Pages, messages, notebooks, scripts, containers: every text of the checkout.
"""

import re
import sys
from pathlib import Path

NOT_OURS = {".git", "build", "shared", "corpus", "node_modules", "__pycache__"}
SUFFIXES = {
    "", ".md", ".py", ".pyi", ".cpp", ".hpp", ".cu", ".cuh", ".js", ".json", ".html", ".toml", ".cfg",
    ".txt", ".sh", ".sbatch", ".yaml", ".yml", ".def", ".cmake", ".ipynb", ".in", ".service",
}  # fmt: skip
# The name with nothing behind it that makes it another one: a folder, a file, `vindex-spectra`.
NAME = r"(?<![\w./-])vindex(?![\w./-]*[\w/])"
INSTALL = re.compile(
    r"\b(?:pip3?|pipx|uv(?:\s+pip|\s+tool)?|uvx|poetry|pdm|rye|hatch|conda|mamba|micromamba)\s+"
    r"(?:install|add|run|inject|download|wheel)\b[^\n|;&#`]*?['\"\s=]" + NAME
)
RUN = re.compile(r"\buvx\s+" + NAME)
METADATA = re.compile(r"\b(?:version|distribution|metadata|requires|files)\(\s*['\"]vindex['\"]\s*\)")
REQUIREMENT = re.compile(rf"^\s*[\"']?{NAME}\s*(?:\[|==|>=|~=|$)", re.MULTILINE)

TOLD = [
    "pip install vindex", "pip install 'vindex[plot]'", 'pip install "vindex"', "pip install -U vindex",
    "python -m pip install --upgrade vindex==1.0", "pip install numpy vindex", "uv add vindex",
    "pipx run vindex", "uv pip install vindex", "pip install --quiet --find-links /tmp vindex",
    "conda install -c conda-forge vindex", "uvx vindex", 'importlib.metadata.version("vindex")',
]  # fmt: skip
NOT_TOLD = [
    "pip install vindex-spectra", "pip install 'vindex-spectra[plot]'", "pip install python/",
    "pip install vindex_spectra-0.1.0-cp312-abi3-linux_x86_64.whl", "pip install ./vindex",
    "pip install pyarrow; vindex export", "pip install python/ && vindex --version",
    "apt install ./vindex.deb", 'version("vindex-spectra")', "pip install numpy # for vindex",
]  # fmt: skip


def told(text: str, requirements: bool = False) -> list[str]:
    """What of a text names the package of somebody else as one to install or to ask about."""
    rules = [INSTALL, RUN, METADATA] + ([REQUIREMENT] if requirements else [])
    return [found[0] for rule in rules for found in rule.finditer(text)]


def main() -> None:
    for text in TOLD:
        assert told(text), f"not found: {text}"
    for text in NOT_TOLD:
        assert not told(text), f"found: {text}"
    assert told("vindex[plot]>=1", requirements=True) and not told("vindex-spectra", requirements=True)

    root = Path(sys.argv[1])
    looked_at = 0
    wrong = []
    pending = [root]
    while pending:
        for path in sorted(pending.pop().iterdir()):
            if path.is_symlink() or path.name in NOT_OURS or path.resolve() == Path(__file__).resolve():
                continue
            if path.is_dir():
                pending.append(path)
            elif path.suffix in SUFFIXES and path.stat().st_size < 1 << 22:
                text = path.read_text(encoding="utf-8", errors="replace")
                looked_at += 1
                found = told(text, path.name.startswith("requirements"))
                wrong += [f"{path.relative_to(root)}: {one}" for one in found]
    assert looked_at > 500, looked_at
    assert not wrong, "\n".join(wrong)
    project = (root / "python/pyproject.toml").read_text(encoding="utf-8")
    assert re.search(r'^name = "vindex-spectra"$', project, re.MULTILINE)


if __name__ == "__main__":
    main()
