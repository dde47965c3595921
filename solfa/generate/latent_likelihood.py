"""How probable the latents of a clip are to a flow model."""

import math
from collections.abc import Mapping
from typing import Any, NamedTuple

import torch
from jaxtyping import Float
from torch import Tensor

from solfa.generate.generator import device_of
from solfa.generate.latent_model import LatentModel
from solfa.generate.request import with_text
from solfa.ops.flow_likelihood import flow_log_prob, random_signs
from solfa.ops.noise_paths import velocity_on_line

LATENT_STEP = 0.125
"""What latents are rounded to before they are bits, in standard deviations of their channels."""
NUM_PROBES, NUM_STEPS = 4, 16


class LatentBits(NamedTuple):
    """The bits of a clip's latents, and the standard error that comes from the probes."""

    bits: float
    error: float


def latent_bits(
    model: LatentModel, latents: Float[Tensor, "T Z"], text: str | None, conditions: Mapping[str, Any], *, seed: int
) -> LatentBits:
    """Count the bits of latents that are rounded to steps of `LATENT_STEP`."""
    found = latent_log_probs(
        model, latents, text, conditions, num_probes=NUM_PROBES, num_steps=NUM_STEPS, seed=seed
    ).double()
    # A density times the volume of a cell of the rounding is a probability.
    nats = -float(found.mean()) - latents.numel() * math.log(LATENT_STEP)
    return LatentBits(nats / math.log(2), float(found.std()) / math.sqrt(len(found)) / math.log(2))


def round_latents(model: LatentModel, array: Float[Tensor, "B T W"]) -> Float[Tensor, "B T W"]:
    """Round the means of stored latents to the grid whose bits `latent_bits` counts."""
    network = model.network
    width = network.num_channels
    points = network.normalised(array[..., :width].float().to(network.mean.device))
    means = network.restored((points / LATENT_STEP).round() * LATENT_STEP)
    return torch.cat([means.to(array), array[..., width:]], dim=-1)


def latent_log_probs(
    model: LatentModel,
    latents: Float[Tensor, "T Z"],
    text: str | None,
    conditions: Mapping[str, Any],
    *,
    num_probes: int,
    num_steps: int,
    seed: int,
) -> Float[Tensor, " P"]:
    """Estimate the log-density of a clip's normalised latents, in nats, once per probe; they differ by its noise.

    Normalised: every channel in units of its standard deviation. Guidance is left out, as it is no probability.
    """
    network, device = model.network.eval(), device_of(model.network)
    timing = {"seconds_start": 0.0, "seconds_total": len(latents) / model.frame_rate}
    told = with_text(conditions, text, model.conditions)
    seconds = torch.tensor([[float(told.pop(name, timing[name])) for name in network.config.timing]])
    with torch.no_grad():
        condition = network.told(network.conditioners.checked([told])(), seconds.reshape(1, -1))
    data = network.normalised(latents[None].to(device).float())
    generator = torch.Generator().manual_seed(seed)

    def velocity(points: Tensor, time: float) -> Tensor:
        times = points.new_full((len(points),), time)
        return velocity_on_line(
            lambda read, own: network.predict(read, own, condition), network.config.objective, points, times
        )

    signs = random_signs((num_probes, *data.shape), generator).to(data)
    return flow_log_prob(velocity, data, signs, num_steps)[:, 0]
