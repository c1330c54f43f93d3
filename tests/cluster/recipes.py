"""Runs the job scripts and recipes without their systems, with the variables that each would set: every worker of a run takes
rows that no other one takes, all workers together take all, and the merged rows are those of one run.

Usage: recipes.py VINDEX JOBS_FOLDER FOLDER. A recipe whose tool is not here (GNU parallel) is named and left out, or fails where
VINDEX_CLUSTER_REQUIRED is set. tests/cluster/exit_codes_test.sh holds what scripts do with exit codes and signals."""

import glob
import os
import shutil
import subprocess
import sys

import h5py
import yaml
from test_script import call, fresh_folder

FLAGS = ["--layers", "0-1", "--progress", "none"]


def rows_of(path):
    """What a results file or a part has measured: (tensor, slice), in the file's order."""
    with h5py.File(path) as file:
        return list(zip(file["matrix/tensor"].asstr()[()], file["matrix/slice"][()].tolist()))


class Recipe:
    """One recipe: its workers, each a command with its own variables, and the results file in a folder of its own."""

    def __init__(self, name, folder, program):
        self.name, self.folder = name, os.path.join(folder, name)
        os.mkdir(self.folder)
        self.output = os.path.join(self.folder, "out.h5")
        # On the PATH as `vindex`, as in a container.
        self.environment = {"PATH": f"{os.path.join(folder, 'bin')}:{os.environ['PATH']}", "HOME": os.environ.get("HOME", "/"),
                            "VINDEX": program, "OPENBLAS_NUM_THREADS": "1"}

    def run(self, command, **variables):
        done = subprocess.run(command, env=self.environment | variables, cwd=self.folder, text=True, capture_output=True, check=False)
        assert done.returncode == 0, f"{self.name}: {command} ended with {done.returncode}: {done.stdout}{done.stderr}"

    def parts(self):
        """Rows by worker, as "3of16"."""
        names = glob.glob(self.output + ".parts/part-*.h5")
        return {os.path.basename(name).split("-")[1]: rows_of(name) for name in names}

    def check_division(self, count, all_rows):
        parts = self.parts()
        assert sorted(parts) == sorted(f"{i}of{count}" for i in range(count)), (self.name, sorted(parts))
        shares = [row for rows in parts.values() for row in rows]
        assert len(shares) == len(set(shares)), f"{self.name}: rows that two workers took"
        assert set(shares) == set(all_rows), f"{self.name}: {len(set(shares))} of {len(all_rows)} rows"
        sizes = [len(rows) for rows in parts.values()]
        assert max(sizes) - min(sizes) <= max(2, len(all_rows) // 4), (self.name, sizes)


def document(path):
    with open(path, encoding="utf-8") as file:
        return yaml.safe_load(file)


def container_of(job):
    return job["spec"]["template"]["spec"]["containers"][0]


def kubernetes(recipe, jobs, model, all_rows):
    """The Indexed Job and the Job that merges, their containers' commands with their own variables."""
    job, merge = (document(f"{jobs}/kubernetes-{name}.yaml") for name in ("indexed-job", "merge"))
    container = container_of(job)
    own = {pair["name"]: pair["value"] for pair in container["env"]}
    count = job["spec"]["completions"]
    assert job["spec"]["completionMode"] == "Indexed" and own["WORKERS"] == str(count), (count, own)
    assert container_of(merge)["env"] == [pair for pair in container["env"] if pair["name"] == "OUTPUT"]
    here = {"MODEL": model, "OUTPUT": recipe.output}
    assert set(own) == {"WORKERS", *here}, own
    for index in range(count):
        recipe.run(with_flags(container["command"]), WORKERS=own["WORKERS"], JOB_COMPLETION_INDEX=str(index), **here)
    recipe.check_division(count, all_rows)
    recipe.run(container_of(merge)["command"], OUTPUT=recipe.output)
    check_failure_policy(job, container["name"])


def check_failure_policy(job, name):
    """What becomes of an index, by the exit code of its container: the first rule that holds."""
    rules = job["spec"]["podFailurePolicy"]["rules"]
    assert all(rule["onExitCodes"]["containerName"] == name for rule in rules if "onExitCodes" in rule)

    def action(code):
        held = [rule["action"] for rule in rules if code in rule.get("onExitCodes", {}).get("values", [])]
        return held[0] if held else "Count"

    wanted = {75: "Ignore", 65: "FailIndex", 69: "Count", 70: "Count", 74: "Count", 137: "Count"}
    wanted |= dict.fromkeys((64, 66, 73, 77, 78), "FailJob")
    assert {code: action(code) for code in wanted} == wanted
    pod = job["spec"]["template"]["spec"]
    # FailIndex and backoffLimitPerIndex ask for this; and the program may take 20 s to stop.
    assert pod["restartPolicy"] == "Never" and job["spec"]["backoffLimitPerIndex"] > 0
    assert pod["terminationGracePeriodSeconds"] > 20


def with_flags(command):
    """A container's shell command with the flags that make it short; the command itself stays as it is."""
    return [*command[:-1], command[-1].strip() + " " + " ".join(FLAGS[:2])]


def skypilot(recipe, jobs, model, all_rows):
    task = document(f"{jobs}/skypilot.yaml")
    assert task["resources"]["job_recovery"]["recover_on_exit_codes"] == [75]
    assert set(task["envs"]) == {"MODEL", "OUTPUT"}
    count = task["num_nodes"]
    for rank in range(count):
        recipe.run(with_flags(["bash", "-c", task["run"]]), SKYPILOT_NODE_RANK=str(rank), SKYPILOT_NUM_NODES=str(count), MODEL=model,
                   OUTPUT=recipe.output)
    recipe.check_division(count, all_rows)
    recipe.run(["vindex", "merge", recipe.output + ".parts", "-o", recipe.output])


def slurm_array(recipe, jobs, model, all_rows):
    """--array=5-9:2"""
    for task in (5, 7, 9):
        recipe.run(["bash", f"{jobs}/slurm-array.sh", model, recipe.output, *FLAGS], SLURM_ARRAY_TASK_ID=str(task), SLURM_ARRAY_JOB_ID="9",
                   SLURM_ARRAY_TASK_MIN="5", SLURM_ARRAY_TASK_STEP="2", SLURM_ARRAY_TASK_COUNT="3")
    recipe.check_division(3, all_rows)
    recipe.run(["bash", f"{jobs}/slurm-merge.sh", recipe.output])


def sge_array(recipe, jobs, model, all_rows):
    for task in (1, 2):
        recipe.run(["bash", f"{jobs}/sge-array.sh", model, recipe.output, *FLAGS], SGE_TASK_ID=str(task), SGE_TASK_FIRST="1", SGE_TASK_LAST="2")
    recipe.check_division(2, all_rows)
    recipe.run(["vindex", "merge", recipe.output + ".parts", "-o", recipe.output])


# srun as Slurm's: the command once per task.
SRUN = """\
#!/bin/bash
while [[ "$1" == --* ]]; do shift; done
for task in 0 1 2; do
  SLURM_PROCID=$task SLURM_NTASKS=3 SLURM_GTIDS=0,1,2 SLURM_CPUS_ON_NODE=2 "$@" || exit
done
"""


def with_srun(script):
    def run(recipe, jobs, model, all_rows):
        place = os.path.join(recipe.folder, "bin")
        os.mkdir(place)
        with open(os.path.join(place, "srun"), "w", encoding="utf-8") as file:
            file.write(SRUN)
        os.chmod(os.path.join(place, "srun"), 0o755)
        recipe.environment["PATH"] = f"{place}:{recipe.environment['PATH']}"
        # The script merges, and a merge of all rows removes the parts: it is kept from both to see them.
        recipe.run(["bash", "-c", f"sed '/^\"$vindex\" merge/d' {jobs}/{script} >workers.sh"])
        recipe.run(["bash", "workers.sh", model, recipe.output, *FLAGS], SLURM_JOB_ID="9", SLURM_MEM_PER_NODE="900")
        recipe.check_division(3, all_rows)
        recipe.run(["bash", f"{jobs}/{script}", model, recipe.output, *FLAGS], SLURM_JOB_ID="9", SLURM_MEM_PER_NODE="900")

    return run


def parallel(recipe, jobs, model, all_rows):
    recipe.run(["bash", "-c", f"sed '/^\"$vindex\" merge/d' {jobs}/parallel.sh >workers.sh"])
    recipe.run(["bash", "workers.sh", "3", ":", model, recipe.output, *FLAGS])
    recipe.check_division(3, all_rows)
    recipe.run(["bash", f"{jobs}/parallel.sh", "3", ":", model, recipe.output, *FLAGS])


def local(recipe, jobs, model, all_rows):
    recipe.run(["bash", f"{jobs}/local.sh", "3", model, recipe.output, *FLAGS])


RECIPES = {"kubernetes": kubernetes, "skypilot": skypilot, "slurm-array": slurm_array, "slurm-nodes": with_srun("slurm-nodes.sh"),
           "srun": with_srun("srun.sh"), "sge-array": sge_array, "parallel": parallel, "local": local}


def main():
    program, jobs, folder = map(os.path.abspath, sys.argv[1:])
    os.environ.pop("OPENBLAS_CORETYPE", None)  # workers have variables of their own: other kernels would give other last bits
    fresh_folder(folder)
    os.mkdir(os.path.join(folder, "bin"))
    os.symlink(program, os.path.join(folder, "bin", "vindex"))
    model, alone = os.path.join(folder, "model"), os.path.join(folder, "alone.h5")
    call(program, "synth", "kimi-k2-mini", "-o", model)
    call(program, "measure", model, "-o", alone, *FLAGS)
    all_rows = rows_of(alone)

    def table(path):
        call(program, "export", path, "--format", "csv", "-o", path + ".csv")
        with open(path + ".csv", encoding="utf-8") as file:
            return file.read()

    one = table(alone)
    done = []
    for name, run in RECIPES.items():
        if name == "parallel" and not shutil.which("parallel"):
            assert not os.environ.get("VINDEX_CLUSTER_REQUIRED"), "GNU parallel is not here"
            print("left out: GNU parallel is not here")
            continue
        recipe = Recipe(name, folder, program)
        run(recipe, jobs, model, all_rows)
        assert table(recipe.output) == one, f"{name}: other rows than one run's"
        done.append(name)
    print("every row once, and those of one run, from", ", ".join(done))


if __name__ == "__main__":
    main()
