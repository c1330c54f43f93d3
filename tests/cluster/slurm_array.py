"""Runs the job scripts for Slurm on a real Slurm (slurm_cluster.py): tasks are killed, queued again, cancelled and warned of
their time limit in mid-run, and what is merged afterwards is what one run gives, dataset by dataset.

Usage: slurm_array.py VINDEX FAULTS_LIBRARY JOBS_FOLDER SCRIPTS_FOLDER FOLDER. Takes half a minute, nearly all of it Slurm's:
the time limit is looked at every thirty seconds. 77: Slurm is not here; a failure where VINDEX_CLUSTER_REQUIRED is set."""

import os
import signal
import sys
import traceback

import h5py
from test_script import call, fresh_folder

from slurm_cluster import SlurmCluster, missing_packages
from slurm_jobs import ClusterRun

# What a file says of the runs that made it, and not of the model.
OF_THE_RUN = ("/run/command", "/run/environment", "/run/settings", "@history")
SMALL = ("--cpus-per-task=1", "--mem=640M")
NO_GPU = (*SMALL, "--gpus-per-task=0")


class Killed:
    """An array of four with a GPU each: the worker of one task is killed, another task is queued again by hand."""

    def __init__(self, run):
        self.run = run
        self.job = run.submit("slurm-array.sh", "--array=0-3", *SMALL, slow=(1, 2))
        self.merge = run.merge_after(self.job)

    def hit(self):
        self.run.wait_in_mid_run(1, 2)
        os.kill(self.run.worker_process(1, 4), signal.SIGKILL)
        self.run.cluster.call("scontrol", "requeue", f"{self.job}_2")

    def finish(self):
        for task in (1, 2):
            self.run.start_again(self.job, task)
        self.run.wait_until("COMPLETED", self.job)
        self.run.wait_until("COMPLETED", self.merge)
        starts = self.run.start_notes()
        assert sorted((note["task"], note["start"]) for note in starts) == [
            ("0", "0"), ("1", "0"), ("1", "1"), ("2", "0"), ("2", "1"), ("3", "0")], starts
        # One GPU for each, and never one for two: these two ran at the same time.
        gpus = [note["gpus"] for note in starts if note["task"] in "12" and note["start"] == "0"]
        assert all(gpu.isdigit() for gpu in gpus) and len(set(gpus)) == 2, starts
        # The killed worker had published nothing, the other one what it had finished.
        assert "stopped early by SIGTERM" in self.run.log(), self.run.log()


class OutOfTime:
    """An array of two whose time limit comes in mid-run: the warning ends it with 75, and it queues itself again."""

    def __init__(self, run):
        self.run = run
        self.job = run.submit("slurm-array.sh", "--array=3-5:2", "--time=1", "--signal=B:USR1@60", *NO_GPU, slow=(3, 5))
        self.merge = run.merge_after(self.job)

    def hit(self):
        self.run.wait_in_mid_run(3, 5)

    def finish(self):
        for task in (3, 5):
            self.run.start_again(self.job, task)
        self.run.wait_until("COMPLETED", self.job)
        self.run.wait_until("COMPLETED", self.merge)
        log = self.run.log()
        assert log.count("stopped early by SIGUSR1") == 2, log
        assert log.count("resuming: ") == 2, log
        starts = self.run.start_notes()
        assert len(starts) == 4 and all(note["gpus"] == "" for note in starts), starts


class Cancelled:
    """scancel of a whole array in mid-run: nothing comes back by itself, and a later array of another size goes on."""

    def __init__(self, run):
        self.run = run
        self.job = run.submit("slurm-array.sh", "--array=0-1", *NO_GPU, slow=(0, 1))
        self.merge = None

    def hit(self):
        self.run.wait_in_mid_run(0, 1)
        self.run.cluster.call("scancel", self.job)

    def finish(self):
        self.run.wait_until("CANCELLED", self.job)
        kept = self.run.done_count()
        assert 0 < kept < self.run.status()["matrices_total"], kept
        later = self.run.submit("slurm-array.sh", "--array=1-3", *NO_GPU)
        self.merge = self.run.merge_after(later)
        self.run.wait_until("COMPLETED", later)
        self.run.wait_until("COMPLETED", self.merge)
        assert f"resuming: {kept} of " in self.run.log(), self.run.log()
        # By now Slurm would have taken back what a requeue had asked for.
        assert set(self.run.state(self.job)) == {"CANCELLED"}, self.run.state(self.job)
        assert len(self.run.start_notes()) == 5, self.run.start_notes()


def check_array_with_gaps(run):
    """--array=0,2,7: there is no worker 7 of 3."""
    job = run.submit("slurm-array.sh", "--array=0,2,7", *NO_GPU)
    run.wait_until("FAILED", job, 7)
    assert "takes a range" in run.log(), run.log()


def check_memory(run):
    """The budget is three quarters of Slurm's limit of 640 MiB, and the file says so."""
    with h5py.File(run.output) as file:
        settings = file["run/settings"].asstr()[()]
    assert '"ram_budget_bytes": 503316480' in settings, settings
    assert "SLURM_MEM_PER_NODE" in settings, settings


def check_srun(run):
    """Three tasks of one node in an allocation, which share its memory: 900 MiB * 3/4 / 3."""
    run.cluster.call("salloc", "--ntasks=3", "--mem=900M", os.path.join(run.jobs, "srun.sh"), run.model, run.output,
                     "--threads", "1", "--progress", "none", cwd=run.folder, env={"VINDEX": run.started})
    assert sorted(note["task"] for note in run.start_notes()) == ["0", "1", "2"], run.start_notes()
    with h5py.File(run.output) as file:
        assert '"ram_budget_bytes": 235929600' in file["run/settings"].asstr()[()], file["run/settings"][()]


def check_nodes(run):
    """All workers in one job, whose script merges too."""
    job = run.submit("slurm-nodes.sh", "--ntasks-per-node=2", "--mem=900M")
    run.wait_until("COMPLETED", job)
    assert sorted(note["task"] for note in run.start_notes()) == ["0", "1"], run.start_notes()


def main():
    program, faults, jobs, scripts, folder = map(os.path.abspath, sys.argv[1:])
    reason = missing_packages()
    if reason:
        print("skipped:", reason)
        sys.exit(1 if os.environ.get("VINDEX_CLUSTER_REQUIRED") else 77)
    sys.path.insert(0, scripts)
    from same_results_files import hdf5_differences

    fresh_folder(folder)
    model, alone = os.path.join(folder, "model"), os.path.join(folder, "alone.h5")
    call(program, "synth", "kimi-k2-mini", "-o", model)
    call(program, "measure", model, "-o", alone, "--threads", "1", "--progress", "none")
    runs = []

    def new_run(name):
        runs.append(ClusterRun(cluster, program, faults, jobs, folder, model, name))
        return runs[-1]

    def compare(run):
        differences = [line for line in hdf5_differences(alone, run.output) if not line.startswith(OF_THE_RUN)]
        assert not differences, f"{run.name} and one run differ: {differences}"

    with SlurmCluster() as cluster:
        try:
            # All at once, and the rest while the time limit is waited for.
            out_of_time, killed, cancelled = cases = [kind(new_run(kind.__name__.lower())) for kind in (OutOfTime, Killed, Cancelled)]
            for case in cases:
                case.hit()
            cancelled.finish()
            killed.finish()
            check_memory(killed.run)
            check_array_with_gaps(new_run("gaps"))
            runs.pop()
            check_srun(new_run("srun"))
            for run in (cancelled.run, killed.run, runs[-1]):
                compare(run)
            out_of_time.finish()
            check_nodes(new_run("nodes"))  # has the node to itself
            for run in (out_of_time.run, runs[-1]):
                compare(run)
        except Exception:
            traceback.print_exc()
            for run in runs:
                print(run.log(), file=sys.stderr)
            print(cluster.call("squeue", "--states=all", "--array", check=False), file=sys.stderr)
            raise
    print("the same from", ", ".join(run.name for run in runs), "as from one run")


if __name__ == "__main__":
    main()
