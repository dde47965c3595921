"""What the protocol of embedders promises, for each of them; transformers' models are tiny and random."""

import json
from importlib.util import find_spec
from pathlib import Path

import numpy as np
import pytest
import torch
from safetensors.torch import load_file, save_file

from solfa.codecs.catalogue import load_codec
from solfa.codecs.embedders.catalogue import load_embedder
from solfa.codecs.embedders.musicnn import MusicnnEmbedder, MusicnnNetwork, _slaney_filters, torch_state
from solfa.codecs.embedders.protocol import Embedder, HearsText
from solfa.codecs.protocol import Codec, Encoded
from solfa.errors import ConfigError

SPEECH = {"hidden_size": 16, "num_hidden_layers": 1, "num_attention_heads": 2, "intermediate_size": 16}
SPEECH |= {"conv_dim": (8, 8), "conv_stride": (40, 8), "conv_kernel": (40, 8), "num_feat_extract_layers": 2}
SPEECH |= {"num_conv_pos_embeddings": 4, "num_conv_pos_embedding_groups": 2}


def make_hubert(folder: Path) -> Path:
    from transformers import HubertConfig, HubertModel, Wav2Vec2FeatureExtractor

    HubertModel(HubertConfig(**SPEECH)).save_pretrained(folder)
    Wav2Vec2FeatureExtractor(sampling_rate=8_000).save_pretrained(folder)
    return folder


def make_mert(folder: Path) -> Path:
    """A MERT says that it is another kind of model, and names code to run."""
    path = make_hubert(folder) / "config.json"
    config = json.loads(path.read_text()) | {"model_type": "mert_model", "feature_extractor_cqt": False}
    path.write_text(json.dumps(config | {"architectures": ["MERTModel"], "auto_map": {"AutoModel": "evil.Model"}}))
    return folder


def make_clap(folder: Path) -> Path:
    from tokenizers import Tokenizer, models, pre_tokenizers
    from transformers import ClapConfig, ClapFeatureExtractor, ClapModel, PreTrainedTokenizerFast

    audio = {"window_size": 4, "num_mel_bins": 16, "spec_size": 64, "patch_size": 4, "patch_stride": [4, 4]}
    audio |= {"patch_embeds_hidden_size": 8, "depths": [1, 1], "num_attention_heads": [2, 2], "hidden_size": 16}
    text = {"vocab_size": 32, "num_hidden_layers": 1, "num_attention_heads": 2, "intermediate_size": 16}
    config = ClapConfig(text_config=text | {"hidden_size": 16}, audio_config=audio, projection_dim=12)
    ClapModel(config).save_pretrained(folder)
    extractor = ClapFeatureExtractor(
        feature_size=16, sampling_rate=8_000, hop_length=80, max_length_s=2, fft_window_size=256,
        truncation="rand_trunc", frequency_max=4_000,
    )  # fmt: skip
    extractor.save_pretrained(folder)
    words = Tokenizer(models.WordLevel({"[UNK]": 3, "<pad>": 1, "a": 4, "piano": 5, "drum": 6}, unk_token="[UNK]"))
    words.pre_tokenizer = pre_tokenizers.Whitespace()
    PreTrainedTokenizerFast(tokenizer_object=words, pad_token="<pad>", unk_token="[UNK]").save_pretrained(folder)
    return folder


def make_tagger(folder: Path) -> Path:
    from transformers import ASTConfig, ASTFeatureExtractor, ASTForAudioClassification

    names = {0: "guitar", 1: "drums", 2: "voice"}
    config = ASTConfig(
        hidden_size=16, num_hidden_layers=1, num_attention_heads=2, intermediate_size=16, max_length=64,
        num_mel_bins=16, id2label=names, label2id={name: index for index, name in names.items()},
    )  # fmt: skip
    ASTForAudioClassification(config).save_pretrained(folder)
    ASTFeatureExtractor(num_mel_bins=16, max_length=64).save_pretrained(folder)
    return folder


MAKERS = {"hubert": make_hubert, "mert": make_mert, "clap": make_clap, "tagger": make_tagger}
NAMES = ["mel", "musicnn_random", *MAKERS]


@pytest.fixture(scope="module")
def embedders(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Embedder]:
    torch.manual_seed(0)
    made = {name: load_embedder(make(tmp_path_factory.mktemp(name))) for name, make in MAKERS.items()}
    return {"mel": load_embedder("mel"), "musicnn_random": MusicnnEmbedder(MusicnnNetwork()), **made}


@pytest.mark.parametrize("name", NAMES)
def test_every_window_is_a_vector_and_clips_do_not_affect_each_other(embedders, name):
    embedder = embedders[name]
    assert isinstance(embedder, Embedder)
    hop = embedder.hop_length
    audio = 0.1 * torch.randn(2, 2 * hop + hop // 3, generator=torch.Generator().manual_seed(1))
    found = embedder.embed(audio)
    assert found.shape == (2, 2, embedder.width + len(embedder.tags)) and bool(found.isfinite().all())
    assert torch.equal(found[1:], embedder.embed(audio[1:]))
    assert not torch.allclose(found[0], found[1])
    short = embedder.embed(audio[:, : hop // 5])
    assert short.shape[1] == 1 and bool(short.isfinite().all())


@pytest.mark.parametrize("name", ["clap", "tagger", "hubert"])
def test_the_fingerprint_is_of_the_weights(embedders, name, tmp_path):
    torch.manual_seed(7)
    path = MAKERS[name](tmp_path / "other") / "model.safetensors"
    one = load_embedder(path.parent).fingerprint
    assert one != embedders[name].fingerprint and one == load_embedder(path.parent).fingerprint
    state = load_file(path)
    state.pop(next(key for key in sorted(state) if "layer" in key))
    save_file(state, path, {"format": "pt"})
    with pytest.raises(ConfigError, match="missing"):
        load_embedder(path.parent)


def test_a_mert_is_the_hubert_that_it_is_made_of(embedders, tmp_path):
    folder = make_mert(tmp_path / "mert")
    as_mert = load_embedder(folder)
    config = json.loads((folder / "config.json").read_text()) | {"model_type": "hubert"}
    (folder / "config.json").write_text(json.dumps(config))
    audio = torch.randn(1, as_mert.hop_length, generator=torch.Generator().manual_seed(2))
    assert torch.equal(as_mert.embed(audio), load_embedder(folder).embed(audio))
    (folder / "config.json").write_text(
        json.dumps(config | {"model_type": "mert_model", "feature_extractor_cqt": True})
    )
    with pytest.raises(ConfigError, match="cqt"):
        load_embedder(folder)


def test_clap_hears_texts_and_the_others_say_that_they_do_not(embedders):
    clap = embedders["clap"]
    assert isinstance(clap, HearsText)
    texts = clap.embed_texts(["a piano", "a drum"])
    sounds = clap.embed(torch.randn(1, clap.hop_length))
    assert texts.shape == (2, clap.width)
    assert torch.allclose(torch.cat([texts, sounds[0]]).norm(dim=1), torch.ones(3), atol=1e-5)
    with pytest.raises(ConfigError, match="reads no texts"):
        embedders["hubert"].embed_texts(["a piano"])


def test_a_tagger_names_what_it_hears(embedders):
    assert embedders["tagger"].tags == ("guitar", "drums", "voice")
    assert len(embedders["musicnn_random"].tags) == 50 and embedders["mel"].tags == ()


def test_an_embedder_is_a_codec_that_does_not_decode(embedders):
    codec = load_codec("embedder:model=mel")
    assert (
        isinstance(codec, Codec) and codec.kind == "latents" and load_codec(codec.spec).fingerprint == codec.fingerprint
    )
    encoded = codec.encode(torch.randn(1, 1, 40_000))
    assert encoded.array.shape == (1, 2, codec.latent_channels)
    with pytest.raises(ConfigError, match="back into sound"):
        codec.decode(Encoded(encoded.array, 40_000))


@pytest.mark.parametrize(("name", "word"), [("musicn", "did you mean"), ("no/such/place", "expected")])
def test_an_unknown_embedder_is_one_sentence(name, word):
    with pytest.raises(ConfigError, match=word):
        load_embedder(name)


def test_mel_triangles_have_unit_area():
    """As librosa's: 2 over the width in Hz, so that the sum over bins of 31.25 Hz is 1, but for the narrow low ones."""
    filters = _slaney_filters()
    assert filters.shape == (96, 257)
    assert np.allclose(filters[60:].sum(axis=1) * 16_000 / 512, 1.0, atol=0.1)


@pytest.mark.slow
@pytest.mark.weights
def test_musicnn_hears_what_a_piece_is_made_of():
    """With the weights of its package: a struck chord is more like a piano, a beat of noise more like techno."""
    if find_spec("musicnn") is None:
        pytest.skip("the package musicnn, which holds the weights, is not installed")
    embedder = load_embedder("musicnn")
    time = torch.arange(embedder.hop_length) / embedder.sample_rate
    chord = sum(torch.sin(2 * torch.pi * f * time) * torch.exp(-3 * (time % 1.0)) for f in (262.0, 330.0, 392.0))
    beat = torch.randn(len(time), generator=torch.Generator().manual_seed(0)) * torch.exp(-30 * (time % 0.25))
    odds = embedder.embed(torch.stack([0.1 * chord, beat]))[:, 0, embedder.width :]
    level = dict(zip(embedder.tags, odds.T, strict=True))
    assert level["techno"][1] > level["techno"][0] and level["beat"][1] > level["beat"][0]
    assert level["classical"][0] > level["classical"][1] and level["piano"][0] > level["piano"][1]


def test_variables_of_an_unknown_layer_are_not_dropped():
    assert "strange.weight" in torch_state({"strange/kernel": np.zeros((2, 3), np.float32)})
