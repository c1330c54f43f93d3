#!/usr/bin/env python3
"""What every command that works for a while promises of its runs: run_properties.py PROGRAM FAULTS FOLDER ROW....

A row of run_table.py is run once, undisturbed; then its output must be the same file, object by object and bit for bit,
  - by any number of threads,
  - in the least memory, which the refusal of less names, without leaving anything, and within it,
  - from a part of the selection, continued,
  - by several workers, and by a process that claims shares, merged,
  - after SIGTERM, SIGINT and SIGKILL at calls of the system that are spread over the whole run (FAULTS, a library that sends them),
and the same command again leaves it alone, while another run beside it is refused. Each where the command has the option for it.
A variant of a command that has a row neither claims shares nor is ended. With `every-command` for ROW: every command that has threads stands in the table. FAULTS is
empty where that library cannot be loaded: then nothing is stopped or killed, and memory is not looked at."""

import hashlib
import json
import os
import re
import resource
import shutil
import signal
import subprocess
import sys
import time

import h5py
import numpy as np

from run_inputs import make
from run_table import LEFT_OUT, ROWS, TAKE_LITTLE
from same_results_files import file_differences, folder_differences, object_differences, read_objects, without
from test_script import call, fresh_folder

PROGRAM, FAULTS, FOLDER = (os.path.abspath(word) if word else "" for word in sys.argv[1:4])

SCHEDULERS = ("SLURM_", "JOB_COMPLETION_INDEX", "VINDEX_")
CLEAN = {key: value for key, value in os.environ.items() if not key.startswith(SCHEDULERS)}
CALLS = "open,openat,read,pread,write,pwrite,mkdir,link,rename,renameat2,unlink,unlinkat,rmdir,fsync,ftruncate,close"
ENDS = ("SIGTERM", "kill-before", "SIGINT", "kill-before", "SIGUSR1", "kill-after", "kill-before")
STOPPED, KILLED = 75, -9
END_CODES = (0, STOPPED, KILLED, -signal.SIGTERM, -signal.SIGINT, -signal.SIGUSR1, 73)  # a signal before there is a handler kills
LITTLE = 4096  # bytes, enough for no command that keeps to a budget
BESIDE = 256 << 20  # bytes that the contract grants beside the budget (code, libraries, threads)


def check(condition, *words):
    if not condition:
        sys.exit(f"FAILED: {' '.join(map(str, words))}")


def files_below(folder):
    return sorted(os.path.join(place, name) for place, _, names in os.walk(folder) for name in names)


def digest(folder):
    whole = hashlib.sha256()
    for path in files_below(folder):
        whole.update(path.encode())
        with open(path, "rb") as file:
            whole.update(file.read())
    return whole.digest()


class Run:
    """The command of a row, and what it wrote when nothing disturbed it."""

    def __init__(self, row):
        self.row = row
        self.options = {option["name"] for option in commands()[leaf(row)]["options"]}
        self.inputs = os.path.join(FOLDER, "inputs")
        self.outputs = os.path.join(FOLDER, "outputs")
        os.makedirs(self.inputs)
        os.makedirs(self.outputs)
        names = sorted(set(re.findall(r"{([\w.]+)}", f"{row.command} {row.flags}")) - {"out"})
        self.made = {name: make(PROGRAM, self.inputs, name) for name in names}
        self.read = digest(self.inputs)
        self.whole = self.run("whole").stdout
        self.validate("whole")
        self.objects = read_objects(self.out("whole")) if self.is_results() else None

    # ---- one run

    def out(self, folder):
        return os.path.join(self.outputs, folder, self.row.out) if self.row.out else None

    def words(self, folder, *more, flags=None):
        """The command with its output in a folder of its own, which is made."""
        os.makedirs(os.path.join(self.outputs, folder), exist_ok=True)
        out = self.out(folder)
        text = f"{self.row.command} {self.row.flags if flags is None else flags}"
        names = self.made | {"out": out}
        words = [re.sub(r"{([\w.]+)}", lambda found: names[found[1]], word) for word in text.split()]
        if out and "{out}" not in text:
            words += ["-o", out]
        quiet = [("--backend", "cpu"), ("--progress", "none")]
        return [PROGRAM, *words, *(word for pair in quiet if pair[0] in self.options for word in pair), *more]

    def run(self, folder, *more, flags=None, code=0, **environment):
        done = subprocess.run(self.words(folder, *more, flags=flags), stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False,
                              env=CLEAN | environment)
        codes = code if isinstance(code, tuple) else (code,)
        check(done.returncode in codes, done.args, "ended with", done.returncode, "not", codes, done.stdout, done.stderr)
        return done

    def is_results(self):
        return self.row.out is not None and self.row.out.endswith(".h5")

    def validate(self, folder):
        if self.is_results():
            call(PROGRAM, "validate", self.out(folder), "-q")

    def expect_whole(self, folder, text, what, bound=0.0):
        """What lies in `folder`, or was said, is what the undisturbed run wrote, and nothing else lies there. With a bound numbers of a
        results file may differ by it."""
        one, other = os.path.join(self.outputs, "whole"), os.path.join(self.outputs, folder)
        if not self.row.out:
            check(answer(text) == answer(self.whole), what, "another answer", text, self.whole)
            return
        names = [[os.path.relpath(path, place) for path in files_below(place)] for place in (one, other)]
        check(names[0] == names[1], what, names)
        self.validate(folder)
        found = object_differences(self.objects, read_objects(self.out(folder))) if self.objects else folder_differences(one, other)
        found = [line for line in found if not line.startswith(("/run/", "@history"))]
        if bound > 0:
            check(not [line for line in found if ": values: " not in line and "@sha256: " not in line], what, found[:5])
            found = far_apart(self.out("whole"), self.out(folder), {line.split(": ")[0] for line in found if ": values: " in line}, bound)
        check(not found, what, found[:5])

    def expect_same(self, what, *more, **how):
        folder = re.sub(r"\W+", "_", what)
        self.expect_whole(folder, self.run(folder, *more, **how).stdout, what)

    @staticmethod
    def same_files(one, other):
        return not (folder_differences if os.path.isdir(one) else file_differences)(one, other, {}, {})

    # ---- properties

    def threads_do_not_matter(self):
        for count in ("1", "3"):
            self.expect_same(f"threads {count}", "--threads", count)

    def least_memory_is_enough(self):
        self.least, budget = LITTLE, f"{LITTLE}B"
        while (refused := self.run("none", "--ram-budget", budget, "--threads", "1", code=(0, 78))).returncode != 0:
            needs = re.search(r"E-BUDGET.* needs (\d+) bytes", refused.stderr, re.S)
            check(needs and refused.stderr.count("vindex: ") == 1, "no least budget is named", refused.stderr)
            check(int(needs[1]) > self.least, "it needs no more than it has", refused.stderr)
            check(not os.listdir(os.path.join(self.outputs, "none")), "a refusal leaves something")
            self.least, budget = int(needs[1]), f"{needs[1]}B"
        check(self.least > LITTLE or leaf(self.row) in TAKE_LITTLE, "no budget is too small")
        before = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss
        self.expect_same("least memory", "--ram-budget", f"{self.least}B", "--threads", "1")
        peak = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss
        check(not FAULTS or peak == before or peak * 1024 <= self.least + BESIDE, "least memory", self.least, "and", peak, "KiB were taken")

    def the_same_again_changes_nothing(self):
        if not self.row.out:
            return
        place = os.path.join(self.outputs, "whole")
        before = digest(place), {path: os.stat(path).st_ino for path in files_below(place)}
        again = self.run("whole", code=0 if self.is_results() else 73)
        check(again.returncode == 0 or "E-OUTPUT-EXISTS" in again.stderr or "E-OUTPUT-NOT-EMPTY" in again.stderr, again.stderr)
        now = digest(place), {path: os.stat(path).st_ino for path in files_below(place)}
        check(now == before, "the same command again wrote its output anew")
        if "--worker" in self.options:
            check(f"{self.row.unit} are done already" in again.stderr, again.stderr)

    def another_run_is_refused_and_replaces_on_request(self):
        said = self.run("whole", flags=self.row.other, code=78).stderr
        check("E-RESUME-FINGERPRINT" in said and self.row.told in said, said)
        self.expect_whole("whole", self.whole, "beside another run")
        self.run("replaced", flags=self.row.other)
        self.validate("replaced")
        self.expect_same("replaced", "--restart")

    def a_part_goes_on(self):
        self.run("part", flags=self.row.part)
        self.validate("part")
        text = self.run("part").stderr
        check("resuming" in text, "nothing is said of what was there", text)
        self.expect_whole("part", None, "a part, continued")

    def workers_make_the_file_of_one_run(self):
        for wrong in (("--worker", "auto"), ("--claim", "--worker", "0/2"), ("--claim", "--restart")):
            self.run("refused", *wrong, code=64)
        check(not os.listdir(os.path.join(self.outputs, "refused")), "a refusal leaves something")
        # A number that is told, and tasks of Slurm, which say by variables who they are.
        self.run("workers", "--worker", "2/3")
        merged = self.out("workers")
        said = call(PROGRAM, "merge", merged + ".parts", "-o", merged, code=66).stderr
        check("worker 0 of 3 has not begun" in said and not os.path.exists(merged), said)
        for rank in ("0", "1"):
            said = self.run("workers", "--worker", "auto", SLURM_PROCID=rank, SLURM_NTASKS="3").stderr
            check(f"worker {rank} of 3, by SLURM_PROCID={rank}" in said, said)
        check(self.row.unit in call(PROGRAM, "status", merged).stdout, "status does not count", self.row.unit)
        self.expect_merged("workers")

    def expect_merged(self, folder):
        out = self.out(folder)
        call(PROGRAM, "merge", out + ".parts", "-o", out, "-q")
        self.expect_whole(folder, None, folder, self.row.near)

    def claims_make_the_file_of_one_run(self):
        """Three processes at once, after one that was killed when it had taken a share."""
        if FAULTS:
            self.run("claims", "--claim", code=KILLED, LD_PRELOAD=FAULTS, VINDEX_FAULT_CALLS="link,rename",
                     VINDEX_FAULT_PATH="*/claims/*", VINDEX_FAULT_AT="1", VINDEX_FAULT_DO="kill-after")
        running = [subprocess.Popen(self.words("claims", "--claim"), env=CLEAN, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
                   for _ in range(3)]
        for process in running:
            said = process.communicate()[1]
            check(process.returncode == 0, said)
        out = self.out("claims")
        status = json.loads(call(PROGRAM, "status", out, "--json").stdout)
        check(status["left"] == 0 and status["shares"]["total"] == status["shares"]["done"], status)
        text = call(PROGRAM, "status", out).stdout
        # A path is not broken, however deep the folder of the build lies.
        check("claimed shares" in text and all(len(line) <= 80 or len(line.split()) == 1 for line in text.splitlines()), text)
        self.expect_merged("claims")

    # ---- stops and kills

    def logged(self):
        """The calls of an undisturbed run, in groups of one kind on one file: the first and the last number of each."""
        log = os.path.join(FOLDER, "calls")
        self.run("logged", LD_PRELOAD=FAULTS, VINDEX_FAULT_CALLS=CALLS, VINDEX_FAULT_PATH=FOLDER + "/*", VINDEX_FAULT_LOG=log)
        groups, last = [], None
        with open(log, errors="replace", encoding="utf-8") as file:
            for line in file:
                number, call_name, path = line.rstrip("\n").split(" ", 2)
                if (call_name, path) != last:
                    groups.append([int(number), int(number)])
                last = call_name, path
                groups[-1][1] = int(number)
        return groups

    def stops_and_kills_lose_nothing(self):
        groups = self.logged()
        least = ["--ram-budget", f"{self.least}B", "--threads", "1"] if "--ram-budget" in self.options else []
        ends = {STOPPED: 0, KILLED: 0}
        for number, end in enumerate(ENDS if self.row.stops else [end for end in ENDS if end.startswith("kill")] * 2):
            first, last = groups[min(number, len(ENDS) - 1) * (len(groups) - 1) // (len(ENDS) - 1)]
            more = least if number % 2 else []  # a run goes on with another budget
            done = self.run("ended", *more, code=END_CODES, LD_PRELOAD=FAULTS, VINDEX_FAULT_CALLS=CALLS,
                            VINDEX_FAULT_PATH=FOLDER + "/*", VINDEX_FAULT_AT=str((first + last) // 2), VINDEX_FAULT_DO=end)
            out = self.out("ended")
            if done.returncode not in (0, 73):
                ends[STOPPED if done.returncode == STOPPED else KILLED] += 1
            if done.returncode == STOPPED:
                check("E-STOPPED" in done.stderr and re.search("kept|run the same command again|nothing was written", done.stderr), done.stderr)
                check(self.row.unit or not out or not os.listdir(os.path.dirname(out)), end, "left", out and os.listdir(os.path.dirname(out)))
            elif done.returncode == 0:
                self.expect_whole("ended", done.stdout, f"{end} came too late")
            if done.returncode in (0, 73):
                shutil.rmtree(os.path.join(self.outputs, "ended"))
            elif out and os.path.exists(out):  # a results file may lack rows, and says so
                self.validate("ended")
                check(self.objects or self.same_files(out, self.out("whole")), end, "left a part of an output")
        check(ends[KILLED] and (ends[STOPPED] or not self.row.unit), "nothing was stopped or killed", ends)
        done = self.run("ended", code=(0, 73))
        # Rows that are left begin other tiles than all rows do, as a worker's rows do.
        self.expect_whole("ended", done.stdout, f"{ends[STOPPED]} stops and {ends[KILLED]} kills", self.row.near)
        print("stops:", ends[STOPPED], "kills:", ends[KILLED], "of", groups[-1][1], "calls")

    def check_all(self):
        properties = [self.the_same_again_changes_nothing]
        for condition, one in (("--threads" in self.options, self.threads_do_not_matter), ("--ram-budget" in self.options, self.least_memory_is_enough),
                               (self.row.other is not None, self.another_run_is_refused_and_replaces_on_request),
                               (self.row.part is not None, self.a_part_goes_on), ("--worker" in self.options, self.workers_make_the_file_of_one_run),
                               ("--claim" in self.options and not self.row.variant, self.claims_make_the_file_of_one_run),
                               (FAULTS and not self.row.variant, self.stops_and_kills_lose_nothing)):
            properties += [one] if condition else []
        for one in properties:
            begun = time.monotonic()
            one()
            print(f"{one.__name__.replace('_', ' ')}: {time.monotonic() - begun:.1f} s", flush=True)
        check(digest(self.inputs) == self.read, "an input is another one")


def far_apart(one, other, names, bound):
    with h5py.File(one) as left, h5py.File(other) as right:
        return [name for name in names if not np.allclose(left[name][()], right[name][()], rtol=bound, atol=bound, equal_nan=True)]


def answer(text):
    """A JSON document without how it was come by."""
    return re.sub(r'"(bytes|passes|states_in_file)": ?\w+', "", without(text, {}))


def commands():
    return json.loads(call(PROGRAM, "commands", "--json").stdout)["commands"]


def leaf(row):
    """The name of a row's command: `organ.measure`."""
    known = commands()
    words = row.command.split()
    return words[0] if words[0] in known else ".".join(words[:2])


def every_command():
    working = {name for name, command in commands().items() if "--threads" in {option["name"] for option in command["options"]}}
    missing = working - LEFT_OUT - {leaf(row) for row in ROWS}
    check(not missing, "no row of the table runs", sorted(missing))


def main(names):
    for name in names:
        fresh_folder(FOLDER)
        print(name)
        if name == "every-command":
            every_command()
        else:
            Run(next(row for row in ROWS if row.name == name)).check_all()
    shutil.rmtree(FOLDER)


main(sys.argv[4:])
