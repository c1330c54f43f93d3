"""The Python of README.md and docs/python/python.md, and the notebook, each in its own folder."""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import Any

import matplotlib.pyplot as plt
import nbformat
import numpy as np
import pytest
from nbclient import NotebookClient

import vindex

pytest.importorskip("vindex._native", reason="the package is not installed as a wheel")
DOCS = Path(__file__).parents[3] / "docs"


def test_the_lines_of_the_readme(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    page = (DOCS.parent / "README.md").read_text(encoding="utf-8")
    (block,) = re.findall(r"^```python\n(.*?)^```$", page, re.MULTILINE | re.DOTALL)
    monkeypatch.chdir(tmp_path)
    vindex.run("synth", "kimi-k2-mini", output="mini")
    names: dict[str, Any] = {}
    exec(compile(block, "README.md", "exec"), names)
    assert len(names["results"].matrix) == 181


def test_every_block_of_the_page(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    page = (DOCS / "python/python.md").read_text(encoding="utf-8")
    blocks = re.findall(r"^```python\n(.*?)^```$", page, re.MULTILINE | re.DOTALL)
    assert len(blocks) >= 8
    monkeypatch.chdir(tmp_path)
    names: dict[str, Any] = {}
    for block in blocks:
        exec(compile(block, "docs/python/python.md", "exec"), names)
    assert names["results"].status == "complete"
    assert np.isfinite(names["ratio"]).all()
    assert (tmp_path / "spectra.parquet").exists()
    plt.close("all")
    for word in re.findall(r"`vindex\.(\w+)\(", page):
        assert hasattr(vindex, word), word


def test_the_notebook(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("IPYTHONDIR", str(tmp_path))
    monkeypatch.setenv("MPLCONFIGDIR", str(tmp_path))
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    monkeypatch.delenv("MPLBACKEND", raising=False)
    notebook = nbformat.read(DOCS / "python/notebook.ipynb", as_version=4)
    nbformat.validate(notebook)
    for cell in notebook.cells:
        assert not cell.get("outputs"), "the notebook is committed without outputs"
    client = NotebookClient(
        notebook, timeout=300, kernel_name="python3", resources={"metadata": {"path": tmp_path}}
    )
    client.execute()
    outputs = [one for cell in notebook.cells for one in cell.get("outputs", [])]
    pictures = [one for one in outputs if "image/png" in one.get("data", {})]
    assert len(pictures) == 7
    assert not [one for one in outputs if one.output_type == "error"]
    said = "".join(one.get("text", "") for one in outputs if one.get("name") == "stderr")
    assert "Error" not in said
    assert "measure:" in said + str(outputs)  # the bar, as text or as a widget
    folder = os.environ.get("VINDEX_NOTEBOOK_OUTPUT")
    if folder:
        nbformat.write(notebook, Path(folder) / "notebook.ipynb")
