from pathlib import Path
from typing import Any

import numpy as np
import pytest

from solfa.solvers.plan.rehearsal import learned, rehearse
from tests.solvers import mot_runs
from tests.solvers.tasks import test_flow, test_lm


@pytest.mark.parametrize(
    ("losses", "word"),
    [([4.0, 3.0, 2.0, 1.0], "it learns"), ([4.0] * 30, "hardly"), ([4.0, 5.0, 9.0], "does not"), ([2.0], "hardly")],
)
def test_the_verdict_compares_the_beginning_with_the_end(losses: list[float], word: str) -> None:
    assert word in learned(tuple(losses))


def test_one_batch_is_learned_again_and_again(tmp_path: Path) -> None:
    songs = test_lm.store_songs(tmp_path / "songs.solfa")
    values = test_lm.lm_values(songs, conditioner=test_lm.LABELS, model__dropout=0.0)
    solver = test_lm.solver_of(tmp_path / "xp", values)
    found = rehearse(solver, 30, batches_per_update=2, total_updates=100)
    assert found.verdict.startswith("it learns") and len(found.losses) == 30
    assert found.start is None and found.untrained is not None
    assert found.seconds == 100 * found.seconds_per_update > 0
    assert len(found.rows) == 4
    for row in found.rows:
        clip = np.asarray(next(c.array for c in solver.sources["train"] if c.id == row.id))
        assert any(np.array_equal(clip[at : at + len(row.array)], row.array) for at in range(len(clip)))
        assert row.conditions["genre"] in ("up", "down")
    assert not (tmp_path / "xp").exists(), "nothing was saved"


def test_latents_are_shown_as_the_network_sees_them_and_captions_as_it_reads_them(tmp_path: Path) -> None:
    latents = test_flow.store_latents(tmp_path / "latents.solfa", scale=5.0)
    solver = test_flow.solver_of(tmp_path / "xp", test_flow.flow_values(latents))
    found = rehearse(solver, 2, batches_per_update=1, total_updates=10)
    seen, stored = (np.concatenate([getattr(row, name) for row in found.rows]) for name in ("seen", "array"))
    scale = solver.network.std[:, 0].numpy(), solver.network.mean[:, 0].numpy()
    assert np.allclose(seen * scale[0] + scale[1], stored, rtol=1e-5, atol=1e-5)
    assert {row.conditions["text"] for row in found.rows} <= {"up", "down"}


@pytest.mark.slow
def test_a_run_from_weights_is_rehearsed_from_them(tmp_path: Path) -> None:
    songs = test_lm.store_songs(tmp_path / "songs.solfa")
    test_lm.solver_of(tmp_path / "base", test_lm.lm_values(songs, optim__updates_per_epoch=30)).run()
    for adapter in (None, {"rank": 2}):
        changes: dict[str, Any] = {"continue_from": str(tmp_path / "base"), "adapter": adapter}
        solver = test_lm.solver_of(tmp_path / "xp", test_lm.lm_values(songs, **changes))
        found = rehearse(solver, 1, batches_per_update=1, total_updates=10)
        assert found.start is not None and found.start < found.expected[0].value
        assert (found.untrained is None) == (adapter is not None)


def test_texts_are_spelled_in_the_tokens_of_the_text_model(tmp_path: Path) -> None:
    world = mot_runs.make_world(tmp_path / "world")
    solver = mot_runs.solver_of(tmp_path / "xp", mot_runs.mot_values(world))
    with solver.first_batch() as batch:
        told = solver.conditions_as_read(batch)
    tokens = solver.texts.base.tokenizer
    for row, caption in zip(told, batch.captions, strict=True):
        assert tokens.convert_tokens_to_ids(row["text"].split(" ")) == solver.texts.tokenize(caption)
