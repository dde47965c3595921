"""Codecs whose weights ship with Solfa as package data, one directory each. A name never gets different codes.

    solfa_24khz/
      config.json         what `solfa export-codec` wrote
      model.safetensors   the same
      release.json        {"name": "solfa_24khz", "version": 1, "fingerprint": ".."}
      README.md           what it was trained on, and how well it does

The fingerprint of a release covers the architecture and all weights, so a damaged or replaced file is refused when the
codec is loaded. The one that datasets store leaves the decoder out: a better decoder for the same codes is another
version of the release, and reads what the one before has written.
"""

import json
from collections.abc import Mapping
from pathlib import Path

from pydantic import Field, PositiveInt

from solfa.codecs.checkpoint import Checkpoint
from solfa.codecs.families.trained import OwnCodec
from solfa.config import Config, parse_config
from solfa.errors import ConfigError
from solfa.files.digest import value_sha256
from solfa.files.whole_files import replace_atomically
from solfa.pretrained.directory import read_json

ROOT = Path(__file__).parent
RELEASE = "release.json"


class Release(Config):
    """What was released; nothing of it changes afterwards."""

    name: str
    version: PositiveInt
    """Counts the released trainings: of the decoder, as long as the name is the same."""
    fingerprint: str = Field(pattern="^[0-9a-f]{64}$")


def load_built_in(checkpoint: Checkpoint, options: Mapping[str, object]) -> OwnCodec:
    """Load a codec from its release directory; refuse it if it is not what was released."""
    directory = Path(checkpoint.location)
    release = read_release(directory)
    codec = OwnCodec.from_checkpoint(checkpoint, options)
    found = released_fingerprint(codec)
    if found != release.fingerprint:
        raise ConfigError(
            f"codec {checkpoint.name}: {directory}: expected the fingerprint {release.fingerprint[:16]} from "
            f"{RELEASE}, found {found[:16]}; its files are damaged or were replaced: reinstall Solfa"
        )
    return codec


def read_release(directory: Path) -> Release:
    """Read the release information of a directory."""
    return parse_config(Release, read_json(directory / RELEASE), str(directory / RELEASE))


def write_release(directory: Path, release: Release, files: Mapping[str, bytes], *, replace: bool = False) -> None:
    """Write the files of a release, and what it is last; a name that has been released keeps its files.

    Killed in between, it is refused when it is loaded. `replace` gives a name other files, before anybody has them.
    """
    if not replace and (directory / RELEASE).is_file():
        before = read_release(directory)
        if before != release:
            raise ConfigError(
                f"{directory}: expected what was released, version {before.version} with the fingerprint "
                f"{before.fingerprint[:16]}, found version {release.version} with {release.fingerprint[:16]}; "
                "choose another name, or set `replace` as long as nobody has it"
            )
    about = (json.dumps(release.model_dump(mode="json"), indent=2) + "\n").encode()
    for name, content in {**files, RELEASE: about}.items():
        path = directory / name
        if not path.is_file() or path.read_bytes() != content:
            replace_atomically(path, content)
        path.chmod(0o644)


def released_fingerprint(codec: OwnCodec) -> str:
    """Hash all that was released: all codebooks in float32, however the codec was loaded, and the decoder."""
    whole = {"options": {"num_codebooks": codec.model.config.num_codebooks}, "precision": "fp32"}
    return value_sha256({**codec.description, **whole, "decoder_sha256": codec.decoder_sha256})
