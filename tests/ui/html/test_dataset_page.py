"""The page of a dataset counts what is in it and plays what a codec decodes."""

from pathlib import Path

import numpy as np
import pytest
import torch

from solfa.codecs.families.mulaw import MulawOptions
from solfa.codecs.families.quantized import WaveformCodec
from solfa.files.digest import value_sha256
from solfa.store.array_dataset import append_arrays
from solfa.store.dataset import Dataset, open_dataset
from solfa.store.planned_clip import PlannedClip
from solfa.store.schema import ArraySpec, DatasetInfo
from solfa.store.shard_writer import Outcome
from solfa.ui.html import dataset_page as module
from solfa.ui.html.dataset_page import beginning, dataset_page, spread, statistics_stride
from solfa.ui.html.report import render_report
from solfa.ui.html.report_data import Fact

RATE = 8_000
SECONDS = [0.5, 1.0, 2.0, 0.25, 1.5]


def tone(number: int) -> np.ndarray:
    time = np.arange(round(SECONDS[number] * RATE)) / RATE
    return (0.5 * np.sin(2 * np.pi * (200 + 100 * number) * time)).astype(np.float32)[None]


def planned(name: str, **known) -> PlannedClip:
    return PlannedClip(id=name, key=name, uri=name, **known)


def build(root: Path, outcomes: list[Outcome], **spec) -> Dataset:
    array = ArraySpec(sample_rate=RATE, num_channels=1, **spec)
    parts = {"array": array.model_dump()}
    info = DatasetInfo(codec="mulaw", array=array, parts=parts, fingerprint=value_sha256(parts))
    append_arrays(root, info, outcomes, {})
    return open_dataset(root)


@pytest.fixture(scope="module")
def codec() -> WaveformCodec:
    return WaveformCodec(MulawOptions(sample_rate=RATE))


@pytest.fixture(scope="module")
def dataset(tmp_path_factory, codec) -> Dataset:
    outcomes = []
    for number in range(len(SECONDS)):
        encoded = codec.encode(torch.from_numpy(tone(number))[None])
        clip = planned(f"{number}.wav", caption=f"tone {number}", metadata={"number": number})
        outcomes.append(Outcome(clip, encoded.array[0].numpy().astype(np.uint16), encoded.num_samples))
    outcomes.append(Outcome(planned("bad.wav"), error="bad.wav: not audio"))
    root = tmp_path_factory.mktemp("page") / "tones.solfa"
    return build(root, outcomes, kind="codes", width=1, codebook_size=256, hop_length=1, dtype="uint16")


def test_facts_failures_and_statistics_are_those_of_the_dataset(dataset):
    page = dataset_page(dataset, more_facts=[Fact("Speed", "9×")])
    facts = {fact.name: fact.value for fact in page.facts}
    assert facts["Clips"] == "5" and facts["Frames"] == "42,000" and facts["Failed"] == "1 recording"
    assert facts["Audio"] == "5.25 s" and facts["Arrays"] == "84 kB" and facts["Compression"] == "1×"
    assert facts["Speed"] == "9×"
    assert page.title == "tones.solfa"
    assert [(failure.id, failure.reason) for failure in page.failures] == [("bad.wav", "bad.wav: not audio")]
    assert page.lengths.counts.sum() == 5
    every = np.concatenate([clip.array for clip in dataset])
    assert np.array_equal(page.codes.counts[0], np.bincount(every[:, 0], minlength=256))
    assert page.latents is None and page.statistics_note == ""


def test_cards_hold_original_and_decoded_audio(dataset, codec):
    page = dataset_page(dataset, codec, lambda clip: tone(int(clip.id[0])), num_clips=3)
    assert [card.id for card in page.cards] == ["0.wav", "2.wav", "4.wav"]
    for card in page.cards:
        assert card.caption == f"tone {card.id[0]}" and card.metadata == {"number": int(card.id[0])}
        assert card.original.audio.shape == card.decoded.audio.shape
        assert np.abs(card.original.audio - card.decoded.audio).max() < 0.02
    assert "Signal to noise" in render_report(page)


def test_without_a_codec_or_originals_there_is_nothing_to_play(dataset):
    page = dataset_page(dataset, originals=lambda clip: None)
    assert all(card.original is None and card.decoded is None for card in page.cards)
    assert "<audio" not in render_report(page)


def test_a_dataset_of_latents_has_the_moments_of_its_channels(tmp_path):
    latents = np.random.default_rng(0).standard_normal((40, 8)).astype(np.float16)
    outcomes = [Outcome(planned("a"), latents, 40 * 512)]
    dataset = build(tmp_path / "z.solfa", outcomes, kind="latents", width=8, hop_length=512, dtype="float16")
    page = dataset_page(dataset)
    assert page.codes is None and np.allclose(page.latents.mean, latents.astype(float).mean(axis=0))
    assert "Latent channels" in render_report(page)


def test_a_dataset_in_which_everything_failed_has_a_page(tmp_path):
    outcomes = [Outcome(planned("a"), error="broken")]
    spec = {"kind": "codes", "width": 4, "codebook_size": 1024, "hop_length": 320, "dtype": "uint16"}
    page = dataset_page(build(tmp_path / "none.solfa", outcomes, **spec))
    assert page.cards == () and ": 1 recording" in render_report(page)


def test_statistics_of_a_large_dataset_read_every_nth_clip_and_say_so(dataset, monkeypatch):
    monkeypatch.setattr(module, "MAX_STATISTICS_VALUES", 20_000)
    page = dataset_page(dataset)
    assert " 3 " in page.statistics_note
    assert page.codes.num_frames == sum(len(dataset[index].array) for index in (0, 3))
    assert statistics_stride(0, 10) == 1 and statistics_stride(10, 10) == 1 and statistics_stride(11, 10) == 2


@pytest.mark.parametrize(("num_items", "num_wanted"), [(0, 6), (1, 6), (5, 2), (5, 5), (1_000_000, 6), (7, 0)])
def test_clips_are_chosen_evenly_from_first_to_last(num_items, num_wanted):
    chosen = spread(num_items, num_wanted)
    assert len(chosen) == len(set(chosen)) == min(num_items, num_wanted)
    assert all(0 <= index < num_items for index in chosen)
    if len(chosen) > 1:
        assert chosen[0] == 0 and chosen[-1] == num_items - 1
        assert max(np.diff(chosen)) - min(np.diff(chosen)) <= 1


def test_only_the_beginning_of_a_very_long_clip_is_decoded(dataset, codec):
    clip = dataset["2.wav"]
    first = beginning(clip, dataset.info.array, limit_seconds=0.5)
    whole = codec.decode(clip)
    assert torch.equal(codec.decode(first), whole[:, : RATE // 2])
    assert len(first.array) < len(clip.array)
    assert beginning(clip, dataset.info.array, limit_seconds=2.0).num_samples == clip.num_samples
