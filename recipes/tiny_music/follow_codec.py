"""Tell the model in the package that its codec moved on: `python recipes/tiny_music/follow_codec.py BEFORE`.

A codec whose encoder and decoder were trained on around the same codebooks (`keep_codebooks=true`) has another
fingerprint, and a model of its codes is refused, though the codes stand for what they stood for. BEFORE is a folder
with the codec that the model knows: if its codebooks are those of the codec in the package, the model and its listener
get the fingerprint of that one. Weights stay as they are.
"""

import argparse
import json
from pathlib import Path

import torch

import solfa
from solfa.codecs.built_in.release import Release, read_release, write_release
from solfa.codecs.catalogue import load_own
from solfa.errors import ConfigError, SolfaError
from solfa.files import replace_atomically
from solfa.generate.built_in.model_release import ROOT, TINY_MUSIC, files_fingerprint
from solfa.models.codec.bottlenecks import RvqBottleneck

TOLD = ("config.json", "README.md", "listener/config.json")
"""Files that name the codec by its fingerprint."""


def follow_codec(before: str, folder: Path) -> Release:
    """Write the fingerprint of the codec as it is now into the files of a model, and its release anew."""
    data = json.loads((folder / "config.json").read_text(encoding="utf-8"))["data"]
    spec, known = str(data["codec"]), str(data["codec_fingerprint"])
    name, _, options = spec.partition(":")
    former = solfa.load_codec(f"{before}:{options}" if options else before).fingerprint
    if former != known:
        raise ConfigError(f"{before}: expected the codec {known[:16]} that the model knows, found {former[:16]}")
    if not torch.equal(codebooks_of(before), codebooks_of(name)):
        raise ConfigError(f"{before}: expected the codebooks of {name}, found others; train the model again")
    now = solfa.load_codec(spec).fingerprint
    for path in (folder / told for told in TOLD):
        replace_atomically(path, path.read_text(encoding="utf-8").replace(known, now).encode())
    release = read_release(folder).model_copy(update={"fingerprint": files_fingerprint(folder)})
    write_release(folder, release, {}, replace=True)
    return release


def codebooks_of(name: str) -> torch.Tensor:
    """Read the entries of all codebooks of a codec that Solfa trained."""
    codec = load_own(name)
    if codec is None or not isinstance(codec.bottleneck, RvqBottleneck):
        raise ConfigError(f"{name}: expected a codec that Solfa trained, with codebooks")
    return codec.bottleneck.quantizer.codebooks


def main() -> None:
    """Read the arguments, and print what the model's release is now."""
    parser = argparse.ArgumentParser(description="Tell the model in the package that its codec moved on.")
    parser.add_argument("before", metavar="BEFORE", help="The codec that the model knows.")
    arguments = parser.parse_args()
    try:
        release = follow_codec(arguments.before, ROOT / TINY_MUSIC)
    except SolfaError as error:
        parser.exit(2, f"{error}\n")
    print(f"{release.name} version {release.version}: {release.fingerprint}")


if __name__ == "__main__":
    main()
