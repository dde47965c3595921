"""What a model repeats is found among its training clips as the codec gives them back; what is new is not."""

import json
from pathlib import Path

import numpy as np
import pytest
import torch

import solfa
from solfa.data.sources.dset import Dset, Source
from solfa.data.sources.hold_out import HoldOut
from solfa.errors import ConfigError
from solfa.generate.training_copies import spell_nearest, training_data, training_finder
from solfa.xp.layout import PREPARED
from tests.data.copies_maker import RATE, encode_collection, write_collection
from tests.ops.test_landmarks import melody


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder that says which data was trained on, as a run writes it."""
    folder = tmp_path_factory.mktemp("trained")
    made = encode_collection(write_collection(folder / "audio"))
    dset = Dset(train=(Source(path=str(made)),), hold_out=HoldOut(clips=1))
    (folder / PREPARED).write_text(json.dumps({"start": "", "dset": dset.model_dump(mode="json")}))
    return folder


def test_codes_that_are_repeated_are_a_copy(trained: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SOLFA_CACHE_DIR", str(tmp_path))
    codec = solfa.load_codec(f"mulaw:bits=8,sample_rate={RATE}")
    datasets = training_data(trained)
    decoded: list[int] = []
    finder = training_finder(datasets, codec, lambda done, total: decoded.append(done))
    assert len(finder.ids) == len(decoded) < 8  # without what is held out
    for clip in datasets[0]:
        part = torch.from_numpy(clip.array[RATE:].astype(np.int64))[None]
        audio = codec.decode(solfa.codecs.protocol.Encoded(part, part.shape[1]))[0].numpy()
        nearest = finder.nearest(audio, RATE)
        assert nearest is not None and nearest.is_copy
        assert "a copy of" in spell_nearest(nearest)
        # The loop begins again in each of its clips.
        assert nearest.id == clip.id or {nearest.id[:4], clip.id[:4]} in ({"loop"}, {"copy", "take"})
    strange = finder.nearest(melody(6, RATE, seed=50).astype(np.float32), RATE)
    assert strange is None or not strange.is_copy
    assert "copy of" not in spell_nearest(strange)
    again: list[int] = []
    training_finder(datasets, codec, lambda done, total: again.append(done))
    assert not again  # what was decoded is kept


def test_a_model_that_does_not_say_what_it_learned_from_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="experiment"):
        training_data(tmp_path)
