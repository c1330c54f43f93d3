"""Builds docs/ as a web site (scripts/site.sh): pages in Markdown, the Python API from docstrings.

Nothing on a page comes from another address. A link that leaves docs/, to a file of the
repository, becomes that file's path: the site is read without the repository beside it.
"""

from __future__ import annotations

import re
import sys
from pathlib import Path

from sphinx.application import Sphinx

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "python"))

project = "vindex"
copyright = "the vindex authors"  # noqa: A001
release = re.search(r"project\(vindex VERSION ([0-9.]+)", (ROOT / "CMakeLists.txt").read_text())[1]

extensions = ["myst_nb", "sphinx.ext.autodoc", "sphinx.ext.napoleon"]
exclude_patterns = ["library/example"]
html_theme = "furo"
html_title = f"vindex {release}"
html_copy_source = False
html_show_sphinx = False

myst_heading_anchors = 3
nb_execution_mode = "off"  # a test runs the notebook

# The reference is made of signatures and docstrings: what the package computes with stays out.
autodoc_mock_imports = [
    "fastapi", "h5py", "matplotlib", "numpy", "pandas", "prometheus_client", "pyarrow", "starlette",
    "tqdm", "uvicorn", "xarray", "vindex._native",
]
autodoc_typehints = "signature"
autodoc_member_order = "bysource"
autodoc_default_options = {"members": True}

# What the tests read (tests/docs/page_blocks.py) and readers do not.
MARKER = re.compile(r"^<!--.*?-->\n", re.MULTILINE | re.DOTALL)
LINK = re.compile(r"\[([^\]]+)\]\((\.\./[^)#]+)(?:#[^)]*)?\)")


def name_repository_file(match: re.Match[str], folder: Path) -> str:
    """`[text](../path)` of a page in `folder` as text, if it leaves docs/; with the path behind it where the text does not name it."""
    text, file = match[1], (folder / match[2]).resolve()
    if not file.exists():
        raise FileNotFoundError(f"a page of {folder} links {match[2]}, which there is not")
    if file.is_relative_to(ROOT / "docs"):
        return match[0]
    path = str(file.relative_to(ROOT))
    return text if Path(path).name in text or path in text else f"{text} (`{path}`)"


def read_source(app: Sphinx, name: str, text: list[str]) -> None:
    folder = Path(app.env.doc2path(name)).parent
    text[0] = LINK.sub(lambda match: name_repository_file(match, folder), MARKER.sub("", text[0]))


def setup(app: Sphinx) -> None:
    app.connect("source-read", read_source)
