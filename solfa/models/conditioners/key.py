"""The musical key that a text names: which notes it has, which of them is home, and the mode.

    "slow piano chords in A minor" ──► A minor ──► its seven notes, its triad, its tonic, its mode ──► vector

Keys share notes, so what is learnt of a note in one key serves all keys that have it; and one key has one meaning,
whether it is spelled C sharp, C# or D flat.
"""

from collections.abc import Sequence
from typing import Any, Literal

import torch
from jaxtyping import Float
from torch import Tensor, nn

from solfa.models.conditioners.key_names import KEYS, SCALES, KeyName, key_of, neighbours
from solfa.models.conditioners.protocol import AttributeConfig, Condition, Tokens, keep


class KeyConfig(AttributeConfig):
    """The key that a text or a metadata column names."""

    kind: Literal["key"]
    source: str = "caption"
    fuse: Literal["cross", "prepend", "sum"] = "sum"

    def build(self, dim: int) -> "KeyConditioner":
        return KeyConditioner(self, dim)


def key_features(key: KeyName) -> Float[Tensor, "F"]:
    """Describe a key by its notes, the notes of its triad and its tonic, each of twelve, and its mode."""
    features = torch.zeros(38)
    scale = SCALES[key.mode]
    for step in scale:
        features[(key.tonic + step) % 12] = 1.0
    for degree in (0, 2, 4):
        features[12 + (key.tonic + scale[degree]) % 12] = 1.0
    features[24 + key.tonic] = 1.0
    features[36 + ("major", "minor").index(key.mode)] = 1.0
    return features


class KeyConditioner(nn.Module):
    """One vector per clip: what a key consists of, then a learned projection."""

    features: Tensor
    num_values = len(KEYS)

    def __init__(self, config: KeyConfig, dim: int) -> None:
        super().__init__()
        self.config = config
        self.register_buffer("features", torch.stack([key_features(key) for key in KEYS]), persistent=False)
        self.output_proj = nn.Linear(self.features.shape[1], dim)

    def tokenize(self, values: Sequence[Any | None]) -> Tokens:
        """Number the keys, -1 where there is none."""
        found = [None if value is None else key_of(str(value)) for value in values]
        return {"keys": torch.tensor([-1 if key is None else KEYS.index(key) for key in found], dtype=torch.int64)}

    def numbers(self, value: Any | None) -> list[int]:
        """Number the keys on the tonic that a value names, major and minor: the tonic matters more, and is surer."""
        key = None if value is None else key_of(str(value))
        return [] if key is None else [number for number, other in enumerate(KEYS) if other.tonic == key.tonic]

    def spell(self, value: Any | None) -> str:
        """Write the key that a value names."""
        key = None if value is None else key_of(str(value))
        return "" if key is None else str(key)

    def near_misses(self, value: Any | None) -> list[str]:
        """Write the keys that share most notes with the one that a value names."""
        key = None if value is None else key_of(str(value))
        return [] if key is None else [str(near) for near in neighbours(key)]

    def embed(self, tokens: Tokens) -> Condition:
        weight = self.output_proj.weight
        keys = tokens["keys"].to(weight.device)
        vectors = self.output_proj(self.features[keys.clamp(min=0)].to(weight.dtype))
        return keep(vectors[:, None], keys[:, None] >= 0)
