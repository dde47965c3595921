"""Tones as datasets of waveforms, and a SaShiMi small enough to learn them in a test."""

from pathlib import Path
from typing import Any

import numpy as np
import torch

from solfa.codecs.families.quantized import WaveformCodec
from solfa.encoding.fingerprint import array_spec
from solfa.store.array_dataset import append_arrays
from solfa.store.planned_clip import PlannedClip
from solfa.store.schema import DatasetInfo
from solfa.store.shard_writer import Outcome
from tests.solvers.toy import changed


def store_tones(
    root: Path, codec: WaveformCodec, *, shortest: int = 60, apart_hz: float = 6.0, decay: float = 0.0, count: int = 10
) -> Path:
    """Store tones as the classes of a codec, each longer (from `shortest` samples) and higher than the one before."""
    outcomes = []
    for index in range(count):
        time = np.arange(shortest + 7 * index) / codec.sample_rate
        tone = 0.5 * np.sin(2 * np.pi * (40 + apart_hz * index) * time) * np.exp(-decay * time)
        codes = codec.encode(torch.from_numpy(tone).float().repeat(1, codec.num_channels, 1)).array[0]
        planned = PlannedClip(f"{index}.wav", f"{index}.wav", f"{index}.wav")
        outcomes.append(Outcome(planned, codes.numpy(), num_samples=len(time)))
    info = DatasetInfo.of(codec.spec, array_spec(codec), {"codec": codec.spec})
    append_arrays(root, info, outcomes, {}, clips_per_shard=4)
    return root


def sashimi_values(data: Path, **changes: Any) -> dict[str, Any]:
    """Settings of a short run on tones at 1 kHz; dotted keys change parts of them."""
    values: dict[str, Any] = {
        "solver": "sashimi",
        "device": "cpu",
        "dset": {"train": str(data), "hold_out": {"clips": 3}},
        "dataset": {"segment_seconds": 0.08, "batch_size": 4},
        "model": {"dim": 8, "n_layers": 1, "pool": [2, 2], "d_state": 8, "dt_min": 0.01, "dt_max": 0.5},
        "optim": {
            "epochs": 2,
            "updates_per_epoch": 3,
            "optimizer": {"kind": "adamw", "lr": 2e-2, "weight_decay": 0.1},
            "groups": [{"pattern": "*.dynamics.*", "lr_scale": 0.1}],
            "schedule": {"kind": "plateau", "metric": "valid.bits_per_sample", "patience": 0},
            "ema": {"decay": 0.9},
        },
        "logging": {"tensorboard": False, "log_updates": 1},
    }
    return changed(values, changes)
