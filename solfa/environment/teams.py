"""Teams: one YAML file each, which says where experiments, references and datasets are on each cluster.

    SOLFA_TEAM           the file teams/NAME.yaml in a folder of SOLFA_SEARCH_PATH or in solfa/conf; `default` if unset
    SOLFA_CONFIG         the path of a team's file, instead
    SOLFA_CLUSTER        which of its clusters this is, if it cannot be recognised
    SOLFA_DORA_DIR       where experiments are kept, whatever the file says
    SOLFA_REFERENCE_DIR  what `//reference` stands for, whatever the file says

Each also works with the prefix AUDIOCRAFT_; if both are set, SOLFA_ wins.
"""

import logging
import platform
import shutil
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from solfa.config import nearest, parse_config
from solfa.environment.clusters import DEFAULT, ClusterConfig, detect_cluster
from solfa.environment.person import data_directory, expand_text
from solfa.environment.search_path import listed_folders
from solfa.errors import ConfigError

logger = logging.getLogger(__name__)

CONF = Path(__file__).parents[1] / "conf"


@dataclass(frozen=True)
class Environment:
    """Where this team works on this cluster."""

    team: str
    team_file: Path
    cluster: str
    dora_dir: Path
    reference_dir: Path | None
    """What `//reference` stands for, if anything."""
    partitions: Mapping[str, str]
    slurm_exclude: str | None
    dataset_mappers: Mapping[str, str]
    """Regular expression to replacement, applied in this order."""

    @property
    def xps_dir(self) -> Path:
        """The folder that holds the experiments' folders."""
        return self.dora_dir / "xps"

    def partition(self, *kinds: str) -> str | None:
        """Return the Slurm partitions of some kinds (default `global`); None leaves the choice to Slurm."""
        if not self.partitions:
            return None
        for kind in kinds:
            if kind not in self.partitions:
                raise ConfigError(
                    f"partition {kind!r}: team {self.team!r} has {_listed(self.partitions)} on the cluster "
                    f"{self.cluster!r}{nearest(kind, self.partitions)}"
                )
        names = [self.partitions[kind] for kind in kinds or ("global",) if kind in self.partitions]
        return ",".join(names) or None

    def variables(self) -> dict[str, str]:
        """Write it as variables, so that a job started from here finds the same environment on another host."""
        found = {
            "SOLFA_TEAM": self.team,
            "SOLFA_CONFIG": str(self.team_file),
            "SOLFA_CLUSTER": self.cluster,
            "SOLFA_DORA_DIR": str(self.dora_dir),
        }
        if self.reference_dir is not None:
            found["SOLFA_REFERENCE_DIR"] = str(self.reference_dir)
        return found


def load_environment(
    environ: Mapping[str, str],
    conf_dir: Path | None = None,
    *,
    system: str | None = None,
    hostname: str | None = None,
) -> Environment:
    """Find out where we are from variables, the team's file and the machine; no folder is read or created.

    >>> from solfa.environment import load_environment
    >>> load_environment({"SOLFA_DORA_DIR": "/data/solfa", "HOME": "/home/ada"}).xps_dir.as_posix()
    '/data/solfa/xps'
    """
    system, hostname = system or platform.system(), hostname if hostname is not None else platform.node()
    path, team = _team_file(environ, [*listed_folders(environ), conf_dir or CONF])
    clusters = read_team(path)
    name = _variable(environ, "CLUSTER")
    if name is None:
        rules = {name: cluster.hosts for name, cluster in clusters.items()}
        has_sbatch = shutil.which("sbatch", path=environ.get("PATH", "")) is not None
        name = detect_cluster(environ, system, hostname, rules, has_sbatch=has_sbatch)
    if name not in clusters:
        known = f"{path} has {_listed(clusters)}"
        if name == DEFAULT:
            raise ConfigError(f"cluster: this machine is not recognised, {known}; set SOLFA_CLUSTER to one of them")
        raise ConfigError(f"cluster {name!r}: {known}{nearest(name, clusters)}")
    cluster = clusters[name]
    dora_dir = _place(environ, "DORA_DIR", cluster.dora_dir, f"{path}: {name}.dora_dir")
    return Environment(
        team=team,
        team_file=path,
        cluster=name,
        dora_dir=dora_dir or data_directory(environ, system),
        reference_dir=_place(environ, "REFERENCE_DIR", cluster.reference_dir, f"{path}: {name}.reference_dir"),
        partitions=dict(cluster.partitions),
        slurm_exclude=cluster.slurm_exclude,
        dataset_mappers={
            pattern: expand_text(replacement, environ, f"{path}: {name}.dataset_mappers")
            for pattern, replacement in cluster.dataset_mappers.items()
        },
    )


def read_team(path: Path) -> dict[str, ClusterConfig]:
    """Read a team's file: the settings of each cluster by name."""
    import yaml  # type: ignore[import-untyped]

    try:
        values = yaml.safe_load(path.read_text(encoding="utf-8"))
    except yaml.YAMLError as fault:
        raise ConfigError(f"{path}: expected YAML, found {' '.join(str(fault).split())}") from None
    except UnicodeDecodeError:
        raise ConfigError(f"{path}: expected YAML, found a file that is not text") from None
    if not isinstance(values, dict) or not values:
        raise ConfigError(f"{path}: expected cluster names with their settings, found {values!r}")
    for name, settings in values.items():
        if not isinstance(name, str) or not isinstance(settings, dict | None):
            raise ConfigError(f"{path}: expected a cluster name and its settings, found {name!r}: {settings!r}")
    return {name: parse_config(ClusterConfig, settings or {}, f"{path}: {name}") for name, settings in values.items()}


def _team_file(environ: Mapping[str, str], folders: Sequence[Path]) -> tuple[Path, str]:
    """Choose the team's file and name; of several files with that name, the one in the first folder."""
    team, own = _variable(environ, "TEAM"), _variable(environ, "CONFIG")
    if own is not None:
        path = Path(expand_text(own, environ, "SOLFA_CONFIG"))
        if not path.is_file():
            raise ConfigError(f"SOLFA_CONFIG: expected a team's YAML file, found no file {path}")
        return path.absolute(), team or path.stem
    team = team or DEFAULT
    files = [path for folder in folders for path in sorted((folder / "teams").glob("*.yaml"))]
    found = next((path for path in files if path.stem == team), None)
    if found is None:
        known = sorted({path.stem for path in files})
        looked = " and ".join(str(folder / "teams") for folder in folders)
        advice = nearest(team, known) or (
            "; set SOLFA_TEAM to one of them, SOLFA_CONFIG to your own file, or SOLFA_SEARCH_PATH to the folder with "
            f"teams/{team}.yaml"
        )
        raise ConfigError(f"team {team!r}: expected one of {_listed(known)}, which are in {looked}{advice}")
    return found, team


def _variable(environ: Mapping[str, str], name: str) -> str | None:
    """Read SOLFA_NAME, or else AUDIOCRAFT_NAME; an empty value counts as unset."""
    ours, theirs = environ.get(f"SOLFA_{name}"), environ.get(f"AUDIOCRAFT_{name}")
    if ours and theirs and ours != theirs:
        logger.warning("using SOLFA_%s=%s; AUDIOCRAFT_%s=%s differs and is ignored", name, ours, name, theirs)
    return ours or theirs or None


def _place(environ: Mapping[str, str], variable: str, configured: str | None, where: str) -> Path | None:
    given = _variable(environ, variable)
    text, source = (given, f"SOLFA_{variable}") if given else (configured, where)
    return Path(expand_text(text, environ, source)).absolute() if text else None


def _listed(names: Mapping[str, object] | list[str]) -> str:
    return ", ".join(repr(name) for name in names) or "none"
