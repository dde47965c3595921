"""Codes as ids that extend a text model's vocabulary: one code per step, all codebooks of a frame in turn.

    offset   id = shift + k * codebook_size + code        each codebook has its own ids
    shared   id = shift + code                            all codebooks share ids; the step says which one it is

`shift` is the size of the text vocabulary (128256 for Llama 3), so text ids keep their meaning.
"""

import torch
from jaxtyping import Int64
from torch import Tensor

from solfa.errors import ConfigError


def extend_ids(codes: Int64[Tensor, "B K T"], codebook_size: int, shift: int, *, offset: bool) -> Int64[Tensor, "B S"]:
    """Convert codes to ids, time first: all codebooks of the first frame, then of the second.

    >>> import torch
    >>> from solfa.ops import codes_of_ids, extend_ids
    >>> codes = torch.tensor([[[0, 1], [2, 3]]])  # [B, K, T]: two codebooks, two frames
    >>> ids = extend_ids(codes, codebook_size=8, shift=100, offset=True)
    >>> ids
    tensor([[100, 110, 101, 111]])
    >>> torch.equal(codes_of_ids(ids, num_codebooks=2, codebook_size=8, shift=100, offset=True), codes)
    True
    """
    own = _offsets(codes.shape[1], codebook_size, offset).to(codes.device)
    return (codes + own[:, None] + shift).transpose(1, 2).flatten(1)


def codes_of_ids(
    ids: Int64[Tensor, "B S"], num_codebooks: int, codebook_size: int, shift: int, *, offset: bool
) -> Int64[Tensor, "B K T"]:
    """Convert ids back to codes; an id that does not belong to the codebook at its step is an error.

    >>> import torch
    >>> from solfa.ops import codes_of_ids
    >>> codes_of_ids(torch.tensor([[100, 110, 101, 111]]), num_codebooks=2, codebook_size=8, shift=100, offset=True)
    tensor([[[0, 1],
             [2, 3]]])
    """
    if ids.shape[1] % num_codebooks:
        raise ConfigError(
            f"audio ids: expected whole frames of {num_codebooks} ids, found {ids.shape[1]} ids; pass every codebook"
        )
    frames = ids.view(len(ids), -1, num_codebooks).transpose(1, 2)
    codes = frames - _offsets(num_codebooks, codebook_size, offset).to(ids.device)[:, None] - shift
    wrong = (codes < 0) | (codes >= codebook_size)
    if bool(wrong.any()):
        row, codebook, frame = wrong.nonzero()[0].tolist()
        first = shift + (codebook * codebook_size if offset else 0)
        raise ConfigError(
            f"audio ids: expected {first} to {first + codebook_size - 1} for codebook {codebook} at step "
            f"{frame * num_codebooks + codebook}, found {int(frames[row, codebook, frame])}; the ids have another "
            "layout or vocabulary"
        )
    return codes


def _offsets(num_codebooks: int, codebook_size: int, offset: bool) -> Int64[Tensor, "K"]:
    return torch.arange(num_codebooks) * (codebook_size if offset else 0)
