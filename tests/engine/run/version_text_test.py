"""host/engine/version_text.cmake: the program names the commit that it was built from, whatever happened since CMake
configured, and nothing is built again where the text is the same. A small project stands for ours.

    version_text_test.py CMAKE SOURCE_FOLDER
"""
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile
import unittest

CMAKE, SOURCE = sys.argv.pop(1), pathlib.Path(sys.argv.pop(1)).resolve()
LAYER = SOURCE / "host" / "engine"

LISTS = """cmake_minimum_required(VERSION 3.25)
project(small VERSION 1.2.3 LANGUAGES CXX)
include(version_text.cmake)
add_library(version STATIC ${CMAKE_CURRENT_BINARY_DIR}/version.cpp)
vindex_version_text(version ${CMAKE_CURRENT_SOURCE_DIR}/version.cpp.in ${CMAKE_CURRENT_BINARY_DIR}/version.cpp)
target_include_directories(version PRIVATE ${CMAKE_CURRENT_SOURCE_DIR})
add_executable(say say.cpp)
target_link_libraries(say PRIVATE version)
target_include_directories(say PRIVATE ${CMAKE_CURRENT_SOURCE_DIR})
"""
SAY = """#include "engine/run/version.hpp"
#include <cstdio>
int main() {
  std::printf("%s %s", vindex::engine::program_version().c_str(), vindex::engine::program_commit().c_str());
}
"""
# Nobody's settings and no repository above decide anything.
ENVIRONMENT = {**{name: value for name, value in os.environ.items() if not name.startswith("GIT_")},
               "GIT_CONFIG_GLOBAL": os.devnull, "GIT_CONFIG_SYSTEM": os.devnull, "GIT_AUTHOR_NAME": "a", "GIT_AUTHOR_EMAIL": "a@b",
               "GIT_COMMITTER_NAME": "a", "GIT_COMMITTER_EMAIL": "a@b"}


def run(*command, **options):
    done = subprocess.run([str(word) for word in command], env=ENVIRONMENT, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                          text=True, check=False, **options)
    if done.returncode != 0:
        raise RuntimeError(f"{command}: {done.stdout}")
    return done.stdout


class VersionText(unittest.TestCase):
    def setUp(self):
        self.folder = pathlib.Path(tempfile.mkdtemp()).resolve()
        self.addCleanup(shutil.rmtree, self.folder)
        self.source, self.build = self.folder / "source", self.folder / "build"
        self.write(self.source)

    def write(self, source):
        (source / "engine" / "run").mkdir(parents=True)
        (source / "CMakeLists.txt").write_text(LISTS)
        (source / "say.cpp").write_text(SAY)
        for name in ("version_text.cmake", "version.cpp.in"):
            shutil.copy(LAYER / name, source)
        shutil.copy(LAYER / "run" / "version.hpp", source / "engine" / "run")

    def git(self, *words, folder=None):
        return run("git", "-C", folder or self.source, *words).strip()

    def commit(self, folder=None):
        folder = folder or self.source
        if not (folder / ".git").exists():
            self.git("init", "-q", folder=folder)
        self.git("add", "-A", folder=folder)
        self.git("commit", "-q", "--allow-empty", "-m", "a change", folder=folder)
        return self.git("describe", "--always", folder=folder)

    def said(self, *configure, source=None, build=None):
        """What the program says after a build, which configures the folder only once."""
        build = build or self.build
        if not build.exists():
            run(CMAKE, "-S", source or self.source, "-B", build, *(["-G", "Ninja"] if shutil.which("ninja") else []), *configure)
        run(CMAKE, "--build", build)
        return run(build / "say")

    def test_the_commit_is_that_of_the_build_not_of_the_configuration(self):
        first = self.commit()
        self.assertEqual(self.said(), "1.2.3 " + first)
        with open(self.source / "say.cpp", "a", encoding="utf-8") as file:
            file.write("// changed\n")
        self.assertEqual(self.said(), f"1.2.3 {first}-dirty")
        second = self.commit()
        self.assertNotEqual(first, second)
        self.assertEqual(self.said(), "1.2.3 " + second)

    def test_nothing_is_built_again_where_the_text_is_the_same(self):
        self.commit()
        self.said()
        built = [self.build / "say", self.build / "libversion.a", self.build / "version.cpp"]
        before = [path.stat().st_mtime_ns for path in built]
        (self.source / "not-tracked").write_text("no change of the sources")
        os.utime(self.source / "engine" / "run" / "version.hpp", ns=(0, 0))  # another time, the same bytes: not a change
        self.said()
        self.assertEqual([path.stat().st_mtime_ns for path in built], before)

    def test_the_lock_of_the_index_is_left_to_others(self):
        commit = self.commit()
        (self.source / ".git" / "index.lock").write_text("")
        os.utime(self.source / "say.cpp", ns=(0, 0))
        self.assertEqual(self.said(), "1.2.3 " + commit)
        self.assertTrue((self.source / ".git" / "index.lock").exists())

    def test_a_second_working_tree_has_its_own(self):
        self.commit()
        other = self.folder / "other"
        self.git("worktree", "add", "-q", "-b", "other", other)
        (other / "more").write_text("more")
        commit = self.commit(other)
        self.assertEqual(self.said(source=other), "1.2.3 " + commit)

    def test_an_archive_is_of_no_commit_even_in_a_repository(self):
        self.assertEqual(self.said(), "1.2.3 unknown")
        (self.folder / "unrelated").write_text("somebody's")
        self.commit(self.folder)
        self.assertEqual(self.said(), "1.2.3 unknown")

    def test_without_git(self):
        self.commit()
        self.assertEqual(self.said("-D", "GIT_EXECUTABLE=/nowhere/git"), "1.2.3 unknown")
        self.assertEqual(self.said("-D", "GIT_EXECUTABLE=", "-D", "CMAKE_DISABLE_FIND_PACKAGE_Git=ON", build=self.folder / "second"),
                         "1.2.3 unknown")


if __name__ == "__main__":
    unittest.main()
