"""One number for models of every family: how many bits a second of audio takes them, beside what their codec loses.

    codec LM, MoT     the bits of the codes, given all before them
    SaShiMi           the bits of the samples' classes, exactly
    flow              the density of the latents along the probability-flow equation, made bits by rounding: each
                      channel to steps of `LATENT_STEP` standard deviations, with which the distortion is measured, too

A model that needs few bits for a bad codec is no better than one that needs many for a good one: compare both numbers.
"""

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from solfa.codecs.protocol import Encoded
from solfa.errors import ConfigError
from solfa.evaluate.clip_sets import pair_key
from solfa.evaluate.copies import Sounds
from solfa.evaluate.measures import mean_measure
from solfa.generate.generator import HasLikelihood
from solfa.generate.latent_likelihood import LATENT_STEP, latent_bits, round_latents
from solfa.generate.latent_model import LatentModel
from solfa.generate.model import Model
from solfa.models.conditioners.set import TEXT_KINDS
from solfa.ops.audio_metrics import batch_mel_distance_db, si_sdr


class ClipBits(NamedTuple):
    """What one clip takes, and what its codec loses."""

    bits: float
    probe_error: float
    """The standard error of the bits that comes from the probes of a flow; 0 for models that are exact."""
    seconds: float
    mel_db: float
    si_sdr_db: float


def model_bits(
    model: Model,
    sounds: Sounds,
    ids: Sequence[str],
    captions: Mapping[str, str],
    draw: Mapping[str, Any],
    on_clip: Callable[[int, int], None],
) -> dict[str, Any]:
    """Count the bits of the beginnings of some recordings."""
    takes_text = bool(TEXT_KINDS.intersection(model.generator.conditions.values()))
    chosen = ids[: int(draw["num_clips"])]
    found = []
    for done, key in enumerate(chosen, 1):
        text = captions.get(pair_key(key)) if takes_text else None
        audio, _ = sounds.read(key, model.codec.sample_rate, model.codec.num_channels)
        length = round(float(draw["seconds"]) * model.codec.sample_rate)
        found.append(clip_bits(model, torch.from_numpy(audio[:, :length].copy()), text, int(draw["seed"])))
        on_clip(done, len(chosen))
    rates = np.array([clip.bits / clip.seconds for clip in found])
    measure = mean_measure("bits_per_second", rates, int(draw["seed"]))
    noise = math.sqrt(sum((clip.probe_error / clip.seconds) ** 2 for clip in found)) / len(found)
    rounding = {"latent_step": LATENT_STEP} if isinstance(model.generator, LatentModel) else {}
    return {
        "bits_per_second": measure.value,
        "low": measure.as_dict()["low"],
        "high": measure.as_dict()["high"],
        "num_recordings": len(found),
        "probe_error": noise,
        "codec": model.codec.name,
        "codec_mel_db": float(np.mean([clip.mel_db for clip in found])),
        "codec_si_sdr_db": float(np.nanmean([clip.si_sdr_db for clip in found])),
        **rounding,
    }


def clip_bits(model: Model, audio: Tensor, text: str | None, seed: int) -> ClipBits:
    """Count the bits of one clip `[C, N]`, and measure what the codec makes of it."""
    generator, codec = model.generator, model.codec
    encoded = codec.encode(audio[None])
    array, error = encoded.array, 0.0
    if isinstance(generator, LatentModel):
        latents = array[0, :, : generator.network.num_channels].float().cpu()
        bits, error = latent_bits(generator, latents, text, {}, seed=seed)
        array = round_latents(generator, array)
    elif isinstance(generator, HasLikelihood):
        bits = -generator.log_prob(array[0], text, {}) / math.log(2)
    else:
        raise ConfigError(
            f"`metrics=bits`: models of the solver {model.trained.solver} cannot tell how probable a clip is; leave it "
            "out"
        )
    decoded = codec.decode(Encoded(array, encoded.num_samples, encoded.scales)).float().cpu()
    return ClipBits(
        bits,
        error,
        audio.shape[1] / codec.sample_rate,
        float(batch_mel_distance_db(decoded, audio[None], codec.sample_rate)),
        float(si_sdr(decoded.flatten(1), audio[None].flatten(1))),
    )
