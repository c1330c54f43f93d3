"""Merging documents of the form vindex-bench/1, and the table of bench/peers/peers.py."""
import copy
import io
import json
import os
import sys
import tempfile
import unittest
from contextlib import redirect_stderr

BENCH = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "bench")
sys.path[:0] = [os.path.join(BENCH, "records"), os.path.join(BENCH, "peers")]
import check_form  # noqa: E402
import merge_results  # noqa: E402
import peers  # noqa: E402
from check_form_test import DOCUMENT, ROW  # noqa: E402


class MergeResultsTest(unittest.TestCase):
    def test_rows_are_joined_and_the_form_is_kept(self):
        other = copy.deepcopy(DOCUMENT)
        other["gpu"], other["command"] = None, "gpu_probe"
        other["rows"] = [{**ROW, "name": "probe.h2d", "unit": "gb_per_s"}]
        result = merge_results.merged([other, DOCUMENT])
        self.assertEqual(check_form.problems(result), [])
        self.assertEqual([row["name"] for row in result["rows"]], ["probe.h2d", "spectra.default"])
        self.assertEqual(result["gpu"], DOCUMENT["gpu"])
        self.assertEqual(result["command"], "gpu_probe; vindex bench")

    def test_other_machines_and_commits_are_refused(self):
        for key, value in (("commit", "def"), ("host", {**DOCUMENT["host"], "cpu": "other"})):
            with self.assertRaises(ValueError):
                merge_results.merged([DOCUMENT, {**DOCUMENT, key: value}])

    def test_files_that_are_not_whole_are_left_out_by_name(self):
        with tempfile.TemporaryDirectory() as folder:
            paths = [os.path.join(folder, name) for name in ("whole.json", "cut.json", "absent.json")]
            text = json.dumps(DOCUMENT)
            for path, content in zip(paths, (text, text[:50])):
                with open(path, "w", encoding="utf-8") as file:
                    file.write(content)
            said = io.StringIO()
            with redirect_stderr(said):
                self.assertEqual(merge_results.load(paths), [DOCUMENT])
            self.assertIn("cut.json is left out", said.getvalue())
            self.assertIn("absent.json is left out", said.getvalue())

    def test_tables_show_medians_and_notes(self):
        document = {**DOCUMENT, "rows": [{**ROW, "samples": [1.0, 9.0, 2.5]}, {**ROW, "samples": [], "note": "no memory"}]}
        text = merge_results.table([document])
        self.assertIn(" 2.5 ", text)
        self.assertIn(" trained ", merge_results.table([{**document, "rows": [{**ROW, "spectrum": "trained"}]}]))
        self.assertIn("no memory", text)

    def test_peers_stand_beside_ours(self):
        rows = [{**ROW, "samples": [1.0, 3.0, 2.0]}, {**ROW, "peer": "torch.svdvals", "samples": [20.0]},
                {**ROW, "spectrum": "trained", "samples": [4.0]},
                {**ROW, "spectrum": "trained", "peer": "torch.svdvals", "samples": [20.0]},
                {**ROW, "peer": "cupy.svd", "samples": [], "note": "not installed"},
                {**ROW, "name": "probe.error.var_64", "route": "spectra.default", "peer": "torch.svdvals", "unit": "share",
                 "samples": [1e-7, 3e-7]}]
        lines = peers.table(rows).splitlines()
        self.assertRegex(lines[1], r"vindex .* 2\.000 .* 1\.0")
        self.assertRegex(lines[2], r"torch\.svdvals .* 20\.000 .* 10\.0 .*3\.0e-07")
        self.assertRegex(lines[3], r"trained .* 4\.000 .* 1\.0")
        self.assertRegex(lines[4], r"trained .* torch\.svdvals .* 20\.000 .* 5\.0 ")
        self.assertNotIn("3.0e-07", lines[4])  # errors are of one spectrum
        self.assertRegex(lines[5], r"cupy\.svd .* not installed")


if __name__ == "__main__":
    unittest.main()
