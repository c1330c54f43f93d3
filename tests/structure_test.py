#!/usr/bin/env python3
"""Holds the tree to the rules of scripts/structure.py, and plants what breaks each of them: structure_test.py SOURCE_DIR"""

import importlib.util
import pathlib
import subprocess
import sys
import tempfile
import unittest

SOURCE = pathlib.Path(sys.argv[1])
spec = importlib.util.spec_from_file_location("structure", SOURCE / "scripts" / "structure.py")
structure = importlib.util.module_from_spec(spec)
spec.loader.exec_module(structure)


class Planted(unittest.TestCase):
    def setUp(self):
        held = tempfile.TemporaryDirectory()
        self.addCleanup(held.cleanup)
        self.root = pathlib.Path(held.name)
        subprocess.run(["git", "init", "-q", self.root], check=True)

    def write(self, name, *includes):
        path = self.root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("".join(f'#include "{include}"\n' for include in includes), encoding="utf-8")

    def broken(self):
        return structure.broken_rules(str(self.root))

    def test_a_room_of_26_files_is_found(self):
        for number in range(26):
            self.write(f"host/core/file{number}.hpp")
        self.assertEqual(self.broken(), ["room of 26 files: host/core"])

    def test_data_is_no_room(self):
        for number in range(26):
            self.write(f"tests/data/blocks/{number}.bin")
        self.assertEqual(self.broken(), [])

    def test_a_circle_of_four_is_found_and_one_of_three_is_not(self):
        for here, there in (("a", "b"), ("b", "c"), ("c", "a")):
            self.write(f"host/core/{here}.hpp", f"{there}.hpp")
        self.assertEqual(self.broken(), [])
        self.write("host/core/c.hpp", "core/d.hpp")
        self.write("host/core/d.cpp", "a.hpp")
        self.write("host/core/d.hpp")
        self.assertEqual(self.broken(), ["circle of 4: host/core/a host/core/b host/core/c host/core/d"])

    def test_folders_that_include_each_other_are_found(self):
        self.write("host/core/text/a.hpp", "core/files/b.hpp")
        self.write("host/core/files/b.hpp")
        self.write("host/core/files/c.hpp", "core/text/d.hpp")
        self.write("host/core/text/d.hpp")
        self.assertEqual(self.broken(), ["folders that include each other: host/core/files host/core/text"])


class Tree(unittest.TestCase):
    def test_every_rule_holds(self):
        self.assertEqual(structure.broken_rules(str(SOURCE)), [])


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
