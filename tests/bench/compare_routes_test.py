"""scripts/gpu/compare_routes.py: it believes no file that breaks what its mode, or the file itself, promises. Usage: compare_routes_test.py
SOURCE_FOLDER."""
import os
import pathlib
import subprocess
import sys
import tempfile
import unittest

import h5py
import numpy

SCRIPT = pathlib.Path(sys.argv.pop(1)) / "scripts" / "gpu" / "compare_routes.py"
EXACT = numpy.linspace(3.0, 1.0, 100)


class CompareRoutes(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = folder.name
        self.reference = self.write("reference", EXACT, 1e-13)

    def write(self, name, sigma, stated, number=0):
        path = os.path.join(self.folder, name + ".h5")
        with h5py.File(path, "w") as file:
            file["matrix/sigma_error"] = [stated] * (number + 1)
            file["spectra/p/matrix"] = [number]
            file["spectra/p/sigma"] = [sigma]
        return path

    def compared(self, *files):
        done = subprocess.run([sys.executable, SCRIPT, self.reference, *files], stdout=subprocess.PIPE, text=True, check=False)
        return done.returncode, done.stdout

    def test_a_file_within_its_own_error_and_its_promise_passes(self):
        file = self.write("good", EXACT + 1e-7, 4e-7)
        code, said = self.compared("default:" + file)
        self.assertEqual((code, "BROKEN" in said), (0, False), said)
        self.assertIn("0.25", said.splitlines()[1], "of stated")

    def test_an_error_above_what_the_row_states_is_broken_whatever_the_mode_allows(self):
        code, said = self.compared("fast:" + self.write("bold", EXACT[:64] + 1e-7, 5e-8))
        self.assertEqual((code, "BROKEN" in said), (1, True), said)

    def test_a_promise_of_the_mode_is_held_against_it(self):
        honest = self.write("honest", EXACT + 1e-7, 1e-6)
        self.assertEqual(self.compared("default:" + honest)[0], 0)
        code, said = self.compared("default:" + honest, "strict:" + honest)
        self.assertEqual((code, said.count("BROKEN")), (1, 1), said)

    def test_nothing_compared_is_no_success(self):
        self.assertEqual(self.compared()[0], 1)
        code, said = self.compared("default:" + os.path.join(self.folder, "missing.h5"))
        self.assertEqual((code, "not compared" in said), (1, True), said)
        self.assertEqual(self.compared("default:" + self.write("other", EXACT, 1e-7, number=1))[0], 1)


if __name__ == "__main__":
    unittest.main()
