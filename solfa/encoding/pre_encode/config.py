"""The settings of `solfa pre-encode`: the flags of stable-audio-tools' `pre_encode.py`, with their defaults."""

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any

from pydantic import BeforeValidator, Field, model_validator

from solfa.config import Config, nearest, parse_config
from solfa.environment.ranks import Rank
from solfa.errors import ConfigError
from solfa.files.stores.place import is_url

MIN_SAMPLE_SIZE, MAX_SAMPLE_SIZE = 1_000, 44_100 * 300
MAX_BATCH_SIZE = 10_000
"""Ids have four digits for the position in a batch."""


def _of_this_machine(value: Any) -> Any:
    if isinstance(value, str) and is_url(value):
        raise ValueError("expected a folder of this machine, found a URL; `solfa encode` writes to object stores")
    return value


class PreEncodeConfig(Config):
    """What to encode, with which model, and where to."""

    # pydantic reserves the name `model_config`, but users still write it.
    model_config_path: Path | None = Field(default=None, alias="model_config")
    """A stable-audio-tools model JSON; its weights are `ckpt_path`."""
    ckpt_path: Path | None = None
    pretrained_name: str | None = None
    """A codec's name, directory or Hub id, instead of the two above."""
    dataset_config: Path
    """A stable-audio-tools dataset JSON."""
    output_path: Annotated[Path, BeforeValidator(_of_this_machine)]
    batch_size: int = Field(default=1, ge=1, le=MAX_BATCH_SIZE)
    sample_size: int = Field(default=1_320_960, ge=MIN_SAMPLE_SIZE, le=MAX_SAMPLE_SIZE)
    """Samples per item at the model's rate; shorter audio is padded with zeros on the right."""
    num_workers: int = Field(default=4, ge=0)
    """Processes that decode audio ahead; 0 decodes in a thread."""
    shuffle: bool = False
    """Order items by a hash of their names instead of by name; always the same order."""
    model_half: bool = False
    """Run the model in fp16 and store fp16."""
    is_discrete: bool = False
    """The model gives tokens: store them, [K, N]."""
    num_nodes: int = Field(default=1, ge=1)
    """Number of machines the launcher started this on; more than its processes are refused."""
    strategy: str = Field(default="auto", pattern=r"^(auto|ddp\w*)$")
    """`auto` or `ddp...`: either way every process the launcher started takes its share of the batches."""
    limit_batches: int | None = Field(default=None, ge=1)
    """Encode only this many batches, counted over all ranks."""

    @model_validator(mode="after")
    def _name_one_model(self) -> "PreEncodeConfig":
        if (self.model_config_path is None) != (self.ckpt_path is None):
            given, missing = ("model_config", "ckpt_path")[:: -1 if self.model_config_path is None else 1]
            raise ValueError(f"expected model_config and ckpt_path together, found {given} without {missing}")
        if (self.model_config_path is None) == (self.pretrained_name is None):
            found = "neither" if self.pretrained_name is None else "both"
            raise ValueError(f"expected either model_config and ckpt_path or pretrained_name, found {found}")
        return self

    def as_args(self) -> dict[str, Any]:
        """Return it as JSON values under the names that users know."""
        return self.model_dump(mode="json", by_alias=True)


KEYS = tuple(field.alias or name for name, field in PreEncodeConfig.model_fields.items())
"""The names of all settings, as users write them."""


ALIASES = {"model_config_path": "model_config", "dataset_config_path": "dataset_config"}
"""Other names of settings."""


def check_key(key: str, where: str) -> None:
    """Refuse a name that is not a setting, and suggest the nearest."""
    if key not in KEYS and key not in ALIASES:
        raise ConfigError(f"{where}: {key}: unknown field{nearest(key, KEYS)}")


def parse_pre_encode(values: Mapping[str, Any], where: str = "pre-encode") -> PreEncodeConfig:
    """Validate settings under the names that users write; an error is one sentence."""
    known: dict[str, Any] = {}
    for written, value in values.items():
        check_key(written, where)
        key = ALIASES.get(written, written)
        if value is not None and known.get(key) is not None:
            raise ConfigError(f"{where}: {key}: given twice, once by another name; leave one out")
        known[key] = known.get(key) if value is None else value
    return parse_config(PreEncodeConfig, known, where)


def check_launch(config: PreEncodeConfig, rank: Rank) -> None:
    """Refuse more nodes than processes: no launcher can have started them."""
    if config.num_nodes > rank.world_size:
        raise ConfigError(
            f"num_nodes {config.num_nodes}: expected a launcher's RANK and WORLD_SIZE for at least as many processes, "
            f"found WORLD_SIZE {rank.world_size}; start it with `srun --nodes {config.num_nodes} --ntasks-per-node "
            f"GPUS solfa pre-encode ...`, or on every machine with `torchrun --nnodes {config.num_nodes} "
            "--nproc-per-node GPUS --rdzv-backend c10d --rdzv-endpoint FIRST_MACHINE:29500 --no-python "
            "solfa pre-encode ...`"
        )
