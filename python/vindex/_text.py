"""Text to read: names from files made printable, near misses of names, escaped HTML tables."""

from __future__ import annotations

import difflib
import html
from collections.abc import Iterable, Sequence


def printable(text: str) -> str:
    r"""`text` with control characters, and bytes that are no UTF-8, as \xNN: one line."""
    raw = text.encode("utf-8", "surrogateescape").decode("utf-8", "backslashreplace")
    return "".join(
        character if character.isprintable() else _escaped(character) for character in raw
    )


def _escaped(character: str) -> str:
    return "".join(f"\\x{byte:02x}" for byte in character.encode("utf-8", "surrogatepass"))


def nearest(name: str, names: Iterable[str]) -> str:
    """The name among `names` that is most like `name`, as a question; empty where none is."""
    close = difflib.get_close_matches(name, list(names), n=1, cutoff=0.6)
    return f"; did you mean {close[0]!r}?" if close else ""


def html_table(
    header: Sequence[object], rows: Iterable[Sequence[object]], caption: str = ""
) -> str:
    """A table for notebooks; every cell is escaped, because names from models are data."""

    def line(tag: str, cells: Sequence[object]) -> str:
        return (
            "<tr>"
            + "".join(f"<{tag}>{html.escape(printable(str(cell)))}</{tag}>" for cell in cells)
            + "</tr>"
        )

    body = "".join(line("td", cells) for cells in rows)
    title = f"<caption>{html.escape(printable(caption))}</caption>" if caption else ""
    head = f"<thead>{line('th', header)}</thead>" if header else ""
    return f'<table class="vindex">{title}{head}<tbody>{body}</tbody></table>'
