"""Words of the captions as a condition: a vocabulary that is learnt, numbers as numbers, neighbours that count."""

import pytest
import torch
from torch import Tensor

from solfa.config import parse_config
from solfa.errors import ConfigError
from solfa.models.conditioners.learnt_words import LearntWordConditioner, LearntWordsConfig, terms_of
from solfa.models.conditioners.set import ConditionsConfig
from solfa.models.lm.conditioned import build_conditioned_lm
from solfa.models.lm.network import CodecLMConfig, inputs_and_targets
from solfa.xp.state_file import load_module

CAPTIONS = ("slow piano in A minor, 80 bpm", "a fast tune in C# minor, 120 bpm", None)


def conditioner(*captions: str | None, **settings: object) -> LearntWordConditioner:
    torch.manual_seed(0)
    config = parse_config(LearntWordsConfig, {"kind": "learnt_words", **settings}, "test")
    built = LearntWordConditioner(config, 8).double()
    if captions:
        built.fit(captions)
    return built


def embedded(part: LearntWordConditioner, *texts: str | None) -> Tensor:
    return part.embed(part.tokenize(texts)).embedding


def test_words_are_read_in_order_without_case_and_accents() -> None:
    assert terms_of("A Señor's C♯, 80bpm 92.5") == ["a", "senor", "s", "c♯", "80", "bpm", "92.5"]
    assert terms_of("!! _") == []


def test_the_vocabulary_is_that_of_the_captions_and_comes_with_the_weights() -> None:
    part = conditioner(*CAPTIONS)
    assert part.vocabulary is not None
    assert part.vocabulary.words == ("a", "bpm", "c#", "fast", "in", "minor", "piano", "slow", "tune")
    assert part.vocabulary[1:] == (80.0, 120.0)
    loaded = conditioner()
    load_module("model", loaded, part.state_dict())
    assert torch.equal(embedded(loaded, CAPTIONS[0]), embedded(part, CAPTIONS[0]))
    with pytest.raises(ConfigError, match=r"other words or numbers .*\(slower\); .*from scratch"):
        conditioner(*CAPTIONS, "slower").load_state_dict(part.state_dict())


def test_without_a_vocabulary_nothing_is_read() -> None:
    with pytest.raises(ConfigError, match=r"'caption': the vocabulary is not known"):
        conditioner().tokenize(["piano"])
    with pytest.raises(ConfigError, match=r"no training clip has a text"):
        conditioner(None, " ")


def test_unknown_words_are_ignored_and_named_once(caplog: pytest.LogCaptureFixture) -> None:
    part = conditioner(*CAPTIONS)
    for _ in range(2):
        assert torch.equal(embedded(part, "slow pianos kazoo in A minor"), embedded(part, "slow in A minor"))
    assert [record.getMessage().partition("them: ")[2] for record in caplog.records] == [
        "'pianos', did you mean 'piano'?, 'kazoo'"
    ]
    assert part.spell("slow kazoo at 90 BPM") == "slow 90 bpm"


def test_numbers_are_numbers_that_no_caption_needs_to_have(caplog: pytest.LogCaptureFixture) -> None:
    part = conditioner(*CAPTIONS)
    at = [embedded(part, f"{bpm} bpm") for bpm in ("80", "80.01", "100", "120")]
    near, far = (float((other - at[0]).detach().norm()) for other in at[1:3])
    assert 0 < near < 0.01 * far  # the features turn at most 16 half turns over the range: 0.0126 of one for 0.01 bpm
    assert torch.equal(embedded(part, "300 bpm"), at[3]) and "300 counts as 120" in caplog.text
    assert torch.equal(embedded(conditioner("piano"), "80 piano"), embedded(conditioner("piano"), "piano"))


def test_a_text_without_numbers_says_nothing_about_them() -> None:
    part = conditioner(*CAPTIONS)
    embedded(part, "slow piano").square().sum().backward()  # type: ignore[no-untyped-call]
    assert part.number_proj.bias.grad is not None and not part.number_proj.bias.grad.any()


def test_neighbours_tell_apart_what_a_word_alone_cannot() -> None:
    part = conditioner(*CAPTIONS, fuse="sum")
    key, article = embedded(part, "fast tune in A minor"), embedded(part, "A fast tune in minor")
    assert not torch.allclose(key, article)
    assert key.shape == (1, 1, 8)


@pytest.mark.parametrize("fuse", ["cross", "sum", "prepend"])
def test_a_text_has_the_same_vectors_whatever_is_beside_it_and_an_absent_one_zeros(fuse: str) -> None:
    part = conditioner(*CAPTIONS, fuse=fuse)
    alone = part.embed(part.tokenize(["slow piano"]))
    beside = part.embed(part.tokenize([CAPTIONS[0], "slow piano", None, "?!"]))
    count = alone.mask.shape[1]
    torch.testing.assert_close(beside.embedding[1, :count], alone.embedding[0])
    assert not beside.embedding[1, count:].any() and not beside.mask[1, count:].any()
    assert not beside.embedding[2:].any() and not beside.mask[2:].any()


def test_long_texts_are_cut_with_a_warning(caplog: pytest.LogCaptureFixture) -> None:
    part = conditioner(*CAPTIONS, max_words=2)
    for _ in range(2):
        assert part.tokenize(["slow fast slow"])["rows"].shape[1] == 2
    assert caplog.text.count("more than 2 words") == 1


@pytest.mark.slow
@pytest.mark.learning
def test_a_model_learns_words_their_neighbours_and_numbers_between_those_it_was_shown() -> None:
    """The note before `minor` decides the first code and the number the second; odd numbers were never shown."""

    def captions(bpms: range) -> list[str]:
        return [f"a tune in {note} minor, {bpm} bpm" for note in "ABCD" for bpm in bpms]

    def codes(texts: list[str]) -> Tensor:
        first = [4 * ("ABCD".index(text.split()[3])) for text in texts]
        return torch.tensor(
            [[[note], [(int(text.split()[5]) - 80) // 10]] for note, text in zip(first, texts, strict=True)]
        )

    torch.manual_seed(0)
    words = {"kind": "learnt_words", "fuse": "sum"}
    config = CodecLMConfig(dim=32, num_layers=1, num_heads=2, ffn_dim=32)
    taught, asked = captions(range(80, 160, 2)), captions(range(81, 159, 2))
    conditions = ConditionsConfig.model_validate({"conditioners": {"description": words}})
    model = build_conditioned_lm(config, conditions, 2, 16, 75.0, lambda column: taught)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2)

    def logits(texts: list[str]) -> tuple[Tensor, Tensor]:
        wanted = codes(texts)
        mask = torch.ones(len(texts), 1, dtype=torch.bool)
        laid = inputs_and_targets(wanted, mask, model.lm.layout(1), model.lm.special)
        scores = model(laid.inputs, model.conditioners.tokenize([{"description": text} for text in texts]))
        return torch.stack([scores[:, 0, 0], scores[:, 1, 1]], dim=1), wanted[:, :, 0]

    for _ in range(200):
        scores, wanted = logits(taught)
        optimizer.zero_grad()
        torch.nn.functional.cross_entropy(scores.flatten(0, 1), wanted.flatten()).backward()
        optimizer.step()
    scores, wanted = logits(asked)
    right = (scores.argmax(dim=2) == wanted).double().mean(dim=0).tolist()
    assert right[0] == 1.0 and right[1] > 0.9
