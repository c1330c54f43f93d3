"""scripts/gpu_check.sh on machines that are made up: without a GPU, with one whose kernels fail, hang or end their process,
and stopped in the middle. What it must keep in every case: a summary and the archive of all output, and no process behind.

    gpu_check_test.py SOURCE_FOLDER
"""
import glob
import json
import os
import pathlib
import re
import shutil
import signal
import subprocess
import sys
import tarfile
import tempfile
import time
import unittest

import h5py

SOURCE = pathlib.Path(sys.argv.pop(1)).resolve()

# The program: measures by copying what the test prepared for the route, or ends as it says.
VINDEX = """#!/usr/bin/env bash
case "$1" in
  --version) echo "vindex made up" ;;
  synth) while [[ "$1" != -o ]]; do shift; done; mkdir -p "$2" ;;
  measure)
    [[ "${FAKE_GPU:-yes}" == yes ]] || { echo "vindex: E-NO-GPU: no device" >&2; exit 70; }
    out= route= mode=
    while (($#)); do case "$1" in -o) out="$2" ;; --svd-route) route="$2" ;; --mode) mode="$2" ;; esac; shift; done
    [[ ! "$route" =~ ${FAKE_TRAP:-nothing} ]] || { echo "vindex: E-SELF-TEST: a kernel broke the device" >&2; exit 70; }
    if [[ "$route" == "${FAKE_TRIAL:-nothing}" ]]; then cp "$FAKE_FOLDER/trial.h5" "$out"; else cp "$FAKE_FOLDER/sound.h5" "$out"; fi ;;
esac
"""
PROBE = """#!/usr/bin/env bash
[[ "$1" == --hold ]] && { echo $$ >"$FAKE_FOLDER/hold.pid"; exec sleep "$2"; }
printf '%s' "$LD_LIBRARY_PATH" >"$FAKE_FOLDER/library-path"
[[ "${FAKE_GPU:-yes}" == yes ]] || { echo "gpu_probe: no GPU was reached: no driver" >&2; exit 70; }
echo "rows"
"""
# As GoogleTest prints.
TESTS = """#!/usr/bin/env bash
filter="${1#--gtest_filter=}"
echo "$filter ${VINDEX_TEST_VARIANTS:-} ${VINDEX_AWAIT_LAUNCHES:-} ${CUDA_LAUNCH_BLOCKING:-} \
${CUDA_ENABLE_COREDUMP_ON_EXCEPTION:-}" >>"$FAKE_FOLDER/tests.log"
case "$filter" in
  *BandChase*)
    echo "[ RUN      ] Orders/BandChase.ABatch/0"
    echo 'C++ exception "E-CUDA: CUDA: unspecified launch failure in chase_kernel<float>" "quoted" \\ and more'
    [[ -z "${CUDA_ENABLE_COREDUMP_ON_EXCEPTION:-}" ]] || echo core >"${CUDA_COREDUMP_FILE//%p/7}"
    echo "[  FAILED  ] Orders/BandChase.ABatch/0, where GetParam() = 0 (3 ms)"
    echo "[  PASSED  ] 2 tests."; exit 1 ;;
  *BandTail*) echo "[ RUN      ] Orders/BandTail.Solves/0"; kill -SEGV $$ ;;
  *Cholesky*)
    echo "[ RUN      ] Orders/Cholesky.Factors/0"
    [[ -z "${FAKE_HANG:-}" ]] || { echo $$ >"$FAKE_FOLDER/hang.pid"; exec sleep 1000; }
    echo "[  PASSED  ] 1 test." ;;
  *DecodeKernels*) echo "[  SKIPPED ] 3 tests." ;;
  *) echo "[  PASSED  ] 1 test." ;;
esac
"""
SANITIZER = """#!/usr/bin/env bash
while [[ "$1" != */programs/* ]]; do shift; done
echo "========= Invalid __global__ write of size 8"
exec "$@"
"""
SMI = """#!/usr/bin/env bash
[[ "${FAKE_GPU:-yes}" == yes ]] || exit 9
[[ "$*" == *compute_mode* && "$*" != *driver_version* ]] && { echo Default; exit 0; }
echo "NVIDIA H200"
"""


def write_program(path, text):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    path.chmod(0o755)


def is_alive(pid_file):
    """Whether the process runs; one that ended and that nobody waited for does not."""
    try:
        stat = pathlib.Path(f"/proc/{int(pid_file.read_text())}/stat").read_text()
    except FileNotFoundError:
        return False
    return stat.rpartition(")")[2].split()[0] not in "ZX"


class GpuCheck(unittest.TestCase):
    def setUp(self):
        self.folder = pathlib.Path(tempfile.mkdtemp())
        self.addCleanup(shutil.rmtree, self.folder)
        root = self.root = self.folder / "checkout"
        for name in ("scripts", "bench"):
            (root / name).mkdir(parents=True)
            for path in [*SOURCE.glob(f"{name}/*.sh"), *SOURCE.glob(f"{name}/*.py")]:
                shutil.copy(path, root / name)
        programs = self.folder / "vindex-gpu" / "programs"
        for name, text in (("vindex", VINDEX), ("gpu_probe", PROBE), ("gpu_kernel_tests", TESTS), ("measure_tests", TESTS)):
            write_program(programs / name, text)
        (self.folder / "vindex-gpu" / "lib").mkdir()
        (self.folder / "vindex-gpu" / "commit").write_text("abc\n")
        (root / "bundle").mkdir()
        subprocess.run(["tar", "-cJf", root / "bundle" / "bundle.tar.xz", "-C", self.folder, "vindex-gpu"], check=True)
        write_program(self.folder / "bin" / "nvidia-smi", SMI)
        write_program(self.folder / "bin" / "compute-sanitizer", SANITIZER)
        write_program(self.folder / "bin" / "python3", f'#!/bin/sh\nexec {sys.executable} "$@"\n')
        for name, passed in (("sound", True), ("trial", False)):
            device = {"backend": "cuda", "device": "made up", "libraries": [],
                      "self_tests": [{"name": "gram by wgmma", "passed": passed, "detail": "error 0.5"}]}
            with h5py.File(self.folder / f"{name}.h5", "w") as file:
                file["run/environment"] = json.dumps({"back_ends": [device]})
        self.out = self.folder / "out"

    def begin(self, *parts, seconds=60, **variables):
        environment = {"PATH": f"{self.folder}/bin:{os.environ['PATH']}", "HOME": str(self.folder), "TMPDIR": str(self.folder),
                       "LD_LIBRARY_PATH": "/where/the/driver/is", "FAKE_FOLDER": str(self.folder),
                       "VINDEX_CHECK_SECONDS": str(seconds), "VINDEX_CHECK_LEAST": "1", **variables}
        return subprocess.Popen([self.root / "scripts" / "gpu_check.sh", "run", self.out, *parts], env=environment,
                                stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, start_new_session=True)

    def run_parts(self, *parts, **options):
        process = self.begin(*parts, **options)
        said, _ = process.communicate(timeout=120)
        self.said = said
        return process.returncode

    def kept(self):
        """The summary and the names in the archive; nothing else is left."""
        files = sorted(os.listdir(self.out))
        self.assertEqual(len(files), 2, f"{files}\n{getattr(self, 'said', '')}")
        self.assertTrue(files[0].endswith("-raw.tgz") and files[1].endswith(".json"), files)
        summary = json.loads((self.out / files[1]).read_text())
        self.assertEqual(summary["schema"], "vindex-gpu-check/1")
        with tarfile.open(self.out / files[0]) as archive:
            names = [os.path.basename(name) for name in archive.getnames()]
            inside = json.load(archive.extractfile(next(one for one in archive if one.name.endswith("summary.json"))))
        self.assertEqual(inside, summary)
        for part in summary["parts"]:
            self.assertIn(part["log"], names)
        return summary, names

    def expect_ended(self, name):
        """A process that was begun, and that a signal may still be on the way to."""
        self.assertTrue((self.folder / name).exists(), name)
        for _ in range(50):
            if not is_alive(self.folder / name):
                return
            time.sleep(0.1)
        self.fail(f"{name}: left behind")

    def endings(self, summary):
        return {part["part"]: part["ending"] for part in summary["parts"]}

    def test_without_a_gpu_it_says_so_and_keeps_what_it_knows(self):
        self.assertEqual(self.run_parts("first", FAKE_GPU="no"), 70, msg=getattr(self, "said", ""))
        summary, _ = self.kept()
        self.assertEqual(self.endings(summary), {"facts": "no GPU"})
        self.assertIn("no GPU", self.said)
        self.assertTrue(summary["ended"] and summary["failed"])
        self.assertEqual(summary["parts"][0]["code"], 70)
        self.assertEqual(glob.glob(str(self.folder / "tmp.*")), [], "no scratch is left")

    def test_a_driver_that_only_the_environment_leads_to_is_seen(self):
        self.assertEqual(self.run_parts("facts"), 0, msg=getattr(self, "said", ""))
        path = (self.folder / "library-path").read_text().split(":")
        self.assertTrue(path[0].endswith("/vindex-gpu/lib"), path)
        self.assertEqual(path[1], "/where/the/driver/is")

    def test_what_fails_hangs_or_dies_costs_its_own_part(self):
        self.assertEqual(self.run_parts("facts", "suites", seconds=15, FAKE_HANG="1"), 1, msg=getattr(self, "said", ""))
        summary, names = self.kept()
        endings = self.endings(summary)
        self.assertEqual(endings["suite values"], "well")
        self.assertEqual(endings["suite chase"], "failed")
        self.assertEqual(endings["suite chase, awaited"], "failed")
        self.assertEqual(endings["suite chase, dumped"], "failed")
        self.assertEqual(endings["suite chase, memcheck"], "failed")
        self.assertEqual(endings["suite band-tail"], "failed", "it ended by a signal")
        self.assertIn("suite band-tail, awaited", endings)
        self.assertEqual(endings["suite decode"], "failed", "tests that skip have not passed")
        self.assertIn("stopped at its limit", endings["suite top"])
        self.assertEqual(endings["suite gram-wgmma"], "not run")
        self.assertIn("core-7", names)
        self.expect_ended("hang.pid")
        self.expect_ended("hold.pid")
        reason = next(part["reason"] for part in summary["parts"] if part["part"] == "suite chase")
        self.assertIn("E-CUDA: CUDA: unspecified launch failure in chase_kernel<float>", reason)
        asked = (self.folder / "tests.log").read_text().splitlines()
        self.assertIn("*BandUpdate* plain,tensor   ", asked)
        self.assertIn("Orders/BandChase.ABatch/0 none 1 1 ", asked)
        self.assertIn("Orders/BandChase.ABatch/0 none   1", asked)
        self.assertIn("Orders/BandTail.Solves/0 none 1 1 ", asked)
        self.assertIn("-- suite chase", self.said, "told at once")

    def test_a_trial_that_fails_condemns_no_route_and_a_broken_device_does(self):
        tried = "two-stage+gram-mma+band-tensor"
        self.assertEqual(self.run_parts("self-test", FAKE_TRIAL=tried, FAKE_TRAP="wgmma|auto"), 1)
        summary, _ = self.kept()
        self.assertEqual(summary["route"], tried)
        endings = self.endings(summary)
        self.assertEqual(endings["self-test library"], "well")
        self.assertEqual(endings["self-test " + tried], "well but for trials")
        self.assertEqual(endings["self-test two-stage+gram-wgmma+band-plain"], "failed")
        self.assertEqual(endings["self-test auto"], "failed")
        reasons = {part["part"]: part["reason"] for part in summary["parts"]}
        self.assertIn("gram by wgmma: error 0.5", reasons["self-test " + tried])
        self.assertIn("E-SELF-TEST", reasons["self-test auto"])

    def test_stopped_in_the_middle_it_keeps_what_was_known(self):
        process = self.begin("facts", "suites", FAKE_HANG="1")
        hang = self.folder / "hang.pid"
        for _ in range(600):
            if hang.exists() and hang.read_text().strip():
                break
            time.sleep(0.1)
        process.send_signal(signal.SIGTERM)
        process.communicate(timeout=60)
        self.assertEqual(process.returncode, 143)
        summary, names = self.kept()
        self.assertFalse(summary["ended"])
        self.assertEqual(self.endings(summary)["suite values"], "well")
        self.assertTrue(any("suite-top" in name for name in names), "the log of the part that ran")
        self.expect_ended("hang.pid")
        self.expect_ended("hold.pid")

    def test_calls_that_make_no_sense_are_refused(self):
        self.assertEqual(self.run_parts("facts", "nonsense"), 64)
        self.assertFalse(self.out.exists())
        (self.root / "bundle" / "bundle.tar.xz").write_bytes(b"half of a bundle")
        self.assertEqual(self.run_parts("facts"), 66)
        self.assertIn("is not whole", self.said)
        summary, _ = self.kept()
        self.assertTrue(summary["failed"] and not summary["ended"])
        (self.root / "bundle" / "bundle.tar.xz").unlink()
        self.assertEqual(self.run_parts("facts"), 66)


class Suites(unittest.TestCase):
    def test_every_test_of_a_device_is_in_a_suite(self):
        lines = subprocess.run([SOURCE / "scripts" / "gpu_parts.sh", "suites"], capture_output=True, text=True, check=True).stdout
        filters = [pattern for line in lines.splitlines() for pattern in line.split()[2].split(":")]
        patterns = [re.compile(pattern.replace("*", ".*")) for pattern in filters]
        cmake = (SOURCE / "tests" / "kernels" / "CMakeLists.txt").read_text()
        sources = re.search(r"set\(kernel_test_sources(.*?)\)", cmake, re.S).group(1).split()
        found = 0
        for source in sources:
            text = (SOURCE / "tests" / "kernels" / source).read_text()
            for suite, case in re.findall(r"^TEST(?:_P|_F)?\((\w+), (\w+)\)", text, re.M):
                found += 1
                self.assertTrue(any(pattern.fullmatch(f"{suite}.{case}") for pattern in patterns),
                                f"{suite}.{case} of {source} is in no suite of scripts/gpu_parts.sh")
        self.assertGreater(found, 60)

    def test_what_a_suite_names_exists(self):
        lines = subprocess.run([SOURCE / "scripts" / "gpu_parts.sh", "suites"], capture_output=True, text=True, check=True).stdout
        texts = "".join(path.read_text() for path in (SOURCE / "tests" / "kernels").glob("*_test.cpp"))
        for line in lines.splitlines():
            for pattern in line.split()[2].split(":"):
                self.assertRegex(texts, rf"TEST(_P)?\(\w*{pattern.strip('*')}", line)
            for variant in line.split()[1].split(","):
                fixtures = texts + (SOURCE / "tests" / "kernels" / "gram_fixture.hpp").read_text()
                self.assertTrue(variant == "none" or f'"{variant}"' in fixtures, line)


if __name__ == "__main__":
    unittest.main()
