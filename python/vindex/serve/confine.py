"""Identifiers of a client to paths: below one folder, regular files and folders, nothing else.

Two ways, because two readers follow. The program opens what it is given by path, so `resolve`
checks that a path and all that lies below it stay inside (symbolic links inside the folder are
fine: caches of the Hub are made of them). The server itself opens with `open_beneath`, which
follows no link at all and gives a descriptor, so nothing can change between check and use.
"""

from __future__ import annotations

import os
import stat
from pathlib import Path

MAX_ID_BYTES = 1024
MAX_ENTRIES = 100_000


class OutsideError(Exception):
    """An identifier that names nothing, or nothing that may be seen; the client is told neither."""


def parts_of(identifier: str) -> tuple[str, ...]:
    """Components of a relative name.

    Raises OutsideError for any that is absolute, empty, hidden, climbs, or holds control characters
    or backslashes.
    """
    try:
        raw = identifier.encode("utf-8")
    except UnicodeEncodeError:
        raise OutsideError("no text") from None
    parts = tuple(identifier.split("/"))
    if not 0 < len(raw) <= MAX_ID_BYTES:
        raise OutsideError("empty or too long")
    if any(byte < 32 or byte == 127 or byte == 92 for byte in raw):
        raise OutsideError("a control character or a backslash")
    if any(not part or part.startswith(".") for part in parts):
        raise OutsideError("an empty, hidden or climbing part")
    return parts


def _beneath(path: Path, root: Path) -> bool:
    """Whether a path, links followed, lies below `root` and is a regular file or a folder."""
    try:
        real = path.resolve(strict=True)
        mode = real.stat().st_mode
    except (OSError, RuntimeError):
        return False
    inside = root == real or root in real.parents
    return inside and (stat.S_ISREG(mode) or stat.S_ISDIR(mode))


def _check_tree(folder: Path, root: Path) -> None:
    """Refuse (OutsideError) a folder of which anything leads out or is no file.

    Links to folders are judged by their target and not entered: a loop of them ends nowhere.
    """
    pending, seen = [folder], 0
    while pending:
        with os.scandir(pending.pop()) as entries:
            for entry in entries:
                seen += 1
                if seen > MAX_ENTRIES:
                    raise OutsideError("too many files")
                if entry.is_symlink():
                    if not _beneath(Path(entry.path), root):
                        raise OutsideError("a link that leads out")
                elif entry.is_dir(follow_symlinks=False):
                    pending.append(Path(entry.path))
                elif not entry.is_file(follow_symlinks=False):
                    raise OutsideError("neither a file nor a folder")


def resolve(root: Path, identifier: str) -> Path:
    """The path of an identifier below `root` (itself without links), for the program to open.

    Returns the name as asked, not where links lead, so that what is written about it stays
    relative. Raises OutsideError.
    """
    path = root.joinpath(*parts_of(identifier))
    try:
        if not _beneath(path, root):
            raise OutsideError("missing or outside")
        if path.is_dir():
            _check_tree(path, root)
    except OSError:
        raise OutsideError("unreadable") from None
    return path


def open_beneath(root: Path, identifier: str) -> int:
    """A descriptor for reading a regular file below `root`; no component may be a link.

    The caller closes it. Raises OutsideError.
    """
    parts = parts_of(identifier)
    try:
        at = os.open(root, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    except OSError:
        raise OutsideError("no folder") from None
    try:
        for part in parts[:-1]:
            flags = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
            deeper = os.open(part, flags, dir_fd=at)
            os.close(at)
            at = deeper
        # Without O_NONBLOCK, opening a named pipe would wait for its writer.
        flags = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
        found = os.open(parts[-1], flags, dir_fd=at)
    except OSError:
        raise OutsideError("missing or a link") from None
    finally:
        os.close(at)
    if not stat.S_ISREG(os.fstat(found).st_mode):
        os.close(found)
        raise OutsideError("no regular file")
    return found
