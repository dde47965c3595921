"""Compose an experiment with Dora, using Solfa's folders, config groups and error messages.

argv ──► check ──► Hydra ──► XP: the composed settings, what differs from the files, the signature, the folder
"""

import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from copy import deepcopy
from pathlib import Path
from typing import Any

from dora.conf import SlurmConfig
from dora.xp import XP
from hydra.errors import HydraException
from omegaconf import DictConfig, OmegaConf
from omegaconf.errors import OmegaConfBaseException

from solfa.environment.ranks import read_rank
from solfa.environment.search_path import hydra_search_path, own_folders
from solfa.environment.teams import load_environment
from solfa.errors import ConfigError, SolfaError
from solfa.experiments.compose.overrides import (
    answer_unknown,
    as_typed,
    check_group_names,
    check_overrides,
    find_groups,
    key_of,
    unknown_keys,
)
from solfa.experiments.compose.settings import Settings, parse_settings, settle
from solfa.experiments.compose.signature import difference
from solfa.experiments.dora_adapter import Delta, DoraMain, last_of_each_key
from solfa.experiments.exits import sentences
from solfa.files.whole_files import expect_no_link
from solfa.xp.failure import read_failure
from solfa.xp.layout import state_paths, written_in_place
from solfa.xp.mirror import clear_mirror, mirror_of
from solfa.xp.paths import with_whole_signatures
from solfa.xp.removal import clear_experiment


class ExperimentMain(DoraMain):
    """What the `dora` command finds in `solfa.train`, and what `solfa train` and `solfa grid` use."""

    def __init__(self, run: Callable[[XP], None]) -> None:
        """Wrap the function that runs an experiment; it raises a SolfaError for anything the user can fix."""
        with sentences(), _one_line():
            self.environment = load_environment(os.environ)
            self._validated: tuple[XP, Settings] | None = None
            self._made: set[str] = set()  # the experiments whose folders did not exist before
            super().__init__(run, config_path="conf")

    def compose(self, argv: Sequence[str]) -> XP:
        """Compose the experiment that `argv` describes; a mistake in it is a ConfigError."""
        check_overrides(argv, self._groups)
        argv = [with_whole_signatures(text, self.environment) for text in last_of_each_key(argv)]
        with _one_line():
            base, chosen = self.compose_base(argv)
            unknown = unknown_keys(argv, plain(base), self._groups)
            check_group_names(unknown, self._groups)
            # The pydantic model may know keys that the files do not mention; it gets its say below.
            composed = (
                deepcopy(base)  # in a tenth of the time that it takes to compose the same files again
                if all(text.startswith(tuple(f"{group}=" for group in self._groups)) for text in argv)
                else self.compose_values([f"++{text}" if text in unknown else text for text in argv])
            )
            xp = self.make_xp(argv, composed, [*chosen, *self.difference(base, composed)])
        if unknown:
            self._check_unknown(xp, unknown, base)
        return xp

    def settings(self, xp: XP) -> Settings:
        """Validate the composed settings, only once however often they are needed."""
        if self._validated is None or self._validated[0] is not xp:
            with _typed(xp):
                settings = parse_settings(plain(xp.cfg), self.environment, [key_of(text) for text in xp.argv])
            self._validated = (xp, settings)
        return self._validated[1]

    def check(self, xp: XP, *, is_cleared: bool = False) -> None:
        """Validate the settings, and unless the experiment starts over, compare them with those it started with."""
        settings = self.settings(xp)
        if not is_cleared:
            with _typed(xp):
                settle(xp.folder, settings, xp.dora.exclude, write=False)

    def get_xp(self, argv: Sequence[str]) -> XP:
        """Compose for Dora, which would show an error as a traceback."""
        with sentences():
            return self.compose(argv)

    def clear(self, xp: XP) -> None:
        """Delete an experiment's folder, and its copy in `checkpoint.mirror`."""
        if xp.folder.exists():
            clear_experiment(xp.folder)
        self.clear_mirror(xp)

    def clear_mirror(self, xp: XP) -> None:
        """Delete the copy of an experiment, from which it would continue otherwise."""
        place = self.settings(xp).cfg.checkpoint.mirror
        if place is not None:
            clear_mirror(mirror_of(place, xp.sig))

    def start(self, xp: XP) -> None:
        """Run an experiment in this process."""
        self.init_xp(xp)
        with xp.enter():
            self._run(xp)

    def _run(self, xp: XP) -> None:
        try:
            with _typed(xp):
                self.main(xp)
        except SolfaError:
            failure = read_failure(xp.folder)
            if failure is None or failure.is_refusal:
                self.forget(xp)
            raise

    def forget(self, xp: XP) -> None:
        """Remove the folder of an experiment whose run was refused, if it was made for that run."""
        if xp.sig in self._made and not state_paths(xp.folder):
            clear_experiment(xp.folder)

    def init_xp(self, xp: XP) -> XP:
        """Make the folder, unless links in it lead elsewhere; only the first process writes into it."""
        for path in written_in_place(xp.folder):
            expect_no_link(path)
        if read_rank(os.environ).rank == 0:
            (self._made.discard if xp.folder.exists() else self._made.add)(xp.sig)
            super().init_xp(xp)
        else:
            xp.folder.mkdir(exist_ok=True, parents=True)
        return xp

    def get_slurm_config(self) -> SlurmConfig:
        slurm = super().get_slurm_config()
        # None leaves the choice to Slurm.
        slurm.partition = slurm.partition or self.environment.partition()  # type: ignore[assignment]
        slurm.exclude = slurm.exclude or self.environment.slurm_exclude
        return slurm

    def _check_unknown(self, xp: XP, unknown: Sequence[str], base: DictConfig) -> None:
        try:
            open_keys = self.settings(xp).cfg.model_extra or {}
        except ConfigError as error:
            raise ConfigError(answer_unknown(str(error), unknown, plain(base))) from None
        for text in unknown:
            # A solver without a Config takes any key of its file, but a mistyped one would be ignored.
            if key_of(text).partition(".")[0] in open_keys:
                refused = f"{text}: the files that were chosen have no key {key_of(text)!r}"
                raise ConfigError(answer_unknown(refused, [text], plain(base)))

    # Answers to what Dora asks through its adapter.

    @property
    def dora_dir(self) -> Path:
        return self.environment.dora_dir

    def group_names(self) -> list[str]:
        self._groups = find_groups([self.full_config_path, *own_folders(os.environ)])
        return list(self._groups)

    def first_overrides(self) -> list[str]:
        return hydra_search_path(own_folders(os.environ))

    def difference(self, base: DictConfig, composed: DictConfig) -> Delta:
        return difference(plain(base), plain(composed))

    def run_entered(self, xp: XP | None) -> None:
        with sentences():
            if xp is None:
                raise ConfigError(
                    "multirun: Solfa does not use Hydra's -m; write a grid instead, see `solfa grid --help`"
                )
            self._run(xp)


def plain(cfg: DictConfig) -> dict[str, Any]:
    """Convert composed settings to plain values, leaving out those that are not set yet."""
    values = OmegaConf.to_container(cfg, resolve=True)
    assert isinstance(values, dict)
    return _without_missing(values)


def _without_missing(values: Mapping[Any, Any]) -> dict[str, Any]:
    return {
        str(key): _without_missing(value) if isinstance(value, Mapping) else value
        for key, value in values.items()
        if not (isinstance(value, str) and value == "???")
    }


@contextmanager
def _typed(xp: XP) -> Iterator[None]:
    """Keep the values of environment variables that the settings refer to out of error messages."""
    try:
        yield
    except SolfaError as error:
        unresolved = str(OmegaConf.to_container(xp.cfg, resolve=False))
        sentence = as_typed(str(error), [*xp.argv, unresolved], os.environ)
        if sentence == str(error):
            raise
        error.args = (sentence,)
        raise error from None


@contextmanager
def _one_line() -> Iterator[None]:
    """Turn errors of Hydra and OmegaConf into one-line ConfigErrors."""
    try:
        yield
    except (HydraException, OmegaConfBaseException) as error:
        raise ConfigError(" ".join(str(error).split())) from None
