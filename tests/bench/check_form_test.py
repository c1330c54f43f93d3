"""The check of the form vindex-bench/1 accepts what follows it and names every departure."""
import copy
import os
import sys
import unittest

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "bench", "records"))
import check_form  # noqa: E402

ROW = {"name": "spectra.default", "route": "two-stage", "backend": "cuda", "rows": 7168, "cols": 2048, "batch": 384,
       "encoding": "F8_E4M3/128x128", "unit": "ms_per_matrix", "samples": [0.7, 1], "limit": None, "peer": None}
DOCUMENT = {"schema": "vindex-bench/1", "commit": "abc", "date": "2026-11-21T10:00:00Z",
            "host": {"cpu": "c", "cores": 2, "memory_gib": 23.5, "blas": "b"},
            "gpu": {"name": "g", "driver": "d", "cuda": "13.0"}, "command": "vindex bench", "rows": [ROW]}


def changed(path, value):
    """A copy of DOCUMENT with the member at `path` replaced, or removed for None as path's marker."""
    document = copy.deepcopy(DOCUMENT)
    place = document
    for key in path[:-1]:
        place = place[key]
    if value is DELETED:
        del place[path[-1]]
    else:
        place[path[-1]] = value
    return document


DELETED = object()


class CheckFormTest(unittest.TestCase):
    def test_what_follows_the_form_passes(self):
        for document in (DOCUMENT, changed(["gpu"], None), changed(["rows", 0, "limit"], 0.27),
                         changed(["rows", 0, "peer"], "torch.svdvals.gesvd"), changed(["rows"], []),
                         changed(["host", "memory_gib"], None), changed(["rows", 0, "spectrum"], "trained"),
                         changed(["rows", 0], {**ROW, "samples": [], "note": "not installed"})):
            self.assertEqual(check_form.problems(document), [])

    def test_departures_are_named(self):
        for path, value in ((["schema"], "vindex-bench/2"), (["commit"], DELETED), (["date"], "yesterday"),
                            (["host"], []), (["host", "cores"], "2"), (["host", "blas"], DELETED), (["gpu"], DELETED),
                            (["gpu", "driver"], DELETED), (["extra"], 1), (["rows"], {}), (["rows", 0], 3),
                            (["rows", 0, "name"], "spectra.sloppy"), (["rows", 0, "unit"], "ms"),
                            (["rows", 0, "samples"], [1, "2"]), (["rows", 0, "samples"], [float("nan")]),
                            (["rows", 0, "samples"], []), (["rows", 0, "batch"], -1), (["rows", 0, "limit"], DELETED),
                            (["rows", 0, "limit"], "fast"), (["rows", 0, "peer"], ""), (["rows", 0, "mean"], 1.0),
                            (["rows", 0, "note"], ""), (["rows", 0, "spectrum"], ""), (["rows", 0, "spectrum"], None),
                            (["rows", 0, "rows"], True)):
            self.assertNotEqual(check_form.problems(changed(path, value)), [], path)


if __name__ == "__main__":
    unittest.main()
