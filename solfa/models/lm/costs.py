"""What training a codec language model costs per step, in numbers kept and operations, before anything is built.

Both take a config that was sized to its data.
"""

from solfa.models.lm.network import CodecLMConfig


def kept_floats(config: CodecLMConfig) -> int:
    """Count the numbers that one step of one row keeps for the backward pass, with fused attention.

    A layer keeps the inputs and outputs of its norms, queries, keys, values and what attention returns (8 widths), and
    the feed-forward layer before and after its activation; cross-attention adds 4 widths. Then come the last norm, and
    the logits as log-probabilities.
    """
    layer = (8 + (4 if config.cross_attention else 0)) * config.dim + 2 * config.ffn_dim
    num_codebooks, codebook_size = config.codes_shape
    return config.num_layers * layer + 2 * config.dim + num_codebooks * codebook_size


def operations(config: CodecLMConfig, num_steps: int) -> float:
    """Count the floating point operations that one row of `num_steps` takes forward and backward: 6 per weight."""
    num_codebooks, codebook_size = config.codes_shape
    attention = (4 + (2 if config.cross_attention else 0)) * config.dim**2
    weights = config.num_layers * (attention + 2 * config.dim * config.ffn_dim)
    weights += num_codebooks * codebook_size * config.dim
    pairs = config.num_layers * config.dim * num_steps  # two products over half of the pairs, as it looks back only
    return 6.0 * num_steps * (weights + pairs)
