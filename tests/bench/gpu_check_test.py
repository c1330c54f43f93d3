"""scripts/gpu_check.sh on machines that are made up: without a GPU, with one whose kernels fail, hang or end their process,
and stopped in the middle. What it must keep in every case: a summary and the archive of all output, and no process behind.

    gpu_check_test.py SOURCE_FOLDER [vindex=PATH] [gpu_probe=PATH]
"""
import glob
import json
import os
import pathlib
import re
import shlex
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
# Programs of this build, as NAME=PATH.
PROGRAMS = {name: os.path.abspath(path) for name, _, path in (argument.partition("=") for argument in sys.argv[1:] if "=" in argument)}
sys.argv[1:] = [argument for argument in sys.argv[1:] if "=" not in argument]

# A document of the form vindex-bench/1, as bench and the probe print it.
DOCUMENT = json.dumps({
    "schema": "vindex-bench/1", "commit": "abc", "date": "2026-11-21T10:00:00Z", "command": "made up",
    "host": {"cpu": "c", "cores": 2, "memory_gib": 23.5, "blas": "b"}, "gpu": {"name": "g", "driver": "d", "cuda": "13.0"},
    "rows": [{"name": "spectra.default", "route": "made up", "backend": "cuda", "rows": 7168, "cols": 2048, "batch": 384,
              "encoding": "F8", "unit": "ms_per_matrix", "samples": [0.7], "limit": None, "peer": None}]})
# The program: measures by copying what the test prepared for the route, or ends as it says. All are noted with what they were given.
VINDEX = """#!/usr/bin/env bash
echo "$(printf '%q ' vindex "$@")" >>"$FAKE_FOLDER/commands"
case "$1" in
  --version) echo "vindex made up" ;;
  synth)
    while [[ "$1" != -o ]]; do shift; done
    mkdir -p "$2"
    echo '{"tensors": [{"rows": 7168, "cols": 2048, "encoding": "F8"}]}' >"$2/truth.json" ;;
  decode) while [[ "$1" != -o ]]; do shift; done; : >"$2" ;;
  bench) cat "$FAKE_FOLDER/document.json" ;;
  measure)
    [[ "${FAKE_GPU:-yes}" == yes ]] || { echo "vindex: E-NO-GPU: no device" >&2; exit 70; }
    out= route= mode=
    while (($#)); do case "$1" in -o) out="$2" ;; --svd-route) route="$2" ;; --mode) mode="$2" ;; esac; shift; done
    [[ ! "$route" =~ ${FAKE_TRAP:-nothing} ]] || { echo "vindex: E-SELF-TEST: a kernel broke the device" >&2; exit 70; }
    if [[ "$route" == "${FAKE_TRIAL:-nothing}" ]]; then cp "$FAKE_FOLDER/trial.h5" "$out"; else cp "$FAKE_FOLDER/sound.h5" "$out"; fi ;;
  *) exit 64 ;;
esac
"""
PROBE = """#!/usr/bin/env bash
[[ "$1" == --hold ]] && { echo $$ >"$FAKE_FOLDER/hold.pid"; exec sleep "$2"; }
echo "$(printf '%q ' gpu_probe "$@")" >>"$FAKE_FOLDER/commands"
printf '%s' "$LD_LIBRARY_PATH" >"$FAKE_FOLDER/library-path"
[[ "${FAKE_GPU:-yes}" == yes ]] || { echo "gpu_probe: no GPU was reached: no driver" >&2; exit 70; }
if [[ "$*" == *--json* ]]; then cat "$FAKE_FOLDER/document.json"; else echo "rows"; fi
"""
# As GoogleTest prints. FAKE_FAULTS=no: everything passes.
TESTS = """#!/usr/bin/env bash
filter="${1#--gtest_filter=}"
echo "$filter ${VINDEX_TEST_VARIANTS:-} ${VINDEX_AWAIT_LAUNCHES:-} ${CUDA_LAUNCH_BLOCKING:-} \
${CUDA_ENABLE_COREDUMP_ON_EXCEPTION:-}" >>"$FAKE_FOLDER/tests.log"
[[ "${FAKE_FAULTS:-yes}" == yes ]] || { echo "[  PASSED  ] 1 test."; exit 0; }
case "$filter" in
  *BandChase*)
    echo "[ RUN      ] Orders/BandChase.ABatch/0"
    echo 'C++ exception "E-CUDA: CUDA: unspecified launch failure in chase_kernel<float>" "quoted" \\ and more'
    [[ -z "${CUDA_ENABLE_COREDUMP_ON_EXCEPTION:-}" ]] || echo core >"${CUDA_COREDUMP_FILE//%p/7}"
    echo "[  FAILED  ] Orders/BandChase.ABatch/0, where GetParam() = 0 (3 ms)"
    echo "[  PASSED  ] 2 tests."; exit 1 ;;
  *BandTail*) echo "[ RUN      ] Orders/BandTail.Solves/0"; kill -SEGV $$ ;;
  *ForwardKernels*)
    echo "[ RUN      ] Orders/ForwardKernels.Hangs/0"
    [[ -z "${FAKE_HANG:-}" ]] || { echo $$ >"$FAKE_FOLDER/hang.pid"; exec sleep 1000; }
    echo "[  PASSED  ] 1 test." ;;
  *DecodeKernels*) echo "[  SKIPPED ] 3 tests." ;;
  *) echo "[  PASSED  ] 1 test." ;;
esac
"""
# FAKE_OBJECTS: the kernel to which synccheck objects, in the tests of the chase or in all.
SANITIZER = """#!/usr/bin/env bash
tool="$2"
while [[ "$1" != */programs/* ]]; do shift; done
echo "$(printf '%q ' "$tool" "${@:2}")" >>"$FAKE_FOLDER/sanitized"
[[ "${FAKE_FAULTS:-yes}" == no ]] || echo "========= Invalid __global__ write of size 8"
if [[ "$tool" == synccheck && -n "${FAKE_OBJECTS:-}" ]]; then
  echo "========= Barrier error detected. Divergent thread(s) in block"
  echo "=========     at vindex::kernels::ptx::wait_named(int, int)+0x80 in intrinsics.hpp:77"
  echo "=========     Device Frame:void vindex::kernels::$FAKE_OBJECTS<float, float>(float*)+0x1230 in x.cu:400"
  echo "========= Program hit cudaErrorLaunchFailure (error 719) due to \\"unspecified launch failure\\""
  echo "[  FAILED  ] Orders/BandChase.ABatch/0"
  exit 9
fi
exec "$@"
"""
NCU = """#!/usr/bin/env bash
echo "$(printf '%q ' ncu "$@")" >>"$FAKE_FOLDER/profiled"
kernel=
while [[ "$1" != */programs/* ]]; do [[ "$1" != -k ]] || kernel="$2"; shift; done
"$@" || exit
if [[ "$kernel" == *"${FAKE_RENAMED:-nothing}"* ]]; then echo "==WARNING== No kernels were profiled."; exit 0; fi
echo "    gpu__time_duration.sum  us  211.00"
"""
SMI = """#!/usr/bin/env bash
[[ "${FAKE_GPU:-yes}" == yes ]] || exit 9
[[ "$*" == *compute_mode* && "$*" != *driver_version* ]] && { echo Default; exit 0; }
[[ "$*" != *name,driver_version* || "$*" == *memory* ]] || { echo "NVIDIA H200, 580.1"; exit 0; }
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


class Machine(unittest.TestCase):
    vindex = VINDEX

    def setUp(self):
        self.folder = pathlib.Path(tempfile.mkdtemp())
        self.addCleanup(shutil.rmtree, self.folder)
        root = self.root = self.folder / "checkout"
        for name in ("scripts", "bench"):
            for path in [*SOURCE.glob(f"{name}/**/*.sh"), *SOURCE.glob(f"{name}/**/*.py")]:
                copy = root / path.relative_to(SOURCE)
                copy.parent.mkdir(parents=True, exist_ok=True)
                shutil.copy(path, copy)
        programs = self.folder / "vindex-gpu" / "programs"
        for name, text in (("vindex", self.vindex), ("gpu_probe", PROBE), ("gpu_kernel_tests", TESTS), ("backend_tests", TESTS)):
            write_program(programs / name, text)
        write_program(self.folder / "vindex-gpu" / "vindex", '#!/bin/sh\nexec "$(dirname "$0")/programs/vindex" "$@"\n')
        (self.folder / "vindex-gpu" / "lib").mkdir()
        (self.folder / "vindex-gpu" / "commit").write_text("abc\n")
        (root / "bundle").mkdir()
        subprocess.run(["tar", "-cJf", root / "bundle" / "bundle.tar.xz", "-C", self.folder, "vindex-gpu"], check=True)
        write_program(self.folder / "bin" / "nvidia-smi", SMI)
        write_program(self.folder / "bin" / "compute-sanitizer", SANITIZER)
        write_program(self.folder / "bin" / "ncu", NCU)
        (self.folder / "document.json").write_text(DOCUMENT)
        write_program(self.folder / "bin" / "python3", f'#!/bin/sh\nexec {sys.executable} "$@"\n')
        for name, passed in (("sound", True), ("trial", False)):
            device = {"backend": "cuda", "device": "made up", "libraries": [],
                      "self_tests": [{"name": "gram by wgmma", "passed": passed, "detail": "error 0.5"}]}
            with h5py.File(self.folder / f"{name}.h5", "w") as file:
                file["run/environment"] = json.dumps({"back_ends": [device]})
                file["matrix/sigma_error"] = [1e-9]
                file["spectra/0/matrix"] = [0]
                file["spectra/0/sigma"] = [[3.0, 2.0, 1.0]]
        self.out = self.folder / "out"

    def begin(self, *parts, seconds=60, **variables):
        environment = {"PATH": f"{self.folder}/bin:{os.environ['PATH']}", "HOME": str(self.folder), "TMPDIR": str(self.folder),
                       "LD_LIBRARY_PATH": "/where/the/driver/is", "FAKE_FOLDER": str(self.folder),
                       "VINDEX_CHECK_SECONDS": str(seconds), "VINDEX_CHECK_LEAST": "1", "VINDEX_PEERS_SECONDS": "20", **variables}
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

    def commands(self, name="commands"):
        return [shlex.split(line) for line in (self.folder / name).read_text().splitlines()]

    def document(self, names, raw_name):
        self.assertIn(raw_name, names)
        archive = next(self.out.glob("*-raw.tgz"))
        with tarfile.open(archive) as files:
            return json.load(files.extractfile(next(one for one in files if os.path.basename(one.name) == raw_name)))

    def endings(self, summary):
        return {part["part"]: part["ending"] for part in summary["parts"]}


class GpuCheck(Machine):
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
        self.assertIn("stopped at its limit", endings["suite forward"])
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
        tried = "two-stage+gram-mma+band-tensor+kernels-former"
        self.assertEqual(self.run_parts("self-test", FAKE_TRIAL=tried, FAKE_TRAP="wgmma|auto|two-stage.kernels-former"), 1)
        summary, _ = self.kept()
        self.assertEqual(summary["route"], tried)
        endings = self.endings(summary)
        self.assertEqual(endings["self-test library"], "well")
        self.assertEqual(endings["self-test " + tried], "well but for trials")
        self.assertEqual(endings["self-test two-stage+gram-wgmma+band-plain+kernels-former"], "failed")
        self.assertEqual(endings["self-test auto"], "failed")
        reasons = {part["part"]: part["reason"] for part in summary["parts"]}
        self.assertIn("gram by wgmma: error 0.5", reasons["self-test " + tried])
        self.assertIn("E-SELF-TEST", reasons["self-test auto"])

    def test_a_newer_kernel_that_breaks_the_device_costs_itself_alone(self):
        self.assertEqual(self.run_parts("self-test", "bench", FAKE_TRAP="auto"), 1)
        summary, _ = self.kept()
        self.assertEqual(summary["route"], "two-stage+kernels-former")
        self.assertEqual(self.endings(summary)["bench"], "well")
        routes = [words[words.index("--routes") + 1] for words in self.commands() if words[:2] == ["vindex", "bench"]]
        self.assertEqual(routes[0], "two-stage+kernels-former", "once")

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
        self.assertTrue(any("suite-forward" in name for name in names), "the log of the part that ran")
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


class Whole(Machine):
    """Both calls from end to end, with every tool made up."""

    def expect_taken(self):
        """The programs take every flag that the script gave to those made up: without a GPU, which is hidden, that is all they see."""
        hidden = {**os.environ, "CUDA_VISIBLE_DEVICES": "-1", "OPENBLAS_NUM_THREADS": "1"}
        tried = set()
        for name, *words in self.commands():
            # Left out: what has no flag of ours, or would really write and measure on the CPU.
            if name not in PROGRAMS or words[0] in ("synth", "decode", "--version") or "cpu" in words:
                continue
            words = tuple("/nowhere" + word[len(str(self.folder)):] if word.startswith(str(self.folder)) else word for word in words)
            kind = tuple(re.sub(r"/.*", "/", word) for word in words)
            if kind in tried:
                continue
            tried.add(kind)
            done = subprocess.run([PROGRAMS[name], *words], env=hidden, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                                  check=False, timeout=60)
            # 70: no GPU; 64 is a flag that does not exist, and gpu_probe's parser has codes above 100.
            self.assertTrue(0 < done.returncode < 100 and done.returncode != 64, f"{name} {words}: {done.returncode} {done.stdout}")
        if PROGRAMS:
            self.assertGreater(len(tried), 8)

    def parts_without(self, call, bare):
        """Names of the parts of a whole call in their order, and how they ended, but for those that need more than is made up."""
        summary, names = self.kept()
        self.assertTrue(summary["ended"], self.said)
        endings = self.endings(summary)
        for name in bare:
            self.assertIn(name, endings, call)
        wrong = {name: ending for name, ending in endings.items() if ending != "well" and name not in bare}
        self.assertEqual(wrong, {}, self.said)
        return [part["part"] for part in summary["parts"]], names

    def test_the_first_call_has_everything_that_decides_in_its_order(self):
        self.assertEqual(self.run_parts("first", seconds=110, FAKE_FAULTS="no"), 1)
        # There is no torch, no jax and no cupy that would run on what is made up.
        order, names = self.parts_without("first", ["peers torch, jax", "peers cupy"])
        heads = ["facts", "self-test library", "suite plans", "suite top", "suite chase", "conformance", "stages", "end-to-end", "bench",
                 "peers cusolver values", "peers torch, jax", "peers cusolver svd", "peers cupy"]
        self.assertEqual([name for name in order if name in heads], heads)
        self.assertEqual(order[-1], "peers cupy")
        for what in ("stages", "end-to-end", "spectra", "peers"):
            self.assertTrue(self.document(names, f"gpu-h200-{what}.json")["rows"], what)
        bench = [words for words in self.commands() if words[:2] == ["vindex", "bench"] and "spectra" in words]
        first = " ".join(bench[0])
        self.assertIn("--routes auto,two-stage+kernels-former", first, "newer and former kernels in one call")
        self.assertIn("--modes default,fast", first, "fast beside default at the same batch")
        self.assertIn("--batch 384", first)
        self.assertTrue(any("--shapes 512x1024,1024x1024" in " ".join(words) and "96,768" in words for words in bench))
        measured = [words for words in self.commands() if words[:2] == ["vindex", "measure"]]
        models = [os.path.basename(words[2]) for words in measured]
        for name in ("small", "experts-0", "experts-1"):
            self.assertEqual(models.count(name), 3 + (8 if name == "small" else 0), models)
        self.expect_taken()

    def test_the_second_call_has_the_rest(self):
        self.assertEqual(self.run_parts("second", seconds=110, FAKE_FAULTS="no", VINDEX_AGREEMENT="layer:1 layer:2"), 1)
        order, _ = self.parts_without("second", ["trace"])
        heads = ["facts", "self-test library", "agreement", "counters deferred", "counters native", "counters chase-flags",
                 "counters codes", "counters back", "counters update", "counters operands", "counters panel", "counters chase32",
                 "sanitizer memcheck", "sanitizer synccheck", "sanitizer synccheck, chase by flags",
                 "sanitizer synccheck, chase", "sanitizer initcheck", "sanitizer racecheck", "trace"]
        self.assertEqual([name for name in order if name in heads], heads)
        kernels = [words[words.index("-k") + 1] for words in self.commands("profiled")]
        self.assertEqual(kernels[0], "regex:update_deferred_kernel", "newer kernels first")
        update = re.compile(next(name for name in kernels if "halves" in name).removeprefix("regex:"))
        for demangled in ("unnamed>::update_and_multiply_halves_kernel<1, 8>(TrailingPass<float>, long)",
                          "update_and_multiply_halves_kernel<(bool)1, (int)8>(", "update_and_multiply_halves_kernel<true, 8>("):
            self.assertRegex(demangled, update)
        self.assertNotRegex("update_and_multiply_halves_kernel<0, 8>(", update)
        chase = next(words for words in self.commands("profiled") if any("[^_])chase_kernel" in word for word in words))
        self.assertRegex("unnamed>::chase_kernel<float, float>(T1 *", chase[chase.index("-k") + 1].removeprefix("regex:"))
        self.assertNotRegex("unnamed>::shared_chase_kernel<float, float>(", chase[chase.index("-k") + 1].removeprefix("regex:"))
        self.assertEqual(chase[chase.index("--stages"):chase.index("--stages") + 4], ["--stages", "chase32", "--chase", "14"])
        self.expect_taken()

    def test_what_synccheck_says_of_the_chase_is_expected_and_of_nothing_else(self):
        self.assertEqual(self.run_parts("sanitizer", FAKE_FAULTS="no", FAKE_OBJECTS="chase_kernel"), 1)
        endings = self.endings(self.kept()[0])
        self.assertEqual(endings["sanitizer synccheck"], "failed", "there the chase is left out")
        self.assertEqual(endings["sanitizer synccheck, chase"], "well")
        self.assertIn("expected: synccheck objects to bar.sync", self.said)
        shutil.rmtree(self.out)
        self.run_parts("sanitizer", FAKE_FAULTS="no", FAKE_OBJECTS="panel_kernel")
        self.assertEqual(self.endings(self.kept()[0])["sanitizer synccheck, chase"], "failed")
        runs = self.commands("sanitized")
        filters = {words[0] + str(i): words[-1] for i, words in enumerate(runs)}
        self.assertIn("BandChase", filters["memcheck0"])
        self.assertTrue(filters["synccheck1"].endswith(":-*BandChase*:*SharedChase*"), filters)

    def test_a_kernel_that_is_no_longer_called_so_is_named(self):
        self.assertEqual(self.run_parts("counters", FAKE_FAULTS="no", FAKE_RENAMED="factor_panel"), 1)
        summary, _ = self.kept()
        self.assertEqual(self.endings(summary)["counters panel"], "failed")
        self.assertEqual(self.endings(summary)["counters update"], "well")
        self.assertIn("no launch of factor_panel_kernel", next(part["reason"] for part in summary["parts"] if part["code"]))


class OnTheCpu(Machine):
    """What needs no device of the parts that do, with our program: the same commands for its other back end."""
    vindex = f"#!/bin/sh\nexec {PROGRAMS.get('vindex')} \"$@\"\n"

    @unittest.skipUnless("vindex" in PROGRAMS, "no program was given")
    def test_end_to_end_measures_both_models_from_the_cache_and_past_it(self):
        self.assertEqual(self.run_parts("end-to-end", VINDEX_CHECK_BACKEND="cpu", VINDEX_END_TO_END="layer:6x256x128:fp8",
                                        VINDEX_END_TO_END_LESS="layer:3x256x128:fp8"), 0, getattr(self, "said", ""))
        summary, names = self.kept()
        self.assertEqual(self.endings(summary), {"end-to-end": "well"})
        rows = self.document(names, "gpu-h200-end-to-end.json")["rows"]
        found = {(row["name"], row["batch"]) for row in rows if row["samples"]}
        self.assertLessEqual({("probe.start_up", 4), ("end_to_end", 6), ("end_to_end", 3), ("probe.measure", 6)}, found)
        routes = {row["route"] for row in rows if row["name"] == "end_to_end" and row["samples"]}
        self.assertIn("page-cache, vindex measure", routes)
        self.assertTrue(any(route.startswith("disk") for route in routes), routes)
        self.assertEqual(glob.glob(str(self.folder / "tmp.*")), [], "no model is left")


class Suites(unittest.TestCase):
    def test_every_test_of_a_device_is_in_a_suite(self):
        lines = subprocess.run([SOURCE / "scripts" / "gpu" / "parts.sh", "suites"], capture_output=True, text=True, check=True).stdout
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
                                f"{suite}.{case} of {source} is in no suite of scripts/gpu/parts.sh")
        self.assertGreater(found, 60)

    def test_what_a_suite_names_exists(self):
        lines = subprocess.run([SOURCE / "scripts" / "gpu" / "parts.sh", "suites"], capture_output=True, text=True, check=True).stdout
        texts = "".join(path.read_text() for path in (SOURCE / "tests" / "kernels").glob("*/*_test.cpp"))
        for line in lines.splitlines():
            for pattern in line.split()[2].split(":"):
                self.assertRegex(texts, rf"TEST(_P)?\(\w*{pattern.strip('*')}", line)
            for variant in line.split()[1].split(","):
                fixtures = texts + (SOURCE / "tests" / "kernels" / "gram" / "gram_fixture.hpp").read_text()
                self.assertTrue(variant == "none" or f'"{variant}"' in fixtures, line)


if __name__ == "__main__":
    unittest.main()
