"""Event files hold the curves, texts, sounds and pictures of a run, and a resumed run takes back what was lost."""

import io
from pathlib import Path

import numpy as np
import pytest
import soundfile
from PIL import Image
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator
from tensorboard.util import tensor_util

from solfa.generate.clip import GeneratedClip
from solfa.solvers.watchers.tensorboard import TensorBoardWatcher, spectrogram_image

UPDATES = 10


def run(folder: Path, start: int, stop: int, offset: float = 0.0, valid: bool = True) -> None:
    """Log the updates after `start` up to `stop`, as a run of epochs of ten updates does."""
    watcher = TensorBoardWatcher(folder, UPDATES)
    watcher.started(folder, {"seed": 3, "optim": {"lr": 0.1}})
    for epoch in range(start // UPDATES + 1, (stop - 1) // UPDATES + 2):
        watcher.stage_started("train", epoch, UPDATES)
        first = (epoch - 1) * UPDATES
        for update in range(max(start, first) + 1, min(stop, epoch * UPDATES) + 1):
            watcher.step(update - first, {"loss": update + offset})
        if stop >= epoch * UPDATES and valid:
            watcher.stage_finished("train", epoch, {"loss": -epoch - offset}, 1.0)
            watcher.stage_started("valid", epoch, 3)
            watcher.step(3, {"loss": 99.0})
            watcher.stage_finished("valid", epoch, {"loss": 100.0 * epoch + offset}, 1.0)
    close(watcher)


def close(watcher: TensorBoardWatcher) -> None:
    """Close, and number the new files in order: they are read by name, which holds only whole seconds."""
    watcher.closed()
    count = len(list(watcher.folder.glob("[0-9]*")))
    for path in sorted(watcher.folder.glob("events*"), key=lambda path: path.stat().st_mtime_ns):
        path.rename(path.with_name(f"{count:03d}.{path.name}"))
        count += 1


def read(folder: Path) -> EventAccumulator:
    return EventAccumulator(str(folder), size_guidance={"scalars": 0, "images": 0, "audio": 0, "tensors": 0}).Reload()


def curve(events: EventAccumulator, tag: str) -> dict[int, float]:
    found = events.Scalars(tag)
    assert len({event.step for event in found}) == len(found), "a step is there twice"
    return {event.step: event.value for event in found}


def test_curves_stand_on_one_axis_of_updates(tmp_path):
    run(tmp_path, 0, 20)
    events = read(tmp_path)
    assert set(events.Tags()["scalars"]) == {"train/loss", "train_epoch/loss", "valid/loss"}
    assert curve(events, "train/loss") == {update: float(update) for update in range(1, 21)}
    assert curve(events, "train_epoch/loss") == {10: -1.0, 20: -2.0}
    assert curve(events, "valid/loss") == {10: 100.0, 20: 200.0}


@pytest.mark.parametrize("resumed_at", [10, 14])
def test_a_resumed_run_replaces_what_was_logged_after_its_checkpoint(tmp_path, resumed_at):
    run(tmp_path, 0, 25)
    run(tmp_path, resumed_at, 22, offset=0.5)
    events = read(tmp_path)
    expected = {update: update + (0.5 if update > resumed_at else 0.0) for update in range(1, 23)}
    assert curve(events, "train/loss") == expected
    assert curve(events, "valid/loss") == {10: 100.0, 20: 200.5}


def test_a_run_that_resumes_with_a_later_stage_takes_back_only_what_it_trains_again(tmp_path):
    run(tmp_path, 0, 25)
    watcher = TensorBoardWatcher(tmp_path, UPDATES)
    watcher.stage_finished("evaluate", 1, {"distance": 7.0}, 1.0)
    watcher.stage_started("train", 2, UPDATES)
    watcher.step(1, {"loss": -1.0})
    close(watcher)
    events = read(tmp_path)
    assert curve(events, "train/loss") == {**{update: float(update) for update in range(1, 11)}, 11: -1.0}
    assert curve(events, "valid/loss") == {10: 100.0} and curve(events, "evaluate/distance") == {10: 7.0}


def test_evaluating_an_early_epoch_takes_nothing_back(tmp_path):
    run(tmp_path, 0, 30)
    watcher = TensorBoardWatcher(tmp_path, UPDATES)
    watcher.started(tmp_path, {})
    watcher.stage_started("evaluate", 1, 4)
    watcher.stage_finished("evaluate", 1, {"distance": 7.0}, 1.0)
    close(watcher)
    events = read(tmp_path)
    assert len(curve(events, "train/loss")) == 30 and len(curve(events, "valid/loss")) == 3
    assert curve(events, "evaluate/distance") == {10: 7.0}


def text(events: EventAccumulator, tag: str) -> str:
    (event,) = events.Tensors(f"{tag}/text_summary")
    return tensor_util.make_ndarray(event.tensor_proto)[0].decode()


def test_hyper_parameters_are_a_text(tmp_path):
    run(tmp_path, 0, 1)
    assert '        "lr": 0.1' in text(read(tmp_path), "hyper_parameters").splitlines()


def test_clips_are_heard_and_seen(tmp_path):
    time = np.arange(8000) / 8000
    tone = np.stack([0.5 * np.sin(2 * np.pi * 1000 * time), np.zeros(8000)]).astype(np.float32)
    watcher = TensorBoardWatcher(tmp_path, UPDATES)
    watcher.clips("generate", 2, [GeneratedClip("flute", tone, 8000, {"text": "a high flute"})])
    watcher.closed()
    events = read(tmp_path)
    (sound,) = events.Audio("generate/flute")
    heard, sample_rate = soundfile.read(io.BytesIO(sound.encoded_audio_string))
    assert sound.step == 20 and sample_rate == 8000
    assert np.abs(heard - tone.mean(axis=0)).max() < 1e-3
    (picture,) = events.Images("generate/flute")
    pixels = np.asarray(Image.open(io.BytesIO(picture.encoded_image_string)).convert("L"))
    assert np.array_equal(pixels, spectrogram_image(tone, 8000))
    assert "a high flute" in text(events, "generate/flute")


def test_low_sounds_are_at_the_bottom_and_silence_is_dark():
    time = np.arange(16000) / 16000
    low, high = (np.sin(2 * np.pi * hz * time)[None].astype(np.float32) for hz in (200, 6000))
    brightest = [int(spectrogram_image(sound, 16000).mean(axis=1).argmax()) for sound in (low, high)]
    assert brightest[0] > 100 and brightest[1] < 28
    half = np.concatenate([low, np.zeros_like(low)], axis=1)
    assert spectrogram_image(half, 16000)[:, -5:].max() == 0
