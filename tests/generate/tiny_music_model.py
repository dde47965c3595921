"""A language model that is told texts, as small as one can be, exported as if it had been trained."""

from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from solfa.codecs.catalogue import load_codec
from solfa.generate.trained_folder import Trained, exported_config
from solfa.models.conditioners.set import ConditionsConfig
from solfa.models.listener.listener_files import FOLDER, save_listener
from solfa.models.listener.network import CodesListener, ListenerConfig
from solfa.models.lm.conditioned import build_conditioned_lm
from solfa.models.lm.network import CodecLMConfig
from solfa.pretrained.directory import write_checkpoint

CODEC = "solfa_24khz:num_codebooks=2"
CAPTIONS = ("slow piano chords in A minor, 80 bpm", "fast marimba arpeggios in C major, 126 bpm", "rock drums")


def export_tiny_music(
    folder: Path, *, kind: str = "learnt_words", codec_fingerprint: str | None = None, has_key: bool = False
) -> Path:
    """Write what `export_model` writes, with random weights; one that `has_key` can choose among candidates, too."""
    codec = load_codec(CODEC)
    model = {"dim": 8, "num_layers": 1, "num_heads": 1, "ffn_dim": 8, "history_dropout": 0.5 if has_key else 0.0}
    condition = {"kind": kind, "source": "caption", "fuse": "sum"}
    key = {"key": {"kind": "key", "source": "caption"}} if has_key else {}
    conditions = {"conditioners": {"description": condition, **key}, "guidance_dropout": 0.1}
    assert codec.num_codebooks is not None and codec.codebook_size is not None
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        network = build_conditioned_lm(
            CodecLMConfig.model_validate(model),
            ConditionsConfig.model_validate(conditions),
            codec.num_codebooks,
            codec.codebook_size,
            codec.frame_rate,
            lambda column: CAPTIONS,
        )
    array = {"kind": "codes", "width": codec.num_codebooks, "codebook_size": codec.codebook_size, "dtype": "uint16"}
    array |= {"sample_rate": codec.sample_rate, "num_channels": codec.num_channels, "hop_length": codec.hop_length}
    facts = {"array": array, "codec": CODEC, "codec_fingerprint": codec_fingerprint or codec.fingerprint}
    state = network.state_dict()
    trained = Trained(folder, {"solver": "lm", "model": model, "conditioner": conditions}, facts, state)
    folder.mkdir(parents=True)
    write_checkpoint(
        folder, exported_config(trained), {key: part for key, part in state.items() if isinstance(part, Tensor)}
    )
    (folder / "README.md").write_text("# A tiny model\n")
    return folder


def put_listener(folder: Path, **changes: Any) -> CodesListener:
    """Put a listener with random weights into the folder of a model that has keys."""
    codec = load_codec(CODEC)
    shape = {"num_codebooks": codec.num_codebooks, "codebook_size": codec.codebook_size}
    told = {"condition": "key", "num_values": 24, "codec_fingerprint": codec.fingerprint}
    size = {"embedding_dim": 4, "widths": (4,), "end_frames": 4}
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(1)
        listener = CodesListener(ListenerConfig.model_validate({**shape, **told, **size, **changes}))
    save_listener(listener, folder / FOLDER)
    return listener
