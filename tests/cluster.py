"""A SLURM of two nodes on this machine, in a folder of its own; it ends with its test.

The daemons and all jobs live in one namespace of processes: a single kill ends them, and the kernel
does that if the tests are killed. All traffic stays on 127.0.0.1.
"""

from __future__ import annotations

import os
import secrets
import shutil
import signal
import socket
import subprocess
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

NODES = ("node1", "node2")
_CONFIGURATION = """
ClusterName=one
SlurmctldHost=localhost(127.0.0.1)
SlurmctldPort={ports[0]}
SlurmUser=root
SlurmdUser=root
AuthType=auth/munge
AuthInfo=socket={folder}/munge/socket,cred_expire=5
CredType=cred/munge
MpiDefault=none
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
JobAcctGatherType=jobacct_gather/none
SelectType=select/cons_tres
SelectTypeParameters=CR_CPU
SchedulerParameters=sched_interval=1,bf_interval=1,sched_min_interval=0
PreemptType=preempt/partition_prio
PreemptMode=REQUEUE
CommunicationParameters=NoInAddrAny,NoCtldInAddrAny
SlurmdParameters=config_overrides
ReturnToService=2
KillWait=5
MinJobAge=600
StateSaveLocation={folder}/state
SlurmdSpoolDir={folder}/spool-%n
SlurmctldPidFile={folder}/slurmctld.pid
SlurmdPidFile={folder}/slurmd-%n.pid
SlurmctldLogFile={folder}/slurmctld.log
SlurmdLogFile={folder}/slurmd-%n.log
NodeName=node1 NodeHostname={host} NodeAddr=127.0.0.1 Port={ports[1]} CPUs=4
NodeName=node2 NodeHostname={host} NodeAddr=127.0.0.1 Port={ports[2]} CPUs=4
PartitionName=usual Nodes=node1,node2 Default=YES State=UP PriorityTier=1
PartitionName=urgent Nodes=node1,node2 State=UP PriorityTier=2
"""
_DAEMONS = """
mount --bind hosts /etc/hosts
munged --force --key-file="$PWD/munge/key" --socket="$PWD/munge/socket" \
    --pid-file="$PWD/munge/pid" --log-file="$PWD/munge/log" --seed-file="$PWD/munge/seed" || exit 1
slurmctld -D &
slurmd -D -N node1 &
slurmd -D -N node2 &
while true; do wait; sleep 1; done  # collect what jobs leave
"""


class NoSlurmError(Exception):
    """SLURM is not installed, or does not start here; the message says why."""


@dataclass(frozen=True)
class Cluster:
    """A running SLURM.

    Attributes:
        folder: Holds its configuration, its state and its logs.
    """

    folder: Path

    @property
    def environment(self) -> dict[str, str]:
        """The variables by which its commands find it."""
        return {"SLURM_CONF": str(self.folder / "slurm.conf")}

    def call(self, *command: str, **variables: str) -> str:
        """Run a command of SLURM, such as `sbatch`; return what it prints."""
        done = subprocess.run(
            command,
            env={**os.environ, **self.environment, **variables},
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout

    def submit(self, *arguments: str, **variables: str) -> int:
        """Call `sbatch`; return the number of the job."""
        return int(self.call("sbatch", "--parsable", *arguments, **variables))

    def known(self, job: int | str) -> dict[str, str]:
        """What SLURM knows of a job, such as its `JobState`."""
        line = self.call("scontrol", "--oneliner", "show", "job", str(job))
        return dict(pair.partition("=")[::2] for pair in line.split() if "=" in pair)

    def wait(self, job: int | str, *states: str, seconds: float = 120) -> dict[str, str]:
        """Wait until a job is in one of the states; return what is known of it then."""
        end = time.monotonic() + seconds
        while (known := self.known(job))["JobState"] not in states:
            assert time.monotonic() < end, f"{known} after {seconds} s"
            time.sleep(0.2)
        return known


@contextmanager
def cluster(folder: Path) -> Iterator[Cluster]:
    """Start a SLURM in a folder, and end it with all its jobs.

    Raises:
        NoSlurmError: it cannot start here.
    """
    programs = ("munged", "slurmctld", "slurmd", "sbatch", "unshare", "setpriv")
    path = os.pathsep.join([os.environ["PATH"], "/usr/sbin"])
    if absent := [name for name in programs if shutil.which(name, path=path) is None]:
        raise NoSlurmError(f"{', '.join(absent)} not found (Debian: slurm-wlm, munge)")
    if os.geteuid() != 0:
        raise NoSlurmError("only root may start SLURM's daemons")
    here = Cluster(_prepare(folder))
    with (folder / "daemons.log").open("w") as log:
        namespace = ["unshare", "--pid", "--fork", "--kill-child", "--mount-proc"]
        daemons = subprocess.Popen(
            ["setpriv", "--pdeathsig", "KILL", *namespace, "bash", "-c", _DAEMONS],
            cwd=folder,
            env={**os.environ, **here.environment, "PATH": path},
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
        )
        try:
            _wait_for_nodes(here, daemons)
            yield here
        finally:
            daemons.send_signal(signal.SIGKILL)
            daemons.wait()


def _prepare(folder: Path) -> Path:
    """Write configuration, key and names into a folder; return the folder."""
    names = ("state", "munge", *(f"spool-{node}" for node in NODES))
    for place in (folder, *(folder / name for name in names)):
        place.mkdir(mode=0o755, parents=True, exist_ok=True)
    with ExitStack() as stack:
        free = [stack.enter_context(socket.socket()) for _ in range(3)]
        for each in free:
            each.bind(("127.0.0.1", 0))
        ports = [each.getsockname()[1] for each in free]
    host = socket.gethostname().partition(".")[0]
    text = _CONFIGURATION.format(folder=folder, host=host, ports=ports)
    (folder / "slurm.conf").write_text(text)
    (folder / "hosts").write_text(f"127.0.0.1 localhost {host} {' '.join(NODES)}\n")
    (folder / "munge" / "key").write_bytes(secrets.token_bytes(1024))
    (folder / "munge" / "key").chmod(0o600)
    return folder


def _wait_for_nodes(here: Cluster, daemons: subprocess.Popen[bytes]) -> None:
    end = time.monotonic() + 30
    while time.monotonic() < end and daemons.poll() is None:
        found = subprocess.run(
            ["sinfo", "--noheader", "--Node", "--partition=usual", "--format=%T"],
            env={**os.environ, **here.environment},
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )
        if found.stdout.split() == ["idle"] * len(NODES):
            return
        time.sleep(0.3)
    said = (here.folder / "daemons.log").read_text().splitlines()
    raise NoSlurmError(f"SLURM does not start: {'; '.join(said[-3:])}")
