"""Make the trained codec the one that comes with Solfa: `python recipes/built_in_codec/publish.py EXPORTED`.

EXPORTED is what `solfa export-codec SIG EXPORTED --half` wrote. Its two files are copied into the package, and beside
them is written under which name and version they are released, with the fingerprint that is checked whenever they are
loaded. A name that has weights keeps them: give other weights another name, or --replace them, as long as nobody has
them, or with a better decoder for the same codes (`keep_codes=true`). Other codes of the same codebooks
(`keep_codebooks=true`) have another fingerprint, which models of these codes have to be given.
"""

import argparse
from pathlib import Path

from solfa.codecs import DEFAULT_CODEC
from solfa.codecs.built_in.release import Release, released_fingerprint, write_release
from solfa.codecs.checkpoint import Checkpoint
from solfa.codecs.families.trained import OwnCodec
from solfa.config import parse_config
from solfa.errors import ConfigError, SolfaError

PACKAGE = Path(__file__).parents[2] / "solfa" / "codecs" / "built_in"
FILES = ("config.json", "model.safetensors")
MAX_BYTES = 12_000_000
"""Of the weights: everybody who installs Solfa downloads them."""


def publish(exported: Path, name: str, version: int, *, replace: bool = False, root: Path = PACKAGE) -> Release:
    """Copy an exported codec into the package and write its release; killed in between, it is refused when loaded."""
    codec = OwnCodec.from_checkpoint(Checkpoint(name, name, exported), {})
    size = (exported / "model.safetensors").stat().st_size
    if size > MAX_BYTES:
        raise ConfigError(
            f"{exported}: expected at most {MAX_BYTES:,} bytes of weights, found {size:,}; export with --half"
        )
    values = {"name": name, "version": version, "fingerprint": released_fingerprint(codec)}
    release = parse_config(Release, values, "release")
    files = {file_name: (exported / file_name).read_bytes() for file_name in FILES}
    write_release(root / name, release, files, replace=replace)
    return release


def main() -> None:
    """Read the arguments, publish, and print what was published."""
    parser = argparse.ArgumentParser(description="Make an exported codec the one that comes with Solfa.")
    parser.add_argument("exported", type=Path, metavar="EXPORTED", help="What `solfa export-codec --half` wrote.")
    parser.add_argument("--name", default=DEFAULT_CODEC, help="What it is called.")
    parser.add_argument("--version", type=int, default=1, help="Counts the trainings that were released.")
    parser.add_argument("--replace", action="store_true", help="Give a name other weights; only before it is released.")
    arguments = parser.parse_args()
    try:
        release = publish(arguments.exported, arguments.name, arguments.version, replace=arguments.replace)
    except SolfaError as error:
        parser.exit(2, f"{error}\n")
    print(f"{release.name} version {release.version}: {release.fingerprint}")


if __name__ == "__main__":
    main()
