"""What a person sees of `vindex measure` in a terminal, during and after a run: captures of tmux at 80 and 120 columns.

Usage: terminal_captures.py VINDEX FOLDER. Exit 77 where there is no tmux.
"""
import concurrent.futures
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time

from test_script import call, fresh_folder

VINDEX, FOLDER = sys.argv[1], sys.argv[2]
ROWS = 40
PROGRESS = re.compile(r"^\d+/\d+( matrices)?  ")
# Generous: a loaded machine is slow. Nothing below waits longer than what it waits for.
PATIENCE_SECONDS = 120.0


class Terminal:
    """A tmux server of its own with one window that runs `command` and then says its exit code. The screen is full before,
    as it is where somebody works: rows below the cursor would push what is above into the history at every change."""

    def __init__(self, command, columns):
        # Names of sockets are short.
        self.folder = tempfile.mkdtemp(prefix="vindex-tmux-")
        self.socket = os.path.join(self.folder, "socket")
        environment = {name: value for name, value in os.environ.items() if name not in ("TMUX", "COLUMNS", "LINES")}
        environment["LC_ALL"] = "C.UTF-8"
        subprocess.run(["tmux", "-S", self.socket, "-f", "/dev/null", "-u", "new-session", "-d", "-s", "t", "-x", str(columns),
                        "-y", str(ROWS), f"seq {2 * ROWS}; {command}; echo \"exit $?\"; exec sleep 600"], check=True, env=environment)

    def tmux(self, *arguments):
        return subprocess.run(["tmux", "-S", self.socket, *arguments], check=True, capture_output=True, text=True).stdout

    def rows(self):
        """Every row on the screen and above it that is not empty."""
        return [row for row in self.tmux("capture-pane", "-p", "-S", "-", "-t", "t").split("\n") if row.strip()]

    def resize(self, columns):
        self.tmux("resize-window", "-t", "t", "-x", str(columns), "-y", str(ROWS))

    def interrupt(self):
        self.tmux("send-keys", "-t", "t", "C-c")

    def wait(self, what, condition):
        """The rows once they fulfil `condition`."""
        end = time.monotonic() + PATIENCE_SECONDS
        while time.monotonic() < end:
            rows = self.rows()
            if condition(rows):
                return rows
            if any(row.startswith("exit ") for row in rows):
                break
            time.sleep(0.05)
        raise AssertionError(f"never seen: {what}\n" + "\n".join(self.rows()))

    def __enter__(self):
        return self

    def __exit__(self, *_):
        subprocess.run(["tmux", "-S", self.socket, "kill-server"], check=False, capture_output=True)
        shutil.rmtree(self.folder, ignore_errors=True)


def check(condition, rows, what):
    if not condition:
        raise AssertionError(what + ":\n" + "\n".join(rows))


def progress_rows(rows):
    return [row for row in rows if PROGRESS.match(row)]


def letters(rows):
    """What rows say, however they are broken."""
    return "".join(rows).replace(" ", "")


def settled(terminal, columns, above, what):
    """The progress line at this width: one, last, short enough, and nothing of earlier ones above it. It may take a frame
    until the program has seen the new width; after that every frame must be right."""
    def is_right(rows):
        return (len(progress_rows(rows)) == 1 and PROGRESS.match(rows[-1]) and len(rows[-1]) < columns
                and letters(rows[:-1]) == above)
    rows = terminal.wait(f"one progress line of {columns} columns, {what}", is_right)
    for _ in range(2):
        shown = rows[-1]
        rows = terminal.wait("the next frame", lambda now, shown=shown: not now or now[-1] != shown or "ETA" not in shown)
        check(is_right(rows), rows, f"a frame at {columns} columns, {what}")
    return rows


def during(columns):
    results = os.path.join(FOLDER, f"during-{columns}.h5")
    command = f"'{VINDEX}' measure '{FOLDER}/slow' -o '{results}' --backend cpu --threads 1 --mode strict"
    with Terminal(command, columns) as terminal:
        # With a name in it: longer than any terminal here unless it is fitted.
        rows = terminal.wait("a live line", lambda now: len(progress_rows(now)) > 0 and "ETA ?" not in now[-1])
        above = letters(rows[:rows.index(progress_rows(rows)[0])])
        settled(terminal, columns, above, "at first")
        for narrower in (50, 30, columns):
            terminal.resize(narrower)
            settled(terminal, narrower, above, f"after a change from {columns}")
        terminal.interrupt()
        rows = terminal.wait("the end", lambda now: any(row.startswith("exit ") for row in now))
        check("exit 75" in rows, rows, "stopped early")
        check(len(progress_rows(rows)) == 1, rows, "one progress line stays")
        check(any(row.startswith("vindex: E-STOPPED: stopped early by SIGINT: ") for row in rows), rows, "what the run says below it")


def columns_of(table):
    """How many columns of text have nothing but spaces between them in every row."""
    width = max(len(row) for row in table)
    blank = [all(len(row) <= i or row[i] == " " for row in table) for i in range(width)]
    return sum(1 for i in range(width) if not blank[i] and (i == 0 or blank[i - 1]))


def after(columns):
    results = os.path.join(FOLDER, f"after-{columns}.h5")
    with Terminal(f"'{VINDEX}' measure '{FOLDER}/mini' -o '{results}' --backend cpu", columns) as terminal:
        rows = terminal.wait("the end", lambda now: any(row.startswith("exit ") for row in now))
    check("exit 0" in rows, rows, "a run that ends well")
    check(len(progress_rows(rows)) == 1, rows, "one progress line stays")
    shown = progress_rows(rows)[0]
    check(len(shown) < columns and "100%" in shown, rows, "the last progress line")
    heading = next((i for i, row in enumerate(rows) if row.split()[:2] == ["layer", "block"]), None)
    check(heading is not None, rows, "a table")
    table = [rows[heading]]
    for row in rows[heading + 1:]:
        if not re.match(r"\s+(-|\d+) +[a-z]", row):
            break
        table.append(row)
    check(len(table) > 5, rows, "rows of the table")
    check(max(len(row) for row in table) <= columns, rows, "no row is wider than the terminal")
    named = rows[heading].split()
    check({"noise", "diff", "ratio"} <= set(named), rows, "the null, the difference and the ratio")
    check(columns_of(table) >= len(named), rows, f"{len(named)} columns that align")


def main():
    if shutil.which("tmux") is None:
        print("skipped: no tmux (scripts/setup.sh --tests installs it)")
        return 77
    fresh_folder(FOLDER)
    # Interrupted long before its end, however slow the terminal is.
    call(VINDEX, "-q", "synth", "layer:32x1536x1536:bf16", "-o", f"{FOLDER}/slow")
    call(VINDEX, "-q", "synth", "kimi-k2-mini", "-o", f"{FOLDER}/mini")
    # At once: they wait for frames.
    with concurrent.futures.ThreadPoolExecutor() as pool:
        for capture in [pool.submit(look, columns) for look in (during, after) for columns in (80, 120)]:
            capture.result()
    shutil.rmtree(FOLDER, ignore_errors=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
