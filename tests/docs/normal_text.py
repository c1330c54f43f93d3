"""Owns the comparison of what was printed with what a page shows.

Nothing may differ but what the page's marker `varies` names: kinds of text (KINDS), lines counted from 1, regular expressions
between slashes, and `last digits`: decimal numbers within two units of the last digit shown. A line `...` stands for any lines."""

import difflib
import re

NUMBER = r"\d[\d,]*(?:\.\d+)?(?:e[+-]?\d+)?"
KINDS = {
    "seconds": re.compile(rf"(?<![\w.]){NUMBER} ?(?:ns|us|ms|s|min|h)\b(?!/)|\b\d+:\d\d(?::\d\d)?\b"),
    "rates": re.compile(rf"(?<![\w.]){NUMBER} ?(?:[kMGT]i?)?(?:B|FLOP|matrices|tokens|tensors)/s\b"),
    "sizes": re.compile(rf"(?<![\w.]){NUMBER} ?[kMGT]?i?B\b(?!/)"),
    "dates": re.compile(r"\b\d{4}-\d\d-\d\d(?:[T ]\d\d:\d\d(?::\d\d)?Z?)?"),
    "numbers": re.compile(rf"(?<![\w.]){NUMBER}"),
    "hashes": re.compile(r"\b[0-9a-f]{8,64}\b"),
}
DECIMAL = re.compile(r"(?<![\w.])[+-]?\d+\.\d+(?:e[+-]?\d+)?")
GAP = "..."


class Varies:
    """What a marker allows to differ."""

    def __init__(self, text=""):
        self.patterns, self.lines, self.last_digits = [], set(), False
        for part in filter(None, re.split(r",\s*(?![^/]*/(?:,|$))", text.strip())):
            if part in KINDS:
                self.patterns.append(KINDS[part])
            elif part == "last digits":
                self.last_digits = True
            elif re.fullmatch(r"lines? \d+|\d+", part):
                self.lines.add(int(part.split()[-1]))
            elif re.fullmatch(r"/.+/", part):
                self.patterns.append(re.compile(part[1:-1]))
            else:
                raise ValueError(f"varies: `{part}` is none of {', '.join([*KINDS, 'last digits', 'line N', '/expression/'])}")

    def plain(self, line):
        """The line with one space for any gap and a sign for what may differ; gaps stay where nothing may."""
        out = line.rstrip()
        for pattern in self.patterns:
            out = pattern.sub("<>", out)
        return re.sub(r" +", " ", out) if out != line.rstrip() else out

    def same(self, shown, printed, number):
        """Whether two lines are the same; `number` is the line's in the page."""
        if number in self.lines:
            return True
        shown, printed = self.plain(shown), self.plain(printed)
        if shown == printed or not self.last_digits:
            return shown == printed
        if DECIMAL.sub("<>", shown).split() != DECIMAL.sub("<>", printed).split():
            return False
        return all(close(*pair) for pair in zip(DECIMAL.findall(shown), DECIMAL.findall(printed)))


def close(one, other):
    """Whether two decimal numbers differ by two units of the last digit at most."""
    digits = len(one.split("e")[0].split(".")[1])
    power = int(one.split("e")[1]) if "e" in one else 0
    return abs(float(one) - float(other)) <= 2.01 * 10.0 ** (power - digits)


def matches(shown, printed, varies):
    """Whether the lines printed are those shown, the gaps left aside."""
    places = {0}  # how many of `printed` may have been used up
    for number, line in enumerate(shown, 1):
        if line.strip() == GAP:
            places = set(range(min(places), len(printed) + 1)) if places else places
        else:
            places = {at + 1 for at in places if at < len(printed) and varies.same(line, printed[at], number)}
    return len(printed) in places


def updated(shown, printed, varies):
    """What the page has to show: the lines printed, with gaps where it had gaps, and as it was where nothing else differs."""
    if matches(shown, printed, varies):
        return shown
    printed = [line.rstrip() for line in printed]
    if GAP not in (line.strip() for line in shown):
        return printed
    out, used = [], 0
    for line in shown:
        if line.strip() == GAP:
            continue
        skeleton = re.sub(r"[\d.+-]+", "0", line)
        ratios = [(difflib.SequenceMatcher(None, skeleton, re.sub(r"[\d.+-]+", "0", one)).ratio(), -at)
                  for at, one in enumerate(printed[used:], used)]
        if not ratios or max(ratios)[0] < 0.6:
            continue
        at = -max(ratios)[1]
        out += ([GAP] if at > used else []) + [printed[at]]
        used = at + 1
    return out + ([GAP] if used < len(printed) else [])


def difference(shown, printed):
    return "\n".join(difflib.unified_diff(shown, printed, "the page", "printed", lineterm="", n=2))
