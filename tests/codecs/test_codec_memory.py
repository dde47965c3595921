"""What is remembered of a codec is what it says, and is forgotten as soon as anything it depends on changes."""

import os
import shutil
import time
from pathlib import Path

import pytest

import solfa
from solfa.codecs import codec_memory
from solfa.codecs.codec_memory import CodecFacts, CodecMemory
from solfa.encoding.fingerprint import EncodeSettings, dataset_info
from solfa.files.cache_folder import cache_folder

pytestmark = pytest.mark.skipif(os.name != "posix", reason="nothing is remembered here")


@pytest.fixture(autouse=True)
def cache(tmp_path, monkeypatch):
    monkeypatch.setenv("SOLFA_CACHE_DIR", str(tmp_path / "cache"))
    monkeypatch.setattr(codec_memory, "_SETTLED_SECONDS", 0.0)


@pytest.fixture
def folder(tmp_path):
    """A copy of the codec that ships with Solfa, as a local checkpoint."""
    return shutil.copytree(Path(solfa.__file__).parent / "codecs/built_in/solfa_24khz", tmp_path / "mine")


def load_and_remember(spec, precision=None):
    memory = CodecMemory(str(spec), precision)
    codec = solfa.load_codec(spec, precision=precision)
    memory.remember(CodecFacts.of(codec))
    return codec


@pytest.mark.parametrize(
    "spec", ["mulaw:bits=8,sample_rate=8000", "linear", "solfa_24khz", "solfa_24khz:num_codebooks=2,precision=bf16"]
)
def test_what_is_remembered_makes_the_same_dataset(spec):
    assert CodecMemory(spec).recall() is None
    codec = load_and_remember(spec)
    recalled = CodecMemory(spec).recall()
    assert recalled is not None and recalled == CodecFacts.of(codec)
    for dtype in (None, "uint32"):
        settings = EncodeSettings(dtype=dtype)
        assert dataset_info(recalled, settings) == dataset_info(codec, settings)


def test_another_text_or_precision_is_another_codec():
    load_and_remember("solfa_24khz")
    assert CodecMemory("solfa_24khz").recall() is not None
    for spec, precision in (("solfa_24khz:num_codebooks=2", None), ("solfa_24khz", "bf16"), ("mulaw", None)):
        assert CodecMemory(spec, precision).recall() is None


def test_a_change_of_any_file_of_a_codec_is_noticed_even_if_size_and_time_of_writing_are_as_before(folder):
    load_and_remember(folder)
    assert CodecMemory(str(folder)).recall() is not None
    for name in ("model.safetensors", "config.json"):
        path = folder / name
        status, content = path.stat(), bytearray(path.read_bytes())
        content[-1] ^= 1
        path.write_bytes(content)
        os.utime(path, ns=(status.st_atime_ns, status.st_mtime_ns))
        assert path.stat().st_mtime_ns == status.st_mtime_ns
        assert CodecMemory(str(folder)).recall() is None, name
        load = CodecMemory(str(folder))
        load.remember(CodecFacts.of(solfa.load_codec("mulaw")))  # whatever it is
        assert load.recall() is not None
    (folder / "more.json").write_text("{}")
    assert CodecMemory(str(folder)).recall() is None


def test_files_that_change_while_a_codec_is_loaded_or_just_before_are_not_relied_on(folder, monkeypatch):
    memory, facts = CodecMemory(str(folder)), CodecFacts.of(solfa.load_codec(folder))
    os.utime(folder / "config.json")
    memory.remember(facts)
    assert memory.recall() is None and CodecMemory(str(folder)).recall() is None
    monkeypatch.setattr(codec_memory, "_SETTLED_SECONDS", 3600.0)
    assert time.time() - (folder / "config.json").stat().st_ctime < 3600
    memory = CodecMemory(str(folder))
    memory.remember(facts)
    assert memory.recall() is None


@pytest.mark.parametrize("spec", ["encodec_32khz", "facebook/encodec_24khz", "embedder", "mine", "./mine"])
def test_what_may_be_another_codec_tomorrow_or_elsewhere_is_not_remembered(spec, folder, monkeypatch):
    monkeypatch.chdir(folder.parent)
    memory = CodecMemory(spec)
    memory.remember(CodecFacts.of(solfa.load_codec("mulaw")))
    assert memory.recall() is None


def test_a_damaged_or_unwritable_memory_is_as_good_as_none(tmp_path, monkeypatch):
    load_and_remember("mulaw")
    (path,) = (cache_folder() / "codecs").iterdir()
    path.write_bytes(path.read_bytes()[:-9])
    assert CodecMemory("mulaw").recall() is None
    (tmp_path / "file").touch()
    monkeypatch.setenv("SOLFA_CACHE_DIR", str(tmp_path / "file"))
    load_and_remember("mulaw")
    assert CodecMemory("mulaw").recall() is None


def test_old_memories_are_removed(monkeypatch):
    monkeypatch.setattr(codec_memory, "_MAX_KEPT", 2)
    for bits in (8, 9, 10):
        load_and_remember(f"mulaw:bits={bits}")
    assert [CodecMemory(f"mulaw:bits={bits}").recall() is None for bits in (8, 9, 10)] == [True, False, False]
