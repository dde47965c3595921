"""Clips that are being drawn: a file each, until they are complete or rejected."""

from pathlib import Path

import numpy as np
import pytest
import soundfile
import torch

from solfa.generate.clip import GeneratedClip
from solfa.generate.stream import AudioBlock
from solfa.ui.partial_clips import PartialSamples

AUDIO = torch.linspace(-1, 1, 1000)[None]


def begin(partial: PartialSamples, *names: str, num_samples: int = 400) -> None:
    for start in range(0, num_samples, 200):
        for name in names:
            partial.append(AudioBlock(name, AUDIO[:, start : start + 200], 8000, is_last=start + 200 == num_samples))


def names(folder: Path) -> set[str]:
    return {path.name for path in folder.iterdir()}


def test_what_is_complete_takes_the_place_of_its_beginning_and_the_rest_goes(tmp_path: Path) -> None:
    with PartialSamples(tmp_path) as partial:
        begin(partial, "a/b", "c")
        assert names(tmp_path) == {"a%2Fb.partial.wav", "c.partial.wav"}
        for path in partial.paths.values():
            assert np.array_equal(soundfile.read(path, dtype="float32")[0], AUDIO[0, :400].numpy())
        partial.complete(GeneratedClip("a/b", AUDIO[:, :400], 8000), ".flac")
        assert names(tmp_path) == {"a%2Fb.flac", "a%2Fb.png", "a%2Fb.json", "c.partial.wav"}
    assert names(tmp_path) == {"a%2Fb.flac", "a%2Fb.png", "a%2Fb.json"}


def test_a_fault_leaves_what_was_drawn(tmp_path: Path) -> None:
    with pytest.raises(KeyboardInterrupt), PartialSamples(tmp_path) as partial:
        begin(partial, "a", num_samples=1000)
        partial.append(AudioBlock("b", AUDIO[:, :7], 8000, is_last=False))
        raise KeyboardInterrupt
    assert {name: soundfile.info(tmp_path / name).frames for name in names(tmp_path)} == {
        "a.partial.wav": 1000,
        "b.partial.wav": 7,
    }


def test_more_clips_than_files_may_be_open(tmp_path: Path) -> None:
    import resource

    most = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (64, most[1]))
    try:
        with PartialSamples(tmp_path) as partial:
            for index in range(100):
                begin(partial, str(index), num_samples=200)
            assert len(names(tmp_path)) == 100
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, most)
    assert not names(tmp_path)
