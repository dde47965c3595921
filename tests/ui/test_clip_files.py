"""Generated clips become files that play, a picture, metadata, and a page that links to them and nothing else."""

import json
import re
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote

import numpy as np
import pytest
import soundfile
import torch

from solfa.errors import ConfigError
from solfa.generate.clip import GeneratedClip
from solfa.ui.clip_files import SampleWriter, read_samples

EVIL = "../<b>a</b>/..%2f\"'&\x1b\u202e"


def clip(name: str, seconds: float = 0.5, hz: float = 440.0, channels: int = 1, **metadata) -> GeneratedClip:
    time = np.arange(round(8000 * seconds)) / 8000
    audio = np.tile(0.5 * np.sin(2 * np.pi * hz * time), (channels, 1)).astype(np.float32)
    return GeneratedClip(name, audio, 8000, metadata)


class Links(HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.sources: list[str] = []
        self.tags: set[str] = set()
        self.text = ""

    def handle_starttag(self, tag, attrs):
        self.tags.add(tag)
        self.sources += [value or "" for name, value in attrs if name in ("src", "href")]

    def handle_data(self, data):
        self.text += data


def page_of(folder: Path) -> Links:
    links = Links()
    links.feed((folder / "samples/index.html").read_text("utf-8"))
    return links


def test_a_clip_becomes_audio_a_picture_and_metadata(tmp_path, read_png):
    writer = SampleWriter(tmp_path)
    made = clip("flute", channels=2, text="a flute", seed=7)
    writer.clips("generate", 3, [made])
    folder = tmp_path / "samples/3"
    assert {path.name for path in folder.iterdir()} == {"flute.wav", "flute.png", "flute.json"}
    audio, sample_rate = soundfile.read(folder / "flute.wav", dtype="float32")
    assert sample_rate == 8000 and np.array_equal(audio.T, made.samples())
    assert read_png((folder / "flute.png").read_bytes()).shape[0] == 128
    about = json.loads((folder / "flute.json").read_text())
    assert about["metadata"] == {"text": "a flute", "seed": 7} and about["seconds"] == 0.5 and about["channels"] == 2


def test_tensors_are_written_like_arrays(tmp_path):
    audio = torch.rand(1, 100, requires_grad=True)
    metadata = {"codes": torch.arange(3), "score": np.float32(0.5), "path": Path("x")}
    SampleWriter(tmp_path).clips("generate", 1, [GeneratedClip("a", audio, 8000, metadata)])
    written, _ = soundfile.read(tmp_path / "samples/1/a.wav", dtype="float32")
    assert np.array_equal(written, audio.detach().numpy()[0])
    about = json.loads((tmp_path / "samples/1/a.json").read_text())
    assert about["metadata"] == {"codes": [0, 1, 2], "score": 0.5, "path": "x"}


def test_the_page_shows_all_epochs_the_latest_first_also_after_a_resume(tmp_path):
    SampleWriter(tmp_path).clips("generate", 2, [clip("a"), clip("b", text="slow drums")])
    SampleWriter(tmp_path).clips("generate", 10, [clip("a", 1.0)])
    page = page_of(tmp_path)
    assert page.text.index("Epoch 10") < page.text.index("Epoch 2") and "slow drums" in page.text
    assert {unquote(source) for source in page.sources} == {
        f"{stem}.{extension}" for stem in ("10/a", "2/a", "2/b") for extension in ("wav", "png")
    }
    assert list(read_samples(tmp_path / "samples")) == [10, 2]


def test_making_an_epoch_again_replaces_its_clips(tmp_path):
    writer = SampleWriter(tmp_path)
    writer.clips("generate", 1, [clip("a", 0.5)])
    writer.clips("generate", 1, [clip("a", 1.0)])
    ((sample,),) = read_samples(tmp_path / "samples").values()
    assert sample.seconds == 1.0


def test_hostile_names_stay_in_the_folder_and_do_not_act_on_the_page(tmp_path):
    SampleWriter(tmp_path).clips("generate", 1, [clip(EVIL, text=EVIL, **{EVIL: EVIL}), clip("x" * 400), clip(".hid")])
    written = [path for path in tmp_path.rglob("*") if path.is_file()]
    assert len(written) == 10 and all(path.parent in (tmp_path / "samples", tmp_path / "samples/1") for path in written)
    page = page_of(tmp_path)
    assert not page.tags & {"b", "script", "iframe"}
    for source in page.sources:
        assert (tmp_path / "samples" / unquote(source)).is_file(), source
    assert "\x1b" not in page.text and "\u202e" not in page.text
    assert {sample.name for sample in read_samples(tmp_path / "samples")[1]} == {EVIL, "x" * 400, ".hid"}


def test_the_page_runs_nothing_and_loads_only_files(tmp_path):
    SampleWriter(tmp_path).clips("generate", 1, [clip("a")])
    content = (tmp_path / "samples/index.html").read_text()
    assert "default-src 'none'; img-src 'self' file:; media-src 'self' file:" in content.replace("&#x27;", "'")
    assert not re.search(r"https?://", content)


def test_empty_audio_has_no_picture_and_no_link_to_one(tmp_path):
    SampleWriter(tmp_path).clips("generate", 1, [clip("nothing", 0.0)])
    assert page_of(tmp_path).sources == ["1/nothing.wav"]
    assert not (tmp_path / "samples/1/nothing.png").exists()


def test_two_clips_of_one_name_are_refused_before_anything_is_written(tmp_path):
    with pytest.raises(ConfigError, match=r"generate: .*2 clips called 'a'"):
        SampleWriter(tmp_path).clips("generate", 1, [clip("a"), clip("b"), clip("a")])
    assert not list(tmp_path.iterdir())


def test_other_stages_and_empty_ones_write_nothing(tmp_path):
    SampleWriter(tmp_path).clips("evaluate", 1, [clip("a")])
    SampleWriter(tmp_path).clips("generate", 1, [])
    assert not list(tmp_path.iterdir())
