"""Make the trained model the one that comes with Solfa: `python recipes/tiny_music/publish.py EXPORTED --report FILE`.

EXPORTED is what `solfa export-model SIG EXPORTED --half` wrote, with the folder `listener` if `key_listener.py` wrote
one. Its files are copied into the package, and beside them is written under which name and version they are released,
with the fingerprint that is checked whenever they are loaded. The card gets what the judge reported. A name that has
weights keeps them: give other weights another name, or, as long as nobody has them, --replace.
"""

import argparse
import json
from pathlib import Path

import solfa
from solfa.codecs.built_in.release import Release, write_release
from solfa.config import parse_config
from solfa.errors import ConfigError, SolfaError
from solfa.generate.built_in.model_release import TINY_MUSIC, files_fingerprint, released_files
from solfa.models.conditioners.set import TEXT_KINDS

PACKAGE = Path(__file__).parents[2] / "solfa" / "generate" / "built_in"
CARD, CURVE = "README.md", "curve.svg"
MAX_BYTES = 12_000_000
"""Of all weights: everybody who installs Solfa downloads them."""
LICENCE = """
## Pieces and licence

Trained on pieces that recipes/tiny_music of the repository composes by rule and plays with the soundfont TimGM6mb (Tim
Brechbill, GPL-2.0), which is not contained in it. Apache-2.0, as Solfa.
"""


def publish(
    exported: Path, name: str, version: int, report: str = "", *, replace: bool = False, root: Path = PACKAGE
) -> Release:
    """Copy an exported model into the package and write its release."""
    check(exported)
    values = {"name": name, "version": version, "fingerprint": files_fingerprint(exported)}
    release = parse_config(Release, values, "release")
    files = {file_name: (exported / file_name).read_bytes() for file_name in released_files(exported)}
    card = named_card((exported / CARD).read_text(encoding="utf-8"), exported.name, name)
    judged = f"\n## Judged by machine listening\n\n{report.strip()}\n" if report else ""
    files[CARD] = (card + judged + LICENCE).encode()
    if (exported / CURVE).is_file():
        files[CURVE] = (exported / CURVE).read_bytes()
    write_release(root / name, release, files, replace=replace)
    return release


def named_card(card: str, folder_name: str, name: str) -> str:
    """Call the model in its card what it is called from now on, with its licence."""
    renamed = card.replace(f"\n# {folder_name}\n", f"\n# {name}\n").replace(f'("{folder_name}")', f'("{name}")')
    return renamed.replace("# add the licence of the weights here", "license: apache-2.0").rstrip() + "\n"


def check(exported: Path) -> None:
    """Refuse what is too large, cannot be told what to play, or was trained on codes of another codec."""
    model = solfa.load_model(exported, device="cpu")
    size = sum((exported / name).stat().st_size for name in released_files(exported) if name.endswith(".safetensors"))
    if size > MAX_BYTES:
        raise ConfigError(
            f"{exported}: expected at most {MAX_BYTES:,} bytes of weights, found {size:,}; export with --half, or "
            "train a smaller model"
        )
    if not TEXT_KINDS.intersection(model.info.conditions.values()):
        raise ConfigError(f"{exported}: expected a model that is told a text, found {dict(model.info.conditions)}")
    trained_on = json.loads((exported / "config.json").read_text(encoding="utf-8"))["data"]["codec_fingerprint"]
    if trained_on != model.codec.fingerprint:
        raise ConfigError(
            f"{exported}: expected codes of {model.codec.spec} with the fingerprint {model.codec.fingerprint[:16]}, "
            f"found a model of {trained_on[:16]}; the codec has changed since: train it again"
        )


def main() -> None:
    """Read the arguments, publish, and print what was published."""
    parser = argparse.ArgumentParser(description="Make an exported model the one that comes with Solfa.")
    parser.add_argument("exported", type=Path, metavar="EXPORTED", help="What `solfa export-model --half` wrote.")
    parser.add_argument("--report", type=Path, metavar="FILE", help="report.md of judge.py, for the card.")
    parser.add_argument("--name", default=TINY_MUSIC, help="What it is called.")
    parser.add_argument("--version", type=int, default=1, help="Counts the trainings that were released.")
    parser.add_argument("--replace", action="store_true", help="Give a name other weights; only before it is released.")
    arguments = parser.parse_args()
    report = arguments.report.read_text(encoding="utf-8") if arguments.report is not None else ""
    try:
        release = publish(arguments.exported, arguments.name, arguments.version, report, replace=arguments.replace)
    except SolfaError as error:
        parser.exit(2, f"{error}\n")
    print(f"{release.name} version {release.version}: {release.fingerprint}")


if __name__ == "__main__":
    main()
