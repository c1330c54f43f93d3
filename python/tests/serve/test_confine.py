"""Identifiers stay inside their folder, whatever lies there."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from vindex.serve.confine import OutsideError, open_beneath, parts_of, resolve

CLIMBING = ["", ".", "..", "../x", "a/../b", "/etc/passwd", "a//b", "a/", ".hidden", "a/.b", "a\\b",
            "a\x00b", "a\nb", "x" * 1025, "\ud800", "a/./b", "//a", "-/../.."]  # fmt: skip


@pytest.fixture
def root(tmp_path: Path) -> Path:
    folder = tmp_path / "root"
    (folder / "model" / "deep").mkdir(parents=True)
    (folder / "model" / "deep" / "file").write_text("in")
    (tmp_path / "secret").write_text("out")
    return folder


@pytest.mark.parametrize("identifier", CLIMBING)
def test_names_that_climb_are_refused(root: Path, identifier: str) -> None:
    for function in (resolve, open_beneath):
        with pytest.raises(OutsideError):
            function(root, identifier)
    with pytest.raises(OutsideError):
        parts_of(identifier)


def test_names_inside_are_found(root: Path) -> None:
    assert resolve(root, "model") == root / "model"
    assert resolve(root, "model/deep/file") == root / "model/deep/file"
    descriptor = open_beneath(root, "model/deep/file")
    assert os.read(descriptor, 10) == b"in"
    os.close(descriptor)


@pytest.mark.parametrize("target", ["../../secret", "/etc", "/etc/passwd", "nowhere", "loop"])
def test_links_that_lead_out_are_refused(root: Path, target: str) -> None:
    (root / "model" / "loop").symlink_to(target)
    for name in ("model", "model/loop"):
        with pytest.raises(OutsideError):
            resolve(root, name)
    with pytest.raises(OutsideError):
        open_beneath(root, "model/loop")


def test_a_folder_that_is_a_link_out_is_refused(root: Path, tmp_path: Path) -> None:
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "elsewhere" / "file").write_text("out")
    (root / "link").symlink_to(tmp_path / "elsewhere")
    for name in ("link", "link/file"):
        with pytest.raises(OutsideError):
            resolve(root, name)
        with pytest.raises(OutsideError):
            open_beneath(root, name)


def test_links_inside_are_followed_for_the_program_alone(root: Path) -> None:
    """Caches of the Hub are links from snapshots to blobs."""
    (root / "model" / "weights").symlink_to("deep/file")
    (root / "alias").symlink_to("model")
    assert resolve(root, "model/weights") == root / "model/weights"
    assert resolve(root, "alias") == root / "alias"
    for name in ("model/weights", "alias/deep/file"):
        with pytest.raises(OutsideError):
            open_beneath(root, name)


def test_pipes_and_folders_are_no_files(root: Path) -> None:
    with pytest.raises(OutsideError):
        open_beneath(root, "model/deep")
    os.mkfifo(root / "model" / "pipe")
    for name in ("model", "model/pipe"):
        with pytest.raises(OutsideError):
            resolve(root, name)
    with pytest.raises(OutsideError):
        open_beneath(root, "model/pipe")
