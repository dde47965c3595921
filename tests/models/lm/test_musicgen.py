"""MusicGen: the logits of transformers' own modules, and files that transformers reads back."""

import json
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file
from torch import Tensor
from transformers import MusicgenForConditionalGeneration

from solfa.errors import ConfigError
from solfa.models.lm.conditions import Conditions
from solfa.models.lm.musicgen import load_musicgen, save_musicgen
from solfa.models.lm.network import CodecLM, CodecLMConfig
from solfa.nn.positions import Rope
from solfa.ops.patterns import Parallel
from tests.models.tiny_musicgen import MASK, TEXT, D, K, V, make_whole, our_logits, their_logits


@pytest.fixture
def tokens() -> Tensor:
    return torch.randint(0, V + 1, (2, K, 13))


def changed_slightly(tensors: dict[str, Tensor]) -> None:
    for tensor in tensors.values():
        tensor.data.add_(0.1 * torch.randn_like(tensor))


def test_a_bare_decoder_gives_the_logits_of_transformers(bare_musicgen: Path, tokens: Tensor) -> None:
    loaded = load_musicgen(bare_musicgen)
    theirs = their_logits(bare_musicgen, tokens, None)
    assert theirs.std() > 0.5
    assert (our_logits(loaded, tokens, None) - theirs).abs().max() < 1e-4
    assert loaded.text_projection is None and loaded.report.left == {} and not loaded.model.training


@pytest.mark.parametrize("text_width", [TEXT, D])
def test_a_whole_model_gives_the_logits_of_transformers_for_padded_text(
    text_width: int, tmp_path: Path, tokens: Tensor
) -> None:
    directory = make_whole(tmp_path / "whole", text_width)
    loaded, text = load_musicgen(directory), torch.randn(2, 5, text_width)
    theirs = their_logits(directory, tokens, text)
    assert (our_logits(loaded, tokens, text) - theirs).abs().max() < 1e-4
    assert (our_logits(loaded, tokens, None) - theirs).abs().max() > 0.1, "the text matters"
    assert (loaded.text_projection is None) == (text_width == D)


def test_the_unconditional_row_of_guidance_gives_the_logits_of_transformers(
    whole_musicgen: Path, tokens: Tensor
) -> None:
    model = MusicgenForConditionalGeneration.from_pretrained(whole_musicgen)
    inputs = model.get_unconditional_inputs(num_samples=2)
    with torch.no_grad():
        theirs = model(
            encoder_outputs=inputs.encoder_outputs,
            attention_mask=inputs.attention_mask,
            decoder_input_ids=tokens.reshape(2 * K, -1),
        ).logits.view(2, K, -1, V)
        loaded = load_musicgen(whole_musicgen)
        given = Conditions(cross=torch.randn(2, 5, D), cross_mask=MASK.bool()).doubled_with_null()
        ours = loaded.model(tokens.repeat(2, 1, 1), given)[2:]
    assert (ours - theirs).abs().max() < 1e-4


def test_what_was_fine_tuned_is_loaded_by_transformers_as_a_whole(
    whole_musicgen: Path, tokens: Tensor, tmp_path: Path
) -> None:
    loaded, text = load_musicgen(whole_musicgen), torch.randn(2, 5, TEXT)
    before = our_logits(loaded, tokens, text)
    assert loaded.text_projection is not None
    changed_slightly({**loaded.model.state_dict(), **loaded.text_projection})
    ours = our_logits(loaded, tokens, text)
    assert (ours - before).abs().max() > 0.1
    save_musicgen(loaded.model, tmp_path / "tuned", source=whole_musicgen, text_projection=loaded.text_projection)
    assert (their_logits(tmp_path / "tuned", tokens, text) - ours).abs().max() < 1e-4
    assert (tmp_path / "tuned" / "tokenizer_config.json").is_file()
    _, info = MusicgenForConditionalGeneration.from_pretrained(tmp_path / "tuned", output_loading_info=True)
    assert not any(info.values())
    again = load_musicgen(tmp_path / "tuned")
    assert torch.equal(our_logits(again, tokens, text), ours) and again.config == loaded.config


def test_what_was_fine_tuned_is_loaded_by_transformers_as_a_bare_decoder(
    whole_musicgen: Path, bare_musicgen: Path, tokens: Tensor, tmp_path: Path
) -> None:
    for number, source in enumerate((None, bare_musicgen)):
        loaded = load_musicgen(whole_musicgen if source is None else source)
        changed_slightly(dict(loaded.model.state_dict()))
        save_musicgen(loaded.model, tmp_path / str(number), source=source)
        ours = our_logits(loaded, tokens, None)
        assert (their_logits(tmp_path / str(number), tokens, None) - ours).abs().max() < 1e-4


@pytest.mark.parametrize("kind", ["bare_musicgen", "whole_musicgen"])
def test_loading_and_saving_keeps_every_bit_and_every_name(
    kind: str, request: pytest.FixtureRequest, tmp_path: Path
) -> None:
    source: Path = request.getfixturevalue(kind)
    loaded = load_musicgen(source)
    save_musicgen(loaded.model, tmp_path / "again", source=source, text_projection=loaded.text_projection)
    before, after = (load_file(folder / "model.safetensors") for folder in (source, tmp_path / "again"))
    assert before.keys() == after.keys()
    assert all(torch.equal(before[name], after[name]) and after[name].dtype == torch.float32 for name in before)
    assert json.loads((tmp_path / "again" / "config.json").read_text()) == json.loads(
        (source / "config.json").read_text()
    )
    assert sum((loaded.report.loaded, *loaded.report.left.values())) == len(before)


def test_a_model_trained_from_nothing_is_loaded_by_transformers(tokens: Tensor, tmp_path: Path) -> None:
    config = CodecLMConfig(
        num_codebooks=K, codebook_size=V, dim=8, num_layers=1, num_heads=2, ffn_dim=8, cross_attention=True, clock=False
    )
    model = CodecLM(config)
    save_musicgen(model, tmp_path / "new")
    with torch.no_grad():
        ours = model(tokens, Conditions.none())
    assert (their_logits(tmp_path / "new", tokens, None) - ours).abs().max() < 1e-4
    assert load_musicgen(tmp_path / "new").config == config


@pytest.mark.parametrize(
    ("changes", "fault"),
    [
        ({"positions": Rope()}, "needs sinusoidal positions, found rope"),
        ({"pattern": Parallel()}, "needs the pattern delay"),
        ({"cross_attention": False}, "needs cross-attention, found none"),
    ],
)
def test_a_model_that_transformers_cannot_express_is_not_written(
    changes: dict[str, Any], fault: str, tmp_path: Path
) -> None:
    settings = {"num_codebooks": K, "codebook_size": V, "dim": 8, "num_layers": 1, "num_heads": 2, "ffn_dim": 8}
    model = CodecLM(CodecLMConfig.model_validate({**settings, "cross_attention": True, **changes}))
    with pytest.raises(ConfigError, match=fault):
        save_musicgen(model, tmp_path / "out")
    assert list(tmp_path.iterdir()) == []


def test_saving_asks_for_what_belongs_to_the_layout_and_overwrites_nothing(
    whole_musicgen: Path, bare_musicgen: Path, tmp_path: Path
) -> None:
    loaded = load_musicgen(whole_musicgen)
    with pytest.raises(ConfigError, match=r"text_projection .*, found none"):
        save_musicgen(loaded.model, tmp_path / "out", source=whole_musicgen)
    with pytest.raises(ConfigError, match=r"no text_projection .*bare decoder, found one"):
        save_musicgen(loaded.model, tmp_path / "out", text_projection=loaded.text_projection)
    config = loaded.config.model_copy(update={"num_layers": 1})
    with pytest.raises(ConfigError, match=r"num_layers 3, .*1; pass the checkpoint"):
        save_musicgen(CodecLM(config), tmp_path / "out", source=bare_musicgen)
    (tmp_path / "there").mkdir()
    with pytest.raises(ConfigError, match="already exists"):
        save_musicgen(loaded.model, tmp_path / "there")
