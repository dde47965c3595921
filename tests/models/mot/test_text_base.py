"""The frozen text model: what transformers loads, to the bit, or one sentence that says why not."""

import logging
import math
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file, save_file
from torch import Tensor, nn
from transformers import AutoTokenizer, GPT2Config, GPT2LMHeadModel

from solfa.errors import ConfigError
from solfa.models.mot.text_base import load_base, through
from solfa.models.mot.tiny_llama import tiny_tokenizer
from tests.models.mot.tiny_mot import fresh_base, their_model, write_base

IDS = torch.tensor([[1, 70, 71, 72, 73, 120], [1, 33, 34, 250, 36, 7]])


def test_logits_are_those_of_transformers_to_the_bit(base: Path, biased_base: Path) -> None:
    for directory in (base, biased_base):
        with torch.no_grad():
            expected = their_model(directory)(IDS).logits
        assert torch.equal(fresh_base(directory).logits(IDS), expected)


def test_sizes_are_those_of_the_config(base: Path, biased_base: Path) -> None:
    sizes = fresh_base(base).sizes
    assert (sizes.dim, sizes.num_layers, sizes.ffn_dim, sizes.vocabulary) == (32, 3, 48, 259)
    assert (sizes.num_heads, sizes.num_key_value_heads, sizes.head_dim) == (4, 2, 8)
    assert not sizes.attention_bias and not sizes.mlp_bias
    biased = fresh_base(biased_base).sizes
    assert biased.attention_bias and biased.mlp_bias and biased.num_key_value_heads == 4


def test_nothing_of_it_is_trained_or_drawn_from_the_random_numbers_of_the_run(base: Path) -> None:
    torch.manual_seed(7)
    expected = torch.rand(3)
    torch.manual_seed(7)
    loaded = load_base(str(base))
    assert torch.equal(torch.rand(3), expected)
    assert not any(parameter.requires_grad for parameter in loaded.model.parameters())
    assert not loaded.model.training


def test_the_tiny_base_is_the_same_every_time() -> None:
    first, second = load_base("//tiny"), load_base("//tiny")
    assert torch.equal(first.logits(IDS), second.logits(IDS)) and first.fingerprint == second.fingerprint
    assert first.tokenize("hé", 9) == second.tokenize("hé", 9)
    assert first.tokenizer.decode(first.tokenize("hé", 9), skip_special_tokens=True) == "hé"


def test_another_precision_is_that_of_all_weights(base: Path) -> None:
    halved = load_base(str(base), "float16")
    assert {parameter.dtype for parameter in halved.model.parameters()} == {torch.float16}
    assert halved.dtype == torch.float16 and halved.fingerprint == fresh_base(base).fingerprint
    assert torch.allclose(halved.logits(IDS).float(), fresh_base(base).logits(IDS), atol=0.1)


def test_the_fingerprint_follows_weights_and_tokenizer_and_not_the_place(base: Path, tmp_path: Path) -> None:
    def written(name: str, change: Callable[[Path], object]) -> str:
        directory = tmp_path / name
        shutil.copytree(base, directory)
        change(directory)
        return load_base(str(directory)).fingerprint

    def scale_norm(directory: Path) -> None:
        rewrite(directory, lambda weights: weights["model.norm.weight"].mul_(1.001))

    def spell_differently(directory: Path) -> None:
        path = directory / "tokenizer.json"
        path.write_text(path.read_text().replace('"<eos>"', '"</s>"'))

    same = fresh_base(base).fingerprint
    assert written("copy", lambda directory: None) == same
    assert len({same, written("weights", scale_norm), written("tokens", spell_differently)}) == 3


def test_texts_are_tokenized_as_the_tokenizer_does_without_a_chat_around_them(base: Path) -> None:
    loaded = fresh_base(base)
    theirs = AutoTokenizer.from_pretrained(base)
    assert loaded.tokenize("two words", 99) == theirs("two words")["input_ids"] and loaded.tokenize("", 99) == [1]
    loaded.tokenizer.chat_template = "[{{ messages }}]"
    assert loaded.tokenize("two words", 99) == theirs("two words")["input_ids"]


def test_a_long_text_loses_its_end_and_that_is_said_once(base: Path, caplog: pytest.LogCaptureFixture) -> None:
    loaded = fresh_base(base)
    with caplog.at_level(logging.WARNING):
        assert loaded.tokenize("four", 5) == loaded.tokenize("four", 9) and not caplog.records
        assert loaded.tokenize("longer", 4) == loaded.tokenize("lon", 4)
        loaded.tokenize("longest", 4)
    (record,) = caplog.records
    assert "4 tokens" in record.message and "'longer'" in record.message


def llama3_angle(position: int, pair: int, scaled: bool) -> float:
    """Llama 3's rule, one frequency at a time, with the numbers of the tiny base."""
    frequency = 10_000.0 ** (-2 * pair / 8)
    if not scaled:
        return position * frequency
    turns = 64 * frequency / (2 * math.pi)
    if turns < 1:
        return position * frequency / 8
    if turns > 4:
        return position * frequency
    smooth = (turns - 1) / (4 - 1)
    return position * ((1 - smooth) * frequency / 8 + smooth * frequency)


def test_angles_are_scaled_as_the_config_says(base: Path) -> None:
    loaded, positions = fresh_base(base), torch.tensor([[0, 1, 60, 300], [5, 4, 77, 2]])
    cos, sin = loaded.rotation(torch.zeros(2, 4, 32), positions)
    theirs = their_model(base).model.rotary_emb(torch.zeros(2, 4, 32), positions)
    assert torch.equal(cos, theirs[0]) and torch.equal(sin, theirs[1])

    def slowly(scaled: bool) -> Tensor:
        rows = [[[llama3_angle(p, e % 4, scaled) for e in range(8)] for p in row] for row in positions.tolist()]
        return torch.tensor(rows, dtype=torch.float64)

    assert torch.allclose(cos.double(), slowly(True).cos(), atol=1e-4)
    assert torch.allclose(sin.double(), slowly(True).sin(), atol=1e-4)
    assert (cos.double() - slowly(False).cos()).abs().amax() > 0.5


@pytest.mark.parametrize("autocast", [False, True])
def test_keys_and_values_are_what_transformers_keeps_of_a_text(base: Path, biased_base: Path, autocast: bool) -> None:
    for directory in (base, biased_base):
        with torch.no_grad():
            kept = their_model(directory)(IDS[:1], use_cache=True).past_key_values
        with torch.autocast("cpu", torch.bfloat16, enabled=autocast):
            ours = fresh_base(directory).keys_and_values(IDS[0].tolist())
        assert ours.shape[0] == 6 and not ours.requires_grad
        for index, layer in enumerate(kept.layers):
            assert torch.equal(ours[index], layer.keys[0]) and torch.equal(ours[3 + index], layer.values[0])


def test_an_empty_text_keeps_nothing(base: Path) -> None:
    assert fresh_base(base).keys_and_values([]).shape == (6, 2, 0, 8)


def test_an_answer_is_the_greedy_one_of_transformers(base: Path) -> None:
    loaded, theirs, tokenizer = fresh_base(base), their_model(base), AutoTokenizer.from_pretrained(base)
    for text in ("a", "what is this?"):
        read = tokenizer(text, return_tensors="pt")
        inputs = {name: read[name] for name in ("input_ids", "attention_mask")}
        told = theirs.generate(**inputs, max_new_tokens=12, do_sample=False)[0, read["input_ids"].shape[1] :]
        assert loaded.answer(text, 12) == tokenizer.decode(told, skip_special_tokens=True)


def test_nothing_cannot_be_answered_by_a_base_whose_texts_begin_with_nothing(base: Path) -> None:
    loaded, tokenizer = fresh_base(base), tiny_tokenizer()
    loaded.tokenizer = lambda text, verbose: {"input_ids": tokenizer(text)["input_ids"][1:]}
    with pytest.raises(ConfigError, match=r"^text: .*found an empty one"):
        loaded.answer("")


def test_a_projection_in_another_precision_reads_and_gives_that_of_its_input() -> None:
    part, x = nn.Linear(4, 3), torch.randn(5, 4)
    halved = nn.Linear(4, 3, dtype=torch.float16)
    halved.load_state_dict(part.state_dict())
    assert torch.equal(through(part, x), part(x))
    read = through(halved, x)
    assert read.dtype == torch.float32 and torch.equal(read, halved(x.half()).float())
    assert torch.allclose(read, part(x), atol=1e-2)


def rewrite(directory: Path, change: Callable[[dict[str, Tensor]], object]) -> None:
    """Change the tensors of a checkpoint."""
    weights = load_file(directory / "model.safetensors")
    change(weights)
    save_file(weights, directory / "model.safetensors", metadata={"format": "pt"})


def drop(directory: Path) -> None:
    rewrite(directory, lambda weights: weights.pop("model.layers.1.mlp.up_proj.weight"))


def add(directory: Path) -> None:
    rewrite(directory, lambda weights: weights.update({"model.layers.1.mlp.gates": torch.zeros(2)}))


def reshape(directory: Path) -> None:
    rewrite(directory, lambda weights: weights.update({"model.norm.weight": torch.zeros(5)}))


def poison(directory: Path) -> None:
    rewrite(directory, lambda weights: weights["model.layers.2.self_attn.q_proj.weight"][3].fill_(torch.nan))


def cut(directory: Path) -> None:
    path = directory / "model.safetensors"
    path.write_bytes(path.read_bytes()[:-1000])


def cut_the_header(directory: Path) -> None:
    path = directory / "model.safetensors"
    path.write_bytes(path.read_bytes()[:50])


def forget_the_weights(directory: Path) -> None:
    (directory / "model.safetensors").unlink()


def forget_the_config(directory: Path) -> None:
    (directory / "config.json").unlink()


def forget_the_tokenizer(directory: Path) -> None:
    for path in directory.glob("tokenizer*"):
        path.unlink()


def break_the_tokenizer(directory: Path) -> None:
    (directory / "tokenizer.json").write_text("{}")


@pytest.mark.parametrize(
    ("damage", "fault"),
    [
        (drop, r"missing model\.layers\.1\.mlp\.up_proj\.weight"),
        (add, r"unexpected model\.layers\.1\.mlp\.gates"),
        (reshape, r"shape model\.norm\.weight \[.*\] instead of \[.*\]"),
        (poison, r"NaN .*model\.layers\.2\.self_attn\.q_proj\.weight"),
        (cut, r"not readable .*\(.*metadata"),
        (cut_the_header, r"not readable .*\(.*header"),
        (forget_the_weights, r"not readable .*model\.safetensors"),
        (forget_the_config, r"not readable .*config\.json"),
        (forget_the_tokenizer, r"not readable .*\(.*tokenizer"),
        (break_the_tokenizer, r"not readable .*tokenizer"),
    ],
    ids=lambda value: getattr(value, "__name__", ""),
)
def test_a_broken_directory_is_refused_in_one_sentence(
    damage: Callable[[Path], None], fault: str, base: Path, tmp_path: Path
) -> None:
    directory = tmp_path / "broken"
    shutil.copytree(base, directory)
    damage(directory)
    with pytest.raises(ConfigError, match=f"^base {directory}: .*{fault}") as refused:
        load_base(str(directory))
    assert "\n" not in str(refused.value)


def test_old_files_may_hold_rotary_frequencies(base: Path, tmp_path: Path) -> None:
    directory = tmp_path / "old"
    shutil.copytree(base, directory)
    rewrite(directory, lambda weights: weights.update({"model.layers.0.self_attn.rotary_emb.inv_freq": torch.ones(4)}))
    assert torch.equal(fresh_base(directory).logits(IDS), fresh_base(base).logits(IDS))


def test_another_architecture_is_refused(tmp_path: Path) -> None:
    sizes = {"vocab_size": 20, "n_embd": 8, "n_layer": 1, "n_head": 2, "bos_token_id": 0, "eos_token_id": 0}
    GPT2LMHeadModel(GPT2Config(**sizes)).save_pretrained(tmp_path / "gpt2")
    tiny_tokenizer().save_pretrained(tmp_path / "gpt2")
    with pytest.raises(ConfigError, match=r"^base .*gpt2: .*Llama .*, found gpt2;"):
        load_base(str(tmp_path / "gpt2"))
    directory = write_base(tmp_path / "relu", hidden_act="relu")
    with pytest.raises(ConfigError, match=r"^base .*relu: .*silu, found relu$"):
        load_base(str(directory))


@pytest.mark.parametrize(
    ("content", "fault"),
    [
        (None, "no such file$"),
        (b"", r"not readable .*\("),
        (b"nonsense" * 9, r"not readable .*\("),
    ],
    ids=["absent", "empty", "nonsense"],
)
def test_a_file_that_is_no_gguf_is_refused_in_one_sentence(content: bytes | None, fault: str, tmp_path: Path) -> None:
    path = tmp_path / "model.gguf"
    if content is not None:
        path.write_bytes(content)
    with pytest.raises(ConfigError, match=f"^base {path}: {fault}") as refused:
        load_base(str(path))
    assert "\n" not in str(refused.value)


def test_a_directory_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="nowhere: no such directory"):
        load_base(str(tmp_path / "nowhere"))


def test_a_home_directory_may_be_spelled_with_a_tilde(
    base: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    shutil.copytree(base, tmp_path / "llama")
    assert load_base("~/llama").fingerprint == fresh_base(base).fingerprint
