import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from transformers import MusicgenForConditionalGeneration

from solfa.config import parse_config
from solfa.errors import ConfigError
from solfa.generate import data_codec as codes_module
from solfa.generate.clip import GeneratedClip
from solfa.generate.export import export_model
from solfa.generate.model import build_model, load_model
from solfa.generate.request import ClipRequest
from solfa.generate.trained_folder import read_trained
from solfa.models.lm.conditions import Conditions
from solfa.models.lm.generation import GenerationSettings, generate
from solfa.models.lm.musicgen_export import export_musicgen
from solfa.solvers.experiment import Experiment
from solfa.solvers.tasks.lm import LMConfig, LMSolver
from solfa.solvers.watchers.protocol import Watcher, Watchers
from solfa.store.array_dataset import append_arrays
from solfa.store.dataset import open_dataset
from solfa.store.planned_clip import PlannedClip
from solfa.store.schema import ArraySpec, DatasetInfo
from solfa.store.shard_writer import Outcome
from solfa.xp.state_file import read_state
from tests.data.segments import segments_of
from tests.models.conditioners.tiny_encoders import write_musicgen
from tests.solvers.best_weights import load_best
from tests.solvers.conftest import check_resume
from tests.solvers.toy import changed

CODEC = "mulaw:bits=4,sample_rate=100,num_channels=2"
ARRAY = ArraySpec(
    kind="codes", width=2, codebook_size=16, sample_rate=100, num_channels=2, hop_length=1, dtype="uint16"
)


def store_songs(root: Path, count: int = 12, array: ArraySpec = ARRAY, codec: str = CODEC) -> Path:
    """Store clips of two genres: one counts up, the other down, so that the genre says how they go on."""
    outcomes = []
    size = array.codebook_size or 16
    for index in range(count):
        direction = 1 if index % 2 else -1
        steps = np.arange(20 + index)[:, None] * direction + index // 2 + np.arange(array.width) * 3
        metadata = {"genre": "up" if index % 2 else "down", "bpm": 60.0 + index}
        planned = PlannedClip(f"{index}.wav", f"{index}.wav", f"{index}.wav", caption="a b c", metadata=metadata)
        outcomes.append(Outcome(planned, steps % size, num_samples=len(steps) * array.hop_length))
    append_arrays(root, DatasetInfo.of(codec, array, {"codec": codec}), outcomes, {}, clips_per_shard=5)
    return root


def lm_values(data: Path, **changes: Any) -> dict[str, Any]:
    values: dict[str, Any] = {
        "solver": "lm",
        "device": "cpu",
        "dset": {"train": str(data), "hold_out": {"clips": 3}},
        "dataset": {"segment_seconds": 0.16, "batch_size": 4},
        "model": {"dim": 16, "num_layers": 1, "num_heads": 2, "ffn_dim": 32, "dropout": 0.1},
        "optim": {
            "epochs": 2,
            "updates_per_epoch": 5,
            "optimizer": {"kind": "adamw", "lr": 0.01},
            "ema": {"decay": 0.9},
        },
        "logging": {"tensorboard": False, "log_updates": 1},
    }
    return changed(values, changes)


def solver_of(folder: Path, values: dict[str, Any], watcher: Watcher | None = None) -> LMSolver:
    return LMSolver(parse_config(LMConfig, values, "lm"), Experiment(folder, "lm", watcher or Watchers(())))


LABELS = {
    "conditioners": {
        "genre": {"kind": "labels", "source": "genre", "dropout": 0.2},
        "bpm": {"kind": "number", "source": "bpm", "min": 40, "max": 200},
    },
    "guidance_dropout": 0.2,
}


@pytest.fixture(scope="module")
def songs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return store_songs(tmp_path_factory.mktemp("data") / "songs.solfa")


@pytest.mark.parametrize("kind", ["parallel", "delay", "flat", "coarse_first"])
def test_validation_loss_is_the_mean_nats_of_every_code_given_those_laid_out_before_it(
    songs: Path, tmp_path: Path, kind: str
) -> None:
    solver = solver_of(tmp_path, lm_values(songs, model__pattern={"kind": kind}))
    found = solver.run_stage("valid")
    lm = solver.network.lm.eval()
    nats: dict[int, list[float]] = {0: [], 1: []}
    for batch in solver.dataloaders["valid"]:
        for segment in segments_of(batch):
            codes = segment.array.transpose(0, 1)
            # Rows are padded to 16 frames, and what is padded must not count or be seen.
            layout = lm.config.pattern.layout(2, 16)
            tokens = torch.full((1, 2, layout.shape[1] + 1), 16)
            for k, s in [(k, s) for k in range(2) for s in range(layout.shape[1])]:
                if 0 <= layout[k, s] < codes.shape[1]:
                    tokens[0, k, s + 1] = codes[k, layout[k, s]]
            with torch.no_grad():
                log_probs = lm(tokens, Conditions.none()).log_softmax(-1)
            for k, s in [(k, s) for k in range(2) for s in range(layout.shape[1])]:
                if 0 <= layout[k, s] < codes.shape[1]:
                    nats[k].append(-float(log_probs[0, k, s, tokens[0, k, s + 1]]))
    assert found["ce_q1"] == pytest.approx(np.mean(nats[0]), rel=1e-5)
    assert found["ce_q2"] == pytest.approx(np.mean(nats[1]), rel=1e-5)
    assert found["loss"] == pytest.approx(np.mean(nats[0] + nats[1]), rel=1e-5)
    assert found["ppl"] == pytest.approx(np.exp(found["loss"]))


@pytest.mark.slow
@pytest.mark.learning
@pytest.mark.parametrize("told_by", [{"kind": "labels"}, {"kind": "words", "num_rows": 64, "width": 8}])
def test_it_learns_what_follows_and_uses_the_label_to_know_it(
    songs: Path, tmp_path: Path, told_by: dict[str, Any]
) -> None:
    common = {
        "optim__epochs": 1,
        "optim__updates_per_epoch": 150,
        "dset__hold_out": None,
        "dset__valid": str(songs),
        "model__dropout": 0.0,
    }
    # The first frame of a clip does not say its direction: only the label does.
    short = {"dataset__segment_seconds": 0.02, "dataset__train": {"random_start": False}, **common}
    genre = {"conditioners": {"genre": {"source": "genre", **told_by}}}
    told = solver_of(tmp_path / "told", lm_values(songs, conditioner=genre, **short))
    untold = solver_of(tmp_path / "untold", lm_values(songs, **short))
    told.run()
    untold.run()
    losses = [solver.history[-1]["valid"]["loss"] for solver in (told, untold)]
    assert losses[1] < np.log(16)
    # One bit of four codes: which way the second frame goes.
    assert losses[1] - losses[0] == pytest.approx(np.log(2) / 4, abs=0.05)


def test_conditioned_run_interrupted_and_resumed_equals_an_unbroken_one(songs: Path, tmp_path: Path) -> None:
    values = lm_values(songs, conditioner=LABELS, checkpoint__minutes=1e-9)
    check_resume(tmp_path, lambda folder, watcher: solver_of(folder, values, watcher), 2, 6)


class Listener(Watcher):
    def __init__(self) -> None:
        self.heard: list[GeneratedClip] = []
        self.totals: dict[str, int | None] = {}
        self.done = 0

    def stage_started(self, stage: str, epoch: int, total: int | None) -> None:
        self.totals[stage] = total

    def tick(self, done: int) -> None:
        self.done = done

    def clips(self, stage: str, epoch: int, clips: Sequence[GeneratedClip]) -> None:
        self.heard += clips


def test_generate_stage_makes_clips_conditioned_and_begun_as_those_of_the_data(songs: Path, tmp_path: Path) -> None:
    listener = Listener()
    stage = {"every": 2, "num_clips": 3, "seconds": 0.12, "prompt_seconds": 0.05}
    solver = solver_of(tmp_path, lm_values(songs, conditioner=LABELS, generate=stage), listener)
    solver.run()
    assert len(listener.heard) == 3
    assert listener.totals["generate"] == listener.done > 0  # the last stage, followed to its end
    codec = solver.generator().codec
    for index, clip in enumerate(listener.heard):
        stored = solver.sources["generate"][index]
        assert clip.audio.shape == (2, 12)
        assert clip.metadata["conditions"]["genre"] == stored.metadata["genre"]
        codes = codec.encode(torch.as_tensor(clip.audio)[None]).array[0]
        assert torch.equal(codes[:5].long(), torch.from_numpy(stored.array[:5].astype(np.int64)))


def test_generated_clip_is_what_the_model_generates_for_that_seed(songs: Path, tmp_path: Path) -> None:
    solver = solver_of(tmp_path, lm_values(songs, conditioner=LABELS))
    solver.network.eval().double()  # so that one clip and two are rounded to the same codes
    settings = GenerationSettings(guidance_scale=2.0)
    requests = [ClipRequest(str(seed), 0.1, seed, conditions={"genre": "up"}) for seed in (5, 6)]
    clips = list(solver.generator().draw(requests, settings.model_dump(), lambda done, total: None))
    conditions = solver.network.conditioners(solver.network.conditioners.tokenize([{"genre": "up"}]))
    with torch.no_grad():
        codes = generate(solver.network.lm, conditions, 10, settings, seeds=[6])
    decoded = solver.generator().codec.encode(torch.as_tensor(clips[1].audio)[None]).array
    assert torch.equal(decoded.long(), codes.transpose(1, 2))


def test_the_codec_is_not_loaded_while_training(songs: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*args: Any, **kwargs: Any) -> None:
        raise AssertionError("the codec was loaded")

    monkeypatch.setattr(codes_module, "load_codec", refuse)
    solver_of(tmp_path, lm_values(songs)).run()


def test_a_codec_that_does_not_fit_is_found_out_before_training(songs: Path, tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="2 codebooks of 16, found 1 of 256"):
        solver_of(tmp_path, lm_values(songs, codec="mulaw", generate={"every": 1}))


def test_settings_that_cannot_work_get_a_sentence(songs: Path, tmp_path: Path) -> None:
    latents = ArraySpec(kind="latents", width=2, sample_rate=100, num_channels=1, hop_length=1, dtype="float32")
    stored = store_songs(tmp_path / "latents.solfa", array=latents)
    with pytest.raises(ConfigError, match=r"^dset: .*codes, found latents"):
        solver_of(tmp_path, lm_values(stored))
    with pytest.raises(ConfigError, match=r"^dataset\.mode: packed"):
        solver_of(tmp_path, lm_values(songs, conditioner=LABELS, dataset__mode={"kind": "pack"}))
    with pytest.raises(ConfigError, match=r"model\.num_codebooks: .*2, found 4"):
        solver_of(tmp_path, lm_values(songs, model__num_codebooks=4))


def test_musicgen_checkpoint_is_tuned_here_and_goes_back_to_transformers(tmp_path: Path) -> None:
    source = write_musicgen(tmp_path / "musicgen")
    theirs = MusicgenForConditionalGeneration.from_pretrained(source)
    decoder = theirs.config.decoder
    array = ArraySpec(
        kind="codes",
        width=decoder.num_codebooks,
        codebook_size=decoder.vocab_size,
        sample_rate=100,
        num_channels=1,
        hop_length=1,
        dtype="uint16",
    )
    data = store_songs(tmp_path / "songs.solfa", array=array, codec="none")
    text = {"kind": "text", "source": "caption", "encoder": str(source), "fuse": "cross"}
    sizes = {
        "dim": decoder.hidden_size,
        "num_layers": decoder.num_hidden_layers,
        "num_heads": decoder.num_attention_heads,
        "ffn_dim": decoder.ffn_dim,
    }
    values = lm_values(
        data, model=sizes, conditioner={"conditioners": {"description": text}}, continue_from=str(source)
    )
    solver = solver_of(tmp_path / "xp", values)
    solver.restore()
    conditioner = solver.network.conditioners.conditioners["description"]
    assert torch.equal(conditioner.output_proj.weight, theirs.enc_to_dec_proj.weight)
    solver.run()
    assert not any("encoder" in name for name in read_state(tmp_path / "xp" / "best.pt")["states"]["model"])

    load_best(solver)
    export_musicgen(solver.network, tmp_path / "tuned", str(source))
    tuned = MusicgenForConditionalGeneration.from_pretrained(tmp_path / "tuned").eval()
    codes = torch.randint(0, decoder.vocab_size, (1, decoder.num_codebooks, 6))
    ids = solver.network.conditioners.tokenize([{"description": "a b c"}])["description"]["ids"]
    with torch.no_grad():
        ours = solver.network(codes, solver.network.conditioners.tokenize([{"description": "a b c"}]))
        expected = tuned(
            input_ids=ids, attention_mask=torch.ones_like(ids), decoder_input_ids=codes.reshape(-1, 6)
        ).logits
    before = theirs.decoder.state_dict()
    assert any(not torch.equal(before[name], value) for name, value in tuned.decoder.state_dict().items())
    assert float((ours[0] - expected.view(ours[0].shape)).abs().max()) < 1e-4


def test_a_trained_experiment_generates_without_its_data(songs: Path, tmp_path: Path) -> None:
    solver = solver_of(tmp_path, lm_values(songs, conditioner=LABELS))
    solver.run()
    values = lm_values(tmp_path / "gone.solfa", conditioner=LABELS)
    (tmp_path / "config.json").write_text(json.dumps(values))
    alone = build_model(read_trained(tmp_path)).generator
    load_best(solver)
    assert alone.network.conditioners.conditioners["genre"].vocabulary == ("down", "up")
    for name, value in solver.network.state_dict().items():
        if isinstance(value, torch.Tensor):
            assert torch.equal(value, alone.network.state_dict()[name])


def test_words_need_nothing_but_the_weights(songs: Path, tmp_path: Path) -> None:
    style = {"kind": "words", "source": "genre", "fuse": "sum", "num_rows": 64, "width": 8}
    words = {"conditioners": {"style": style}, "guidance_dropout": 0.2}
    values = lm_values(songs, conditioner=words, optim__updates_per_epoch=40, optim__epochs=1)
    solver_of(tmp_path / "xp", values).run()
    (tmp_path / "xp" / "config.json").write_text(json.dumps(values))
    exported = load_model(export_model(tmp_path / "xp", tmp_path / "exported"))
    assert exported.info.conditions == {"style": "words"}
    options = {"seconds": 0.3, "seed": 1, "guidance_scale": 3.0}
    clips = [
        load_model(tmp_path / "xp").generate("going up", **options)[0],
        exported.generate("going up", **options)[0],
    ]
    assert np.array_equal(clips[0].audio, clips[1].audio)
    falling = exported.generate("down", **options)[0]
    assert not np.array_equal(clips[0].audio, falling.audio)


@pytest.mark.parametrize("kind", [{"kind": "labels"}, {"kind": "number", "min": 0, "max": 1}, {"kind": "words"}])
def test_a_column_that_no_clip_has_is_answered_with_those_there_are(
    songs: Path, tmp_path: Path, kind: dict[str, Any]
) -> None:
    conditions = {"conditioners": {"mood": {"source": "gender", **kind}}}
    expected = r"conditioners\.mood\.source: .*'gender'.*did you mean 'genre'.*bpm, genre.*mood\.source=COLUMN"
    with pytest.raises(ConfigError, match=expected):
        solver_of(tmp_path, lm_values(songs, conditioner=conditions))


def test_captions_that_nobody_wrote_are_a_warning(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    planned = [PlannedClip(f"{index}.wav", f"{index}.wav", f"{index}.wav") for index in range(8)]
    clips = [Outcome(clip, np.zeros((20, 2), int), num_samples=20) for clip in planned]
    append_arrays(tmp_path / "songs.solfa", DatasetInfo.of(CODEC, ARRAY, {"codec": CODEC}), clips, {})
    words = {"conditioners": {"style": {"kind": "words"}}}
    solver_of(tmp_path / "xp", lm_values(tmp_path / "songs.solfa", conditioner=words))
    assert caplog.text.count("no training clip has a caption") == 1


def test_validation_sees_every_frame_of_the_held_out_clips_once(songs: Path, tmp_path: Path) -> None:
    solver = solver_of(tmp_path, lm_values(songs, dataset__segment_seconds=None, dataset__mode={"kind": "pad"}))
    seen = sum(int(batch.mask.sum()) for batch in solver.dataloaders["valid"])
    assert seen == int(solver.sources["valid"].num_frames.sum())
    assert len(solver.sources["train"]) + len(solver.sources["valid"]) == len(open_dataset(songs))
