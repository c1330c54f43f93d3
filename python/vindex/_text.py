"""Text to read: names from files made printable, near misses of names, escaped HTML tables."""

from __future__ import annotations

import difflib
import html
import re
from collections.abc import Iterable, Sequence

_ADDRESS = re.compile(r"([A-Za-z0-9+.-]+)://([^\x00-\x20\x7f\"<>`\\]*)")


def _shown_address(found: re.Match[str]) -> str:
    scheme, rest = found.groups()
    whole = rest
    rest = rest.rstrip(".,;:!)]'")
    behind = whole[len(rest) :]
    host = re.split(r"[/?#]", rest, maxsplit=1)[0]
    port = host.partition(":")[2]
    if "@" in host:
        rest = rest[host.rindex("@") + 1 :]
    elif not host.startswith("[") and port.strip("0123456789"):
        # A password with a slash ends behind it; one whose end is not in sight hides the rest.
        rest = rest[rest.rindex("@") + 1 :] if "@" in rest else "..."
    if scheme.lower() in ("http", "https"):
        rest = re.split(r"[?#]", rest, maxsplit=1)[0]
    elif "=" in rest.partition("?")[2]:
        rest = rest.partition("?")[0]
    return f"{scheme}://{rest}{behind}"


def without_secrets(text: str) -> str:
    """`text` whose addresses have no user, password or query, as the program shows them.

    The rules are those of host/core/text/secrets.hpp.
    """
    return _ADDRESS.sub(_shown_address, text) if "://" in text else text


def printable(text: str) -> str:
    r"""`text` with control characters, and bytes that are no UTF-8, as \xNN: one line.

    Its addresses are without secrets.
    """
    text = without_secrets(text)
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
