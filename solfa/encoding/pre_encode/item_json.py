"""What is written next to the arrays: details.json and the JSON of every item."""

from collections.abc import Mapping
from dataclasses import asdict
from typing import Any

from solfa.audio.sources.location import locate
from solfa.codecs.protocol import Codec
from solfa.encoding.fingerprint import array_spec
from solfa.encoding.pre_encode.config import PreEncodeConfig
from solfa.encoding.pre_encode.config_source import Collected
from solfa.encoding.pre_encode.items import padding_mask
from solfa.environment.ranks import Rank
from solfa.files.stores.place import Place
from solfa.store.export.clip_record import ClipRecord
from solfa.store.export.stable_audio import item_json
from solfa.store.planned_clip import PlannedClip
from solfa.store.schema import ArraySpec


def make_details(
    config: PreEncodeConfig, collected: Collected, codec: Codec, model: Mapping[str, Any], rank: Rank
) -> dict[str, Any]:
    """Describe a run as older readers expect it; `solfa` holds what determines the files and must not change."""
    settings = {
        "codec": dict(codec.description),
        "source_root": str(collected.source.root),
        "sample_size": config.sample_size,
        "batch_size": config.batch_size,
        "shuffle": config.shuffle,
        "model_half": config.model_half,
        "is_discrete": config.is_discrete,
        "limit_batches": config.limit_batches,
        "world_size": rank.world_size,
    }
    return {
        "model_config": dict(model),
        "dataset_config": collected.content,
        "sample_size": config.sample_size,
        "args": config.as_args(),
        "solfa": {"codec": codec.spec, "fingerprint": codec.fingerprint, "settings": settings},
    }


def model_config_of(spec: ArraySpec) -> dict[str, Any]:
    """Describe a codec without a stable-audio-tools config by the fields that readers look for in one."""
    return {
        "model_type": "autoencoder",
        "sample_rate": spec.sample_rate,
        "audio_channels": spec.num_channels,
        "model": {"latent_dim": spec.width, "downsampling_ratio": spec.hop_length, "io_channels": spec.num_channels},
    }


def recording_path(root: Place, item: PlannedClip) -> str:
    """Name the file of an item; for a tar, the member in it."""
    path = str(locate(root, item.uri).path)
    return path if item.member is None else f"{path}/{item.member}"


class ItemDescriber:
    """Makes the JSON of items."""

    def __init__(self, collected: Collected, codec: Codec) -> None:
        self._collected, self._spec = collected, array_spec(codec)

    def relpath(self, item: PlannedClip) -> str:
        """Name the recording of an item relative to its collection."""
        return self._collected.relpath(item.key)

    def describe(self, index: int, item: PlannedClip, num_frames: int, scales: list[float] | None) -> dict[str, Any]:
        """Describe one item whose array has `num_frames` frames, padding included."""
        mask = padding_mask(item.num_samples, self._spec.hop_length, num_frames)
        record = ClipRecord(
            index=index,
            num_frames=sum(mask),
            seconds=item.num_samples / self._spec.sample_rate,
            scales=scales,
            **asdict(item),
        )
        return {
            **item_json(record, self._spec),
            "path": recording_path(self._collected.source.root, item),
            "relpath": self.relpath(item),
            "padding_mask": mask,
        }
