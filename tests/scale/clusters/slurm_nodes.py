"""A real Slurm of two nodes on this machine, with accounting, unpacked from Debian's packages; nothing is installed.

It needs neither systemd nor cgroups. Everything it has is in one folder, its ports are free ones, and it is ended by
process id.
"""

import getpass
import os
import subprocess
from pathlib import Path
from types import TracebackType

from tests.object_server import free_ports
from tests.scale.clusters.process_trees import command_of, environment_of, kill, parent_of, processes, wait_until

PACKAGES = (
    *("slurmctld", "slurmd", "slurm-client", "slurm-wlm-basic-plugins", "slurm-wlm-mysql-plugin", "slurmdbd"),
    *("munge", "libmunge2", "libhwloc15", "liblua5.1-0", "libnuma1", "mariadb-server", "mariadb-server-core"),
    *("mariadb-client-core", "mariadb-common", "libmariadb3", "libaio1|libaio1t64", "liburing2"),
)
NODES = ("n1", "n2")
CORES = 2

DATABASE = """
SlurmUser={user}
AuthType=auth/munge
AuthInfo=socket={folder}/run/munge.socket
DbdHost=localhost
DbdAddr=127.0.0.1
DbdPort={dbd}
LogFile={folder}/log/slurmdbd.log
PidFile={folder}/run/slurmdbd.pid
PluginDir={plugins}
StorageType=accounting_storage/mysql
StorageHost=127.0.0.1
StoragePort={sql}
StorageUser=solfa
StoragePass=solfa
StorageLoc=solfa
"""
# A node is given up after ten seconds, and what ran on it may start again five seconds later.
CLUSTER = """
ClusterName=solfa
GresTypes=gpu
SlurmctldHost=localhost(127.0.0.1)
SlurmUser={user}
SlurmdUser={user}
AuthType=auth/munge
AuthInfo=socket={folder}/run/munge.socket,cred_expire=5
PluginDir={plugins}
SlurmctldPort={ctld}
SlurmctldPidFile={folder}/run/slurmctld.pid
SlurmdPidFile={folder}/run/slurmd.%n.pid
StateSaveLocation={folder}/state
SlurmdSpoolDir={folder}/spool/%n
SlurmctldLogFile={folder}/log/slurmctld.log
SlurmdLogFile={folder}/log/slurmd.%n.log
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
MpiDefault=none
SelectType=select/cons_tres
SelectTypeParameters=CR_Core
AccountingStorageType=accounting_storage/slurmdbd
AccountingStorageHost=127.0.0.1
AccountingStoragePort={dbd}
AccountingStoragePass={folder}/run/munge.socket
JobAcctGatherType=jobacct_gather/none
ReturnToService=2
SlurmdTimeout=10
KillWait=5
JobRequeue=1
SchedulerParameters=sched_interval=2,sched_min_interval=100000
SlurmdParameters=config_overrides
{nodes}
PartitionName=main Nodes=n1,n2 Default=YES MaxTime=INFINITE State=UP
"""


class SlurmCluster:
    """The daemons of a cluster, and commands for it."""

    def __init__(self, root: Path, folder: Path) -> None:
        self._root, self._folder = root, folder
        for name in ("run", "log", "state", "database", *(f"spool/{node}" for node in NODES)):
            (folder / name).mkdir(parents=True)
        libraries = root / f"usr/lib/{os.uname().machine}-linux-gnu"
        self._daemons: dict[str, subprocess.Popen[bytes]] = {}
        self._plugins = libraries / "slurm-wlm"
        self.environment = {
            "LD_LIBRARY_PATH": f"{libraries}:{self._plugins}",
            "PATH": f"{root}/usr/bin:{root}/usr/sbin:{folder}/bin:{os.environ['PATH']}",
            "SLURM_CONF": f"{folder}/slurm.conf",
        }
        self._configure()

    def _configure(self) -> None:
        ctld, dbd, self._sql, *ports = free_ports(3 + len(NODES))
        nodes = [
            f"NodeName={name} NodeHostname=localhost NodeAddr=127.0.0.1 Port={port} CPUs={CORES} Gres=gpu:2 "
            "RealMemory=64000"
            for name, port in zip(NODES, ports, strict=True)
        ]
        values = {"user": getpass.getuser(), "folder": self._folder, "plugins": self._plugins}
        values |= {"ctld": ctld, "dbd": dbd, "sql": self._sql, "nodes": "\n".join(nodes)}
        for name, text in {"slurm.conf": CLUSTER, "slurmdbd.conf": DATABASE}.items():
            (self._folder / name).write_text(text.format(**values))
            (self._folder / name).chmod(0o600)
        # Slurm only hands out what stands in /dev; which device it is does not matter to it.
        devices = [f"NodeName={','.join(NODES)} Name=gpu File=/dev/{device}\n" for device in ("null", "zero")]
        (self._folder / "gres.conf").write_text("".join(devices))
        key = self._folder / "munge.key"
        key.write_bytes(os.urandom(1024))
        key.chmod(0o400)
        # The daemons look at what they are called, and read less of their configuration under the names of Debian.
        (self._folder / "bin").mkdir()
        for name in ("slurmd", "slurmctld", "slurmstepd"):
            (self._folder / "bin" / name).symlink_to(self._root / f"usr/sbin/{name}-wlm")

    def run(self, *command: object, check: bool = True, **more: str) -> str:
        """Run a command of Slurm, or with it; return what it printed."""
        done = subprocess.run(
            list(map(str, command)),
            env={**os.environ, **self.environment, **more},
            capture_output=True,
            text=True,
            timeout=300,
            check=False,
        )
        assert not check or done.returncode == 0, f"{command}: {done.stdout}{done.stderr}"
        return done.stdout

    def _start(self, name: str, *command: object) -> None:
        """Start a daemon in the foreground, so that it is a process of ours."""
        with (self._folder / f"log/{name}.out").open("wb") as log:
            self._daemons[name] = subprocess.Popen(
                list(map(str, command)),
                env={**os.environ, **self.environment},
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,
            )

    def _wait_for(self, daemon: str, *command: object, printed: str = "") -> None:
        """Wait until a command succeeds and prints what is expected."""

        def answered() -> bool:
            assert self._daemons[daemon].poll() is None, self.log(daemon)
            done = subprocess.run(
                list(map(str, command)), env={**os.environ, **self.environment}, capture_output=True, text=True
            )
            return done.returncode == 0 and printed in done.stdout

        wait_until(answered, 60)

    def log(self, daemon: str) -> str:
        """Read what a daemon has to say."""
        files = [self._folder / f"log/{daemon}.out", *(self._folder / "log").glob(f"{daemon.replace('-', '*')}*.log")]
        return "\n".join(path.read_text(errors="replace")[-4000:] for path in files if path.exists())

    def __enter__(self) -> "SlurmCluster":
        try:
            self._start_database()
            run = self._folder / "run"
            self._start(
                "munged", "munged", "--force", "--foreground", f"--key-file={self._folder}/munge.key",
                f"--socket={run}/munge.socket", f"--pid-file={run}/munged.pid", f"--seed-file={run}/munged.seed",
                f"--log-file={self._folder}/log/munged.log",
            )  # fmt: skip
            self._wait_for("munged", "munge", "-n", "-S", run / "munge.socket", printed="MUNGE")
            self._start("slurmdbd", "slurmdbd", "-D")
            self._wait_for("slurmdbd", "sacctmgr", "-i", "show", "cluster")
            self.run("sacctmgr", "-i", "add", "cluster", "solfa")
            self._start("slurmctld", "slurmctld", "-D", "-c")
            for node in NODES:
                self.start_node(node)
            for node in NODES:
                self.wait_for_node(node, "idle")
        except BaseException:
            self.stop()
            raise
        return self

    def _start_database(self) -> None:
        data, basis = self._folder / "database", self._root / "usr"
        own = ["--no-defaults", f"--basedir={basis}", f"--datadir={data}", f"--user={getpass.getuser()}"]
        shared = f"--lc-messages-dir={basis}/share/mysql"
        self.run(basis / "bin/mariadb-install-db", *own, "--auth-root-authentication-method=normal", shared)
        self._start(
            "mariadbd", basis / "sbin/mariadbd", *own, shared, f"--port={self._sql}", "--bind-address=127.0.0.1",
            f"--socket={self._folder}/run/sql", f"--pid-file={self._folder}/run/mariadbd.pid",
            f"--plugin-dir={basis}/lib/mysql/plugin", "--skip-name-resolve",
            "--innodb-lock-wait-timeout=900", "--innodb-flush-log-at-trx-commit=0",
        )  # fmt: skip
        client = [basis / "bin/mariadb", "--no-defaults", f"--socket={self._folder}/run/sql", "-uroot", "-e"]
        self._wait_for("mariadbd", *client, "select 'ready'", printed="ready")
        self.run(
            *client,
            "create user 'solfa'@'127.0.0.1' identified by 'solfa'; grant all on solfa.* to 'solfa'@'127.0.0.1'",
        )

    def start_node(self, node: str) -> None:
        """Start the daemon of a node."""
        conf, step = f"{self._folder}/slurm.conf", f"{self._folder}/bin/slurmstepd"
        self._start(node, "slurmd", "-D", "-N", node, "-c", "-d", step, "-f", conf)

    def wait_for_node(self, node: str, state: str) -> None:
        """Wait until the controller takes a node to be in a state."""
        self._wait_for("slurmctld", "sinfo", "-h", "-n", node, "-o", "%T", printed=state)

    def kill_node(self, node: str) -> None:
        """Kill the daemon of a node and all that runs there, as a power cut does."""
        daemon = self._daemons.pop(node)
        mine = {"SLURMD_NODENAME": node, "SLURM_CONF": self.environment["SLURM_CONF"]}
        tasks = [pid for pid in processes() if mine.items() <= environment_of(pid).items()]
        steps = {parent for pid in tasks if "slurmstepd" in command_of(parent := parent_of(pid))}
        assert tasks and steps, "nothing runs on that node"
        kill(daemon.pid, *steps, *tasks)
        daemon.wait()

    def state(self, job: str) -> str:
        """Ask the accounting for the state of a job."""
        return self.run("sacct", "-X", "-n", "-P", "-j", job, "-o", "State").strip()

    def wait_for_job(self, job: str, seconds: float = 300.0) -> None:
        """Wait until the accounting says that all of a job is over, and well."""
        ends = ("COMPLETED", "FAILED", "CANCELLED", "TIMEOUT")

        def is_over() -> bool:
            states = self.state(job).split("\n")
            return all(state.startswith(ends) for state in states)

        wait_until(is_over, seconds)
        assert set(self.state(job).split()) == {"COMPLETED"}, self.state(job)

    def stop(self) -> None:
        """End all daemons; the controller first, so that it does not mourn the others."""
        for name in ("slurmctld", *NODES, "slurmdbd", "munged", "mariadbd"):
            daemon = self._daemons.pop(name, None)
            if daemon is not None:
                daemon.kill()
                daemon.wait()
        for pid in processes():
            if environment_of(pid).get("SLURM_CONF") == self.environment["SLURM_CONF"]:
                kill(pid)

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()
