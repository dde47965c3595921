"""A listener: what its drawing says, every code heard, and taught what a value sounds like."""

import torch
from torch import Tensor, nn

from solfa.models.listener.network import UNHEARD, CodesListener, ListenerConfig

CONFIG = ListenerConfig(
    condition="key",
    num_values=3,
    num_codebooks=2,
    codebook_size=12,
    codec_fingerprint="0" * 64,
    embedding_dim=8,
    widths=(8, 12),
    end_frames=8,
)


def listener(seed: int = 0) -> CodesListener:
    torch.manual_seed(seed)
    return CodesListener(CONFIG).eval()


def codes(num: int = 2, frames: int = 37) -> Tensor:
    return torch.randint(0, CONFIG.codebook_size, (num, CONFIG.num_codebooks, frames))


@torch.no_grad()
def test_it_is_what_the_drawing_says() -> None:
    network, heard = listener().double(), codes()
    steps = torch.stack([network.embeddings[k].weight[heard[:, k]] for k in range(2)]).sum(dim=0)
    for block in network.blocks:
        padded = nn.functional.pad(steps, (0, 0, 2, 2))
        windows = padded.unfold(1, 5, 2)  # [N, S, D, 5]
        steps = torch.einsum("nsdk,wdk->nsw", windows, block.conv.weight) + block.conv.bias
        centred = steps - steps.mean(dim=2, keepdim=True)
        steps = centred / (centred.square().mean(dim=2, keepdim=True) + block.norm.eps).sqrt()
        steps = steps * torch.special.ndtr(steps)  # a norm that has learnt nothing changes nothing more
    assert steps.shape[1] == 10, "37 frames, halved twice"
    pooled = torch.cat([steps.mean(dim=1), steps[:, -2:].mean(dim=1)], dim=1)
    hidden = pooled @ network.hidden.weight.T + network.hidden.bias
    hidden = hidden * torch.special.ndtr(hidden)
    assert torch.allclose(network(heard), hidden @ network.output.weight.T + network.output.bias)


@torch.no_grad()
def test_every_code_counts_until_it_is_unheard() -> None:
    network, heard = listener(), codes(1)
    for codebook in range(2):
        for frame in (0, 18, 36):
            other, neither = heard.clone(), heard.clone()
            other[0, codebook, frame] = (other[0, codebook, frame] + 1) % CONFIG.codebook_size
            assert not torch.equal(network(other), network(heard))
            neither[0, codebook, frame] = UNHEARD
            assert not torch.equal(network(neither), network(heard))
    network.embeddings[1].weight.zero_()
    deaf = heard.clone()
    deaf[:, 1] = UNHEARD
    assert torch.equal(network(deaf), network(heard)), "unheard is a vector of zeros"


def test_it_learns_which_codes_a_value_has() -> None:
    """Clips of value v have codes v, v + 3, v + 6, .. among others; the second codebook says nothing."""
    network = listener()
    values = torch.arange(48) % 3
    heard = codes(48, 40)
    heard[:, 0, ::2] = heard[:, 0, ::2] // 3 * 3 + values[:, None]
    optimizer = torch.optim.Adam(network.parameters(), lr=1e-2)
    for _ in range(40):
        loss = nn.functional.cross_entropy(network(heard[:36]), values[:36])
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    assert (network(heard[36:]).argmax(dim=1) == values[36:]).float().mean() > 0.7, "chance is 0.33"
