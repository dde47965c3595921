"""Codecs whose weights come with Solfa as package data, a directory each. A name never gets other weights.

    solfa_24khz/
      config.json         what `solfa export-codec` wrote
      model.safetensors   likewise
      release.json        {"name": "solfa_24khz", "version": 1, "fingerprint": ".."}
      README.md           what it was trained on, and how well it does

The fingerprint is that of the codec with all its codebooks in float32, which every dataset made with it holds, too. It
covers the architecture and all weights, so a damaged or exchanged file is refused when the codec is loaded.
"""

from collections.abc import Mapping
from pathlib import Path

from pydantic import Field, PositiveInt

from solfa.codecs.checkpoint import Checkpoint
from solfa.codecs.families.trained import OwnCodec
from solfa.config import Config, parse_config
from solfa.errors import ConfigError
from solfa.files.digest import value_sha256
from solfa.pretrained.directory import read_json

ROOT = Path(__file__).parent
RELEASE = "release.json"


class Release(Config):
    """What was released: once it is out, none of it changes."""

    name: str
    version: PositiveInt
    """Counts the trainings that were released; each has a name of its own."""
    fingerprint: str = Field(pattern="^[0-9a-f]{64}$")


def load_built_in(checkpoint: Checkpoint, options: Mapping[str, object]) -> OwnCodec:
    """Load a codec from the directory of its release, and refuse one that is not what was released."""
    directory = Path(checkpoint.location)
    release = read_release(directory)
    codec = OwnCodec.from_checkpoint(checkpoint, options)
    found = released_fingerprint(codec)
    if found != release.fingerprint:
        raise ConfigError(
            f"codec {checkpoint.name}: {directory}: expected the fingerprint {release.fingerprint[:16]}, as {RELEASE} "
            f"has it, found {found[:16]}; its files were damaged or exchanged: install Solfa again"
        )
    return codec


def read_release(directory: Path) -> Release:
    """Read what a directory says about its release."""
    return parse_config(Release, read_json(directory / RELEASE), str(directory / RELEASE))


def released_fingerprint(codec: OwnCodec) -> str:
    """Give the fingerprint with all codebooks in float32, however the codec was loaded."""
    whole = {"options": {"num_codebooks": codec.model.config.num_codebooks}, "precision": "fp32"}
    return value_sha256({**codec.description, **whole})
