"""Progress of a run as a bar: tqdm's, which draws itself in terminals and notebooks."""

from __future__ import annotations

from typing import Any

from tqdm.auto import tqdm


class Bar:
    """A bar that the program's progress events move; to be closed."""

    def __init__(self, title: str) -> None:
        self._title = title
        self._bar: Any = None

    def __call__(self, event: dict[str, Any]) -> None:
        if event.get("event") != "progress":
            return
        if self._bar is None:
            self._bar = tqdm(
                total=event["total"],
                initial=event.get("done_before", 0),
                unit="row",
                desc=self._title,
                dynamic_ncols=True,
            )
        self._bar.set_postfix(
            {"failed": event["failed"]} if event.get("failed") else {}, refresh=False
        )
        self._bar.update(event["done"] - self._bar.n)

    def close(self) -> None:
        if self._bar is not None:
            self._bar.close()
