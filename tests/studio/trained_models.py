"""Three tiny trained models, one of each kind: codes with conditions, latents with a text, and waveforms."""

import json
from pathlib import Path
from typing import Any

import solfa
from solfa.codecs.families.mulaw import MulawOptions
from solfa.codecs.families.quantized import WaveformCodec
from solfa.config import parse_config
from solfa.solvers.experiment import Experiment
from solfa.solvers.tasks.flow import FlowSolver, FlowSolverConfig
from solfa.solvers.tasks.lm import LMConfig, LMSolver
from solfa.solvers.tasks.sashimi import SashimiSolver, SashimiSolverConfig
from tests.conftest import write_tone
from tests.data.stored import store_built_in_latents
from tests.solvers.waveforms import sashimi_values, store_tones

CODES, LATENTS, WAVES = "1abe1000", "f10e0000", "5a541111"
RATE = 4000
"""Browsers play nothing below 3 kHz."""
RECORDINGS = [("jazz", 70), ("folk", 120), ("1990", 180)]
"""A label that YAML would read as a number is among them."""


def train_models(dora_dir: Path) -> Path:
    """Train all three for a moment."""
    for index, (genre, bpm) in enumerate(RECORDINGS):
        write_tone(dora_dir / f"audio/{index}.wav", 0.3, RATE, hz=300.0 + 170 * index)
        (dora_dir / f"audio/{index}.json").write_text(json.dumps({"genre": genre, "bpm": bpm}))
    codec = solfa.load_codec(f"mulaw:bits=4,sample_rate={RATE}")
    solfa.encode(dora_dir / "audio", dora_dir / "tones.solfa", codec=codec)
    _run(LMSolver, LMConfig, dora_dir / "xps" / CODES, _lm_values(dora_dir / "tones.solfa"))
    data = store_tones(dora_dir / "waves.solfa", WaveformCodec(MulawOptions(bits=6, sample_rate=RATE)))
    short = {"optim__epochs": 1, "optim__updates_per_epoch": 1, "dataset__segment_seconds": 0.02}
    _run(SashimiSolver, SashimiSolverConfig, dora_dir / "xps" / WAVES, sashimi_values(data, **short))
    latents = store_built_in_latents(dora_dir / "latents.solfa")
    _run(FlowSolver, FlowSolverConfig, dora_dir / "xps" / LATENTS, _flow_values(latents))
    return dora_dir


def _run(solver: Any, config: Any, folder: Path, values: dict[str, Any]) -> None:
    cfg = parse_config(config, values, "test")
    solver(cfg, Experiment(folder, folder.name)).run()
    (folder / "config.json").write_text(json.dumps(cfg.model_dump(mode="json")))


def _lm_values(dataset: Path) -> dict[str, Any]:
    labels = {"kind": "labels", "source": "genre", "fuse": "sum"}
    number = {"kind": "number", "source": "bpm", "min": 60, "max": 200}
    return {
        "solver": "lm",
        "device": "cpu",
        "dset": {"train": str(dataset), "valid": str(dataset)},
        "dataset": {"segment_seconds": 0.01, "batch_size": 3},
        "model": {"dim": 16, "num_layers": 1, "num_heads": 2, "ffn_dim": 32},
        "conditioner": {"conditioners": {"genre": labels, "bpm": number}, "guidance_dropout": 0.1},
        "optim": {
            "epochs": 2,
            "updates_per_epoch": 5,
            "optimizer": {"kind": "adamw", "lr": 0.02},
            "ema": {"decay": 0.5},
        },
        "checkpoint": {"save_every": 1},
        "generate": {"sampling": {"top_k": 7}},
        "logging": {"tensorboard": False},
    }


def _flow_values(dataset: Path) -> dict[str, Any]:
    model = {"kind": "stable_audio_3", "dim": 16, "num_layers": 1, "num_heads": 2, "cond_dim": 8}
    return {
        "solver": "flow",
        "device": "cpu",
        "dset": {"train": str(dataset), "hold_out": {"clips": 2}},
        "dataset": {"segment_seconds": 0.3, "batch_size": 4},
        "model": {**model, "num_memory_tokens": 2, "differential": False, "max_seconds": 2},
        "conditioner": {"conditioners": {"text": {"kind": "words", "num_rows": 32, "width": 4}}},
        "optim": {"epochs": 1, "updates_per_epoch": 2, "optimizer": {"kind": "adamw", "lr": 0.01}},
        "generate": {"sampling": {"steps": 2}},
        "logging": {"tensorboard": False},
    }
