"""Owns one use of the job scripts in a SlurmCluster: a results file, the arrays that make it, and what their tasks do meanwhile.

VINDEX names a script of this test, which notes what each start of a task finds around it and then becomes the program. On the
first start of the tasks that are to be hit, reads of weights take five seconds each after the headers and a few matrices
(tests/faults), so that such a task is found in mid-run on any machine, and goes on as slowly until something ends it."""

import json
import os
import re
import subprocess
import time

FAST_READS = 40  # headers of three files, then matrices: a part of every worker's share
STEP_SECONDS = 0.1

STARTED = """\
#!/bin/bash
if [[ "$1" == measure ]]; then
  task=${{SLURM_ARRAY_TASK_ID:-${{SLURM_PROCID:-}}}}
  start=${{SLURM_RESTART_COUNT:-0}}
  echo "task=$task start=$start memory=${{SLURM_MEM_PER_NODE:-}} gpus=${{CUDA_VISIBLE_DEVICES:-}}" >>"{notes}"
  if [[ $start == 0 && " $SLOW_TASKS " == *" $task "* ]]; then
    export LD_PRELOAD="{faults}" VINDEX_FAULT_CALLS=pread VINDEX_FAULT_PATH='*.safetensors' VINDEX_FAULT_AT={reads}
    export VINDEX_FAULT_TIMES=all VINDEX_FAULT_DO=delay=5000 VINDEX_FAULT_LOG="{notes}.reads.$task"
  fi
fi
exec "{program}" "$@"
"""


def wait_for(what, condition, seconds=90):
    """The first true value of `condition`; `what` is the message of the TimeoutError."""
    end = time.monotonic() + seconds
    while not (value := condition()):
        if time.monotonic() > end:
            raise TimeoutError(f"not within {seconds} s: {what}")
        time.sleep(STEP_SECONDS)
    return value


class ClusterRun:
    """Jobs of `cluster` that measure `model` into `name`.h5 in `folder`, by the scripts in the folder `jobs`."""

    def __init__(self, cluster, program, faults, jobs, folder, model, name):
        self.cluster, self.program, self.jobs, self.folder, self.model, self.name = cluster, program, jobs, folder, model, name
        self.output = os.path.join(folder, name + ".h5")
        self.notes = os.path.join(folder, name + ".notes")
        self.started = os.path.join(folder, name + ".sh")
        with open(self.started, "w", encoding="utf-8") as file:
            file.write(STARTED.format(notes=self.notes, faults=faults, reads=FAST_READS, program=program))
        os.chmod(self.started, 0o755)

    def submit(self, script, *options, slow=(), arguments=("--threads", "1", "--progress", "plain")):
        """The id of a job. `slow`: tasks whose first start is slow."""
        measured = [] if script == "slurm-merge.sh" else [self.model]
        arguments = () if script == "slurm-merge.sh" else arguments
        return self.cluster.call(
            "sbatch", "--parsable", f"--output={self.folder}/{self.name}-%x-%A_%a.out", *options, os.path.join(self.jobs, script),
            *measured, self.output, *arguments, cwd=self.folder,
            env={"VINDEX": self.started, "SLOW_TASKS": " ".join(map(str, slow))})

    def merge_after(self, job):
        return self.submit("slurm-merge.sh", f"--dependency=afterok:{job}", "--mem=500M", "--cpus-per-task=1")

    def start_notes(self):
        """One dictionary for every start of a worker so far."""
        if not os.path.exists(self.notes):
            return []
        with open(self.notes, encoding="utf-8") as file:
            return [dict(word.split("=", 1) for word in line.split()) for line in file]

    def log(self):
        """What the jobs of this run have written so far."""
        texts = []
        for name in sorted(os.listdir(self.folder)):
            if name.startswith(self.name + "-") and name.endswith(".out"):
                with open(os.path.join(self.folder, name), encoding="utf-8") as file:
                    texts.append(f"--- {name}\n{file.read()}")
        return "".join(texts)

    def wait_in_mid_run(self, *tasks):
        """Until each of the slow tasks reads slowly, and rows are done and not all."""
        def is_slow(task):
            path = f"{self.notes}.reads.{task}"
            if not os.path.exists(path):
                return False
            with open(path, encoding="utf-8") as file:
                return any(line.startswith("!") for line in file)

        for task in tasks:
            wait_for(f"{self.name}: task {task} in mid-run", lambda: is_slow(task))
        done = wait_for(f"{self.name}: rows done", self.done_count)
        assert 0 < done < self.status()["matrices_total"], self.status()

    def status(self):
        done = subprocess.run([self.program, "status", self.output, "--json"], capture_output=True, text=True, check=False)
        return json.loads(done.stdout) if done.returncode == 0 else None

    def done_count(self):
        status = self.status()
        return status["done"] if status else 0

    def worker_process(self, index, count):
        """Process id of a running worker, as its lock names it."""
        with open(f"{self.output}.parts/{index}of{count}.lock", encoding="utf-8") as file:
            return int(file.read().split()[1])  # HOST PROCESS START

    def state(self, job, task=None):
        """Slurm's word for where a job or a task of an array is: ["COMPLETED"], ...; of all tasks where none is named."""
        text = self.cluster.call("squeue", "--noheader", "--states=all", "--array", f"--job={job}", "--format=%K %T")
        return [state for number, state in map(str.split, text.splitlines()) if task is None or number == str(task)]

    def restarts(self, job, task):
        return int(re.search(r"Restarts=(\d+)", self.cluster.call("scontrol", "show", "job", f"{job}_{task}")).group(1))

    def wait_until(self, state, job, task=None):
        wait_for(f"{self.name}: {job}_{task} is {state}", lambda: set(self.state(job, task)) == {state})

    def start_again(self, job, task):
        """Waits until a task is queued again, then starts it without the two minutes that Slurm would wait. Not at once: slurmd
        refuses a start in the second in which it ended the earlier one ("Job credential revoked")."""
        wait_for(f"{self.name}: {job}_{task} queued again",
                 lambda: self.state(job, task) == ["PENDING"] and self.restarts(job, task) > 0)
        self.cluster.call("scontrol", "update", f"JobId={job}_{task}", "StartTime=now+3")
