"""The error and the warning of this package.

Both carry what the program says: its exit code (sysexits), its stable identifier
("E-RESULTS-MISSING") and one line of text.
"""

from __future__ import annotations


class Error(Exception):
    """What went wrong, in the program's own terms.

    Attributes:
        code: exit code of the program: 64 usage, 65 malformed input, 66 missing input, 69 remote
            unavailable, 70 internal or device failure, 73 cannot create output, 74 input or output
            error, 75 stopped early (run the same call again), 77 no permission, 78 configuration.
        id: stable identifier for scripts, "E-..."; empty where the program gave none.
        text: what happened, where, and what to do.
    """

    def __init__(self, code: int, id: str, text: str) -> None:
        super().__init__(code, id, text)
        self.code = code
        self.id = id
        self.text = text

    def __str__(self) -> str:
        return f"{self.id}: {self.text}" if self.id else self.text


class VindexWarning(UserWarning):
    """A warning of the program; `id` is its stable identifier, "W-..."."""

    def __init__(self, id: str, text: str) -> None:
        super().__init__(id, text)
        self.id = id
        self.text = text

    def __str__(self) -> str:
        return f"{self.id}: {self.text}" if self.id else self.text
