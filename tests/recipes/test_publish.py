"""Publishing the built-in codec: what gets into the package is whole, small and never exchanged by accident."""

import importlib.util
import json
from pathlib import Path

import pytest

from solfa.codecs.built_in.release import released_fingerprint
from solfa.codecs.catalogue import BuiltIn, load_codec
from solfa.codecs.families.trained import OwnCodec
from solfa.codecs.protocol import Codec
from solfa.errors import ConfigError
from tests.codecs import tiny

ROOT = Path(__file__).parents[2]
SPEC = importlib.util.spec_from_file_location("publish", ROOT / "recipes/built_in_codec/publish.py")
assert SPEC is not None and SPEC.loader is not None
recipe = importlib.util.module_from_spec(SPEC)
SPEC.loader.exec_module(recipe)


def all_of(codec: Codec) -> str:
    """Hash a codec with its decoder, as its release does."""
    assert isinstance(codec, OwnCodec)
    return released_fingerprint(codec)


def test_what_is_published_is_loaded_by_its_name(tmp_path: Path) -> None:
    exported = tiny.make_solfa_codec(tmp_path / "exported")
    (exported / "model.safetensors").chmod(0o600)
    release = recipe.publish(exported, "tiny", 3, root=tmp_path / "package")
    codec = BuiltIn("tiny", tmp_path / "package").load({"num_codebooks": 2}, "cpu", "fp32")
    assert codec.spec == "tiny:num_codebooks=2"
    assert (release.name, release.version) == ("tiny", 3)
    assert release.fingerprint == all_of(load_codec(exported)) == all_of(codec)
    assert load_codec(exported).fingerprint != codec.fingerprint, "of which two codebooks are other codes"
    written = sorted((tmp_path / "package/tiny").iterdir())
    assert [path.name for path in written] == ["config.json", "model.safetensors", "release.json"]
    assert {path.stat().st_mode & 0o777 for path in written} == {0o644}
    assert json.loads(written[2].read_text()) == release.model_dump()


def test_a_name_keeps_its_weights_unless_it_is_told_otherwise(tmp_path: Path) -> None:
    package = tmp_path / "package"
    first, other = (tiny.make_solfa_codec(tmp_path / f"exported{seed}", seed) for seed in (0, 1))
    released = recipe.publish(first, "tiny", 1, root=package)
    assert recipe.publish(first, "tiny", 1, root=package) == released
    with pytest.raises(ConfigError, match=r"version 1 .*another name.*replace"):
        recipe.publish(other, "tiny", 1, root=package)
    assert all_of(BuiltIn("tiny", package).load({}, "cpu", "fp32")) == released.fingerprint
    replaced = recipe.publish(other, "tiny", 1, replace=True, root=package)
    assert all_of(BuiltIn("tiny", package).load({}, "cpu", "fp32")) == replaced.fingerprint != released.fingerprint


def test_what_does_not_belong_into_the_package_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "config.json").write_text('{"model_type": "dac"}')
    with pytest.raises(ConfigError, match=r"found 'dac'; .*solfa export-codec"):
        recipe.publish(tmp_path, "tiny", 1, root=tmp_path / "package")
    exported = tiny.make_solfa_codec(tmp_path / "exported")
    with pytest.raises(ConfigError, match=r"release: version: .*greater than 0"):
        recipe.publish(exported, "tiny", 0, root=tmp_path / "package")
    monkeypatch.setattr(recipe, "MAX_BYTES", 1_000)
    with pytest.raises(ConfigError, match=r"1,000 bytes.*found [\d,]+; export with --half"):
        recipe.publish(exported, "tiny", 1, root=tmp_path / "package")
    assert not (tmp_path / "package").exists()
