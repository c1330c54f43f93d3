"""Owns a Slurm cluster of one node for the life of a test: munged, slurmctld and slurmd in the foreground, with their own
key, sockets, ports, state and logs in one folder, beside whatever else runs on the machine.

Needs Debian's packages slurmctld, slurmd, slurm-client and munge, and root or any other user, who then owns the jobs too. The
node claims more cores and memory than the machine may have, and GPUs that are devices every machine has: Slurm binds and
counts them, nothing opens them. No control groups: a container may mount them read-only, or not at all."""

import contextlib
import ctypes
import getpass
import os
import secrets
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time

NODE_CORES = 16
NODE_MEMORY_MIB = 16000
GPU_FILES = ["/dev/null", "/dev/zero", "/dev/full", "/dev/random"]
KILL_WAIT_SECONDS = 20  # from SIGTERM to SIGKILL; what the program promises to need at most

# linux/prctl.h
PR_SET_PDEATHSIG = 1
PR_SET_CHILD_SUBREAPER = 36

SLURM_CONF = """\
ClusterName=test
SlurmctldHost={host}(127.0.0.1)
SlurmUser={user}
SlurmdUser={user}
AuthType=auth/munge
AuthInfo=socket={folder}/munge.socket
CredType=cred/munge
SlurmctldPort={controller_port}
SlurmdPort={node_port}
SlurmctldPidFile={folder}/slurmctld.pid
SlurmdPidFile={folder}/slurmd.pid
StateSaveLocation={folder}/state
SlurmdSpoolDir={folder}/spool
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
JobAcctGatherType=jobacct_gather/none
MpiDefault=none
SelectType=select/cons_tres
SelectTypeParameters=CR_Core_Memory
SchedulerParameters=sched_interval=1,sched_min_interval=100000,batch_sched_delay=0,bf_interval=1
KillWait={kill_wait}
ReturnToService=2
GresTypes=gpu
SlurmdParameters=config_overrides
NodeName={host} NodeAddr=127.0.0.1 CPUs={cores} Boards=1 SocketsPerBoard=1 CoresPerSocket={cores} ThreadsPerCore=1 \
RealMemory={memory} Gres=gpu:{gpus} State=UNKNOWN
PartitionName=test Nodes=ALL Default=YES MaxTime=INFINITE OverTimeLimit=0 State=UP
"""


def missing_packages():
    """Why no cluster can be started here, or nothing."""
    programs = ["munged", "slurmctld", "slurmd", "sbatch", "srun", "scancel", "scontrol", "squeue"]
    missing = [name for name in programs if not find(name)]
    if missing:
        return f"{', '.join(missing)} not found: on Debian, apt-get install slurmctld slurmd slurm-client munge"
    return None


def find(name):
    """Path of a program, also where only root has its folder on the PATH."""
    return shutil.which(name, path=os.environ.get("PATH", "") + ":/usr/sbin:/sbin")


def free_ports(count):
    """TCP ports that nothing listens on at this moment."""
    with contextlib.ExitStack() as stack:
        sockets = [stack.enter_context(socket.socket()) for _ in range(count)]
        for one in sockets:
            one.bind(("127.0.0.1", 0))
        return [one.getsockname()[1] for one in sockets]


def descendants(root):
    """Process ids of all that `root` has started, and of what those have."""
    parents = {}
    for name in filter(str.isdigit, os.listdir("/proc")):
        with contextlib.suppress(OSError):
            with open(f"/proc/{name}/stat", encoding="utf-8", errors="replace") as file:
                parents[int(name)] = int(file.read().rpartition(")")[2].split()[1])
    found, frontier = [], {root}
    while frontier:
        frontier = {child for child, parent in parents.items() if parent in frontier}
        found += sorted(frontier)
    return found


class SlurmCluster:
    """A context manager; `environment` is what Slurm's commands need to find this cluster and no other."""

    def __init__(self):
        self.folder = None
        self.environment = None
        self.daemons = {}
        self.libc = ctypes.CDLL(None, use_errno=True)

    def __enter__(self):
        # Steps of jobs are no children of their slurmd: whoever outlives his parent becomes a child of this process.
        self.libc.prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
        signal.signal(signal.SIGTERM, lambda number, frame: sys.exit(128 + number))
        self.folder = tempfile.mkdtemp(prefix="slurm-")  # short: a socket's path has 107 bytes
        os.chmod(self.folder, 0o711)  # munged asks for it; what is secret has 0600
        try:
            self._configure()
            self._start()
        except BaseException:
            self.print_logs()
            self._end()
            raise
        return self

    def __exit__(self, kind, error, trace):
        if kind is not None:
            self.print_logs()
        self._end()

    def call(self, *command, check=True, **options):
        """Standard output of one of Slurm's commands, or of another one in its environment."""
        done = subprocess.run([*map(str, command)], env=self.environment | options.pop("env", {}), text=True,
                              capture_output=True, check=False, timeout=60, **options)
        if check and done.returncode != 0:
            raise RuntimeError(f"{command} ended with {done.returncode}: {done.stdout}{done.stderr}")
        return done.stdout.strip()

    def print_logs(self):
        """The last lines of every daemon's log, for whoever looks at a failed test."""
        for name in ("munged", "slurmctld", "slurmd"):
            with contextlib.suppress(OSError):
                with open(os.path.join(self.folder, name + ".log"), encoding="utf-8", errors="replace") as file:
                    print(f"--- {name}\n" + "".join(file.readlines()[-40:]), file=sys.stderr)

    def _configure(self):
        for name in ("state", "spool"):
            os.mkdir(os.path.join(self.folder, name))
        controller_port, node_port = free_ports(2)
        files = {
            "munge.key": secrets.token_bytes(128),
            # Nothing uses the plugin; to find out by itself which one fits, slurmd asks for a mounted /sys/fs/cgroup.
            "cgroup.conf": b"CgroupAutomount=no\nCgroupPlugin=cgroup/v1\n",
            "gres.conf": "".join(f"Name=gpu File={file}\n" for file in GPU_FILES).encode(),
            "slurm.conf": SLURM_CONF.format(
                host=socket.gethostname().split(".")[0], user=getpass.getuser(), folder=self.folder,
                controller_port=controller_port, node_port=node_port, cores=NODE_CORES, memory=NODE_MEMORY_MIB,
                gpus=len(GPU_FILES), kill_wait=KILL_WAIT_SECONDS).encode(),
        }
        for name, content in files.items():
            with open(os.open(os.path.join(self.folder, name), os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as file:
                file.write(content)
        # Variables of a job that this test itself may run in would describe another cluster.
        kept = {name: value for name, value in os.environ.items() if not name.startswith(("SLURM_", "SBATCH_", "SRUN_"))}
        self.environment = kept | {"SLURM_CONF": os.path.join(self.folder, "slurm.conf")}

    def _start(self):
        at = lambda name: os.path.join(self.folder, name)
        self._daemon("munged", "--foreground", "--key-file", at("munge.key"), "--socket", at("munge.socket"),
                     "--pid-file", at("munged.pid"), "--seed-file", at("munge.seed"), "--log-file", at("munged.log"))
        self._wait("munged", lambda: os.path.exists(at("munge.socket")))
        self._daemon("slurmctld", "-D", "-i", "-f", at("slurm.conf"))
        self._daemon("slurmd", "-D", "-f", at("slurm.conf"))
        self._wait("slurmd", lambda: self.call("sinfo", "--noheader", "--format=%T", check=False) == "idle")

    def _daemon(self, name, *arguments):
        def die_with_parent():
            self.libc.prctl(PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)

        with open(os.path.join(self.folder, name + ".log"), "ab") as log:
            self.daemons[name] = subprocess.Popen([find(name), *arguments], stdin=subprocess.DEVNULL, stdout=log, stderr=log,
                                                  env=self.environment, preexec_fn=die_with_parent)

    def _wait(self, name, is_ready, seconds=30):
        end = time.monotonic() + seconds
        while not is_ready():
            for daemon, process in self.daemons.items():
                if process.poll() is not None:
                    raise RuntimeError(f"{daemon} ended with {process.returncode} while the cluster was started")
            if time.monotonic() > end:
                raise RuntimeError(f"{name} was not ready within {seconds} s")
            time.sleep(0.05)

    def _end(self):
        """Ends daemons and jobs, however they are, and removes the folder."""
        for name in ("slurmd", "slurmctld", "munged"):
            if name in self.daemons:
                self.daemons[name].kill()
                self.daemons[name].wait()
        # What a killed process leaves is a child of this one by then, and may have started another meanwhile.
        while left := descendants(os.getpid()):
            for process in left:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(process, signal.SIGKILL)
            with contextlib.suppress(ChildProcessError):
                while os.waitpid(-1, os.WNOHANG)[0] != 0:
                    pass
            time.sleep(0.01)
        shutil.rmtree(self.folder, ignore_errors=True)
