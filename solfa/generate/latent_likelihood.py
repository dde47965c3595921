"""How probable the latents of a clip are to a flow model."""

from collections.abc import Mapping
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor

from solfa.generate.generator import device_of
from solfa.generate.latent_model import LatentModel
from solfa.generate.request import with_text
from solfa.ops.flow_likelihood import flow_log_prob, random_signs
from solfa.ops.noise_paths import velocity_on_line


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
    timing = {"seconds_start": 0.0, "seconds_total": len(latents) / model.codec.frame_rate}
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

    # One by one: the conditions are those of one clip.
    probes = [random_signs(tuple(data.shape), generator).to(data) for _ in range(num_probes)]
    return torch.cat([flow_log_prob(velocity, data, signs, num_steps) for signs in probes])
