"""`load_codec`: from a text (a name, a directory, a Hub id, an experiment, a stable-audio-tools config) to a codec."""

import os
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Protocol, get_args, runtime_checkable

from solfa.codecs.built_in.release import ROOT, load_built_in
from solfa.codecs.checkpoint import Checkpoint, read_config
from solfa.codecs.families.dac import DacCodec
from solfa.codecs.families.embedding import EmbeddingCodec, EmbeddingOptions
from solfa.codecs.families.encodec import EncodecCodec
from solfa.codecs.families.linear import LinearOptions
from solfa.codecs.families.mimi import MimiCodec
from solfa.codecs.families.mulaw import MulawOptions
from solfa.codecs.families.oobleck import OobleckCodec
from solfa.codecs.families.quantized import WaveformCodec
from solfa.codecs.families.same_autoencoder import SameCodec
from solfa.codecs.families.trained import OwnCodec
from solfa.codecs.inference import Precision
from solfa.codecs.protocol import Codec
from solfa.codecs.spec import parse_spec
from solfa.codecs.stable_audio_tools.autoencoder import load_stable_audio
from solfa.config import nearest, parse_config
from solfa.environment.teams import load_environment
from solfa.errors import ConfigError
from solfa.models.codec.codec_files import is_codec_directory
from solfa.models.codec.network import CodecModel
from solfa.pretrained.hub import is_hub_id
from solfa.xp.layout import ARGV, BEST
from solfa.xp.paths import resolve_path

__all__ = ["FAMILIES", "NAMES", "Precision", "load_codec"]

Family = type[EncodecCodec] | type[DacCodec] | type[MimiCodec] | type[OobleckCodec] | type[SameCodec] | type[OwnCodec]

FAMILIES: dict[str, Family] = {
    "encodec": EncodecCodec,
    "dac": DacCodec,
    "mimi": MimiCodec,
    "AutoencoderOobleck": OobleckCodec,
    "AutoencoderSAME": SameCodec,
    "solfa_codec": OwnCodec,
}
"""By the `model_type` (transformers) or `_class_name` (diffusers) of a checkpoint's config.json."""

AUDIO_ENCODER = "audio_encoder"
"""Where MusicGen's config.json describes its codec."""


@runtime_checkable
class Reference(Protocol):
    """Something that can build a codec: what the head of a spec stands for."""

    def load(self, options: Mapping[str, object], device: str, precision: Precision) -> Codec: ...


@dataclass(frozen=True)
class WaveformClasses:
    """A codec that sorts samples into classes and needs no weights."""

    options: type[MulawOptions] | type[LinearOptions]

    def load(self, options: Mapping[str, object], device: str, precision: Precision) -> Codec:
        name = self.options().grid.kind
        if precision != "fp32":
            raise ConfigError(f"codec {name}: precision: it is always exact, found {precision!r}; leave it out")
        return WaveformCodec(parse_config(self.options, options, f"codec {name}"), device)


@dataclass(frozen=True)
class BuiltIn:
    """A codec that Solfa trained and ships."""

    name: str
    root: Path = ROOT
    """Where its directory is."""

    def load(self, options: Mapping[str, object], device: str, precision: Precision) -> Codec:
        return load_built_in(Checkpoint(self.name, self.name, self.root / self.name, device, precision), options)


@dataclass(frozen=True)
class Published:
    """A model that its authors published on the Hub."""

    name: str
    family: Family
    hub_id: str
    subfolder: str = ""

    def load(self, options: Mapping[str, object], device: str, precision: Precision) -> Codec:
        checkpoint = Checkpoint(self.name, self.name, self.hub_id, device, precision, self.subfolder)
        return self.family.from_checkpoint(checkpoint, options)


@dataclass(frozen=True)
class Embedding:
    """An embedder, which encodes and does not decode."""

    def load(self, options: Mapping[str, object], device: str, precision: Precision) -> Codec:
        if precision != "fp32":
            raise ConfigError(f"codec embedder: precision: it computes in fp32, found {precision!r}; leave it out")
        return EmbeddingCodec.load(parse_config(EmbeddingOptions, options, "codec embedder"), device)


@dataclass(frozen=True)
class Pretrained:
    """A checkpoint in the `save_pretrained` layout; its config.json names its family. A MusicGen means its codec."""

    location: str | Path

    def load(self, options: Mapping[str, object], device: str, precision: Precision) -> Codec:
        name = self.location.name if isinstance(self.location, Path) else self.location
        checkpoint = Checkpoint(name, str(self.location), self.location, device, precision)
        # Diffusers pipelines such as Stable Audio keep their autoencoder in the folder `vae`.
        for candidate in (checkpoint, replace(checkpoint, subfolder="vae")):
            config = read_config(candidate)
            if config is None:
                continue
            part = config.get(AUDIO_ENCODER)
            if isinstance(part, Mapping):
                inside = replace(candidate, part=AUDIO_ENCODER)
                return _family(part, f"{self.location}: {AUDIO_ENCODER}").from_checkpoint(inside, options)
            return _family(config, self.location).from_checkpoint(candidate, options)
        raise ConfigError(
            f"codec {self.location}: expected a config.json written by save_pretrained, here or in its folder vae, "
            "found none; for a stable-audio-tools model, name its model_config.json and add checkpoint=PATH"
        )


@dataclass(frozen=True)
class TrainedCodec:
    """An experiment that trains a codec, in its folder."""

    folder: Path

    def load(self, options: Mapping[str, object], device: str, precision: Precision) -> Codec:
        checkpoint = Checkpoint(self.folder.name, str(self.folder), self.folder, device, precision)
        return OwnCodec.from_experiment(self.folder, checkpoint, options)


@dataclass(frozen=True)
class StableAudio:
    """A stable-audio-tools model config; the weights are given as an option."""

    config_path: Path

    def load(self, options: Mapping[str, object], device: str, precision: Precision) -> Codec:
        rest = dict(options)
        weights = rest.pop("checkpoint", None)
        if not isinstance(weights, str | Path):
            raise ConfigError(f"codec {self.config_path}: weights missing; give their file as `checkpoint=PATH`")
        path = Path(weights).expanduser().absolute()
        checkpoint = Checkpoint(
            self.config_path.stem,
            str(self.config_path),
            path,
            device,
            precision,
            fixed_options={"checkpoint": str(path)},
        )
        return load_stable_audio(self.config_path, checkpoint, rest)


NAMES: dict[str, BuiltIn | WaveformClasses | Embedding | Published] = {
    "solfa_24khz": BuiltIn("solfa_24khz"),
    "solfa_24khz_continuous": BuiltIn("solfa_24khz_continuous"),
    "mulaw": WaveformClasses(MulawOptions),
    "linear": WaveformClasses(LinearOptions),
    "embedder": Embedding(),
    "encodec_24khz": Published("encodec_24khz", EncodecCodec, "facebook/encodec_24khz"),
    "encodec_32khz": Published("encodec_32khz", EncodecCodec, "facebook/encodec_32khz"),
    "encodec_48khz": Published("encodec_48khz", EncodecCodec, "facebook/encodec_48khz"),
    "dac_16khz": Published("dac_16khz", DacCodec, "descript/dac_16khz"),
    "dac_24khz": Published("dac_24khz", DacCodec, "descript/dac_24khz"),
    "dac_44khz": Published("dac_44khz", DacCodec, "descript/dac_44khz"),
    "mimi": Published("mimi", MimiCodec, "kyutai/mimi"),
    "stable_audio_open": Published("stable_audio_open", OobleckCodec, "stabilityai/stable-audio-open-1.0", "vae"),
    "stable_audio_3": Published("stable_audio_3", SameCodec, "stabilityai/stable-audio-3-medium", "vae"),
    "ace_step_48khz": Published("ace_step_48khz", OobleckCodec, "ACE-Step/acestep-v15-xl-turbo-diffusers", "vae"),
}
"""Codecs that have a name."""


def load_codec(
    spec: str | Path, *, device: str = "cpu", precision: Precision | None = None, **options: object
) -> Codec:
    """Load a codec by name, local directory, Hub id, or stable-audio-tools model config.

    Give options in the text (`encodec_24khz:num_codebooks=8`) or as arguments. `precision` is fp32 unless one of the
    two says otherwise. `solfa_24khz`, `solfa_24khz_continuous`, `mulaw` and `linear` ship with Solfa; the others
    are loaded from the Hub's local cache, or downloaded by the Hub's own library.

    >>> import solfa
    >>> codec = solfa.load_codec("solfa_24khz:num_codebooks=4")
    >>> codec.sample_rate, codec.frame_rate, codec.num_codebooks, codec.codebook_size
    (24000, 75.0, 4, 1024)
    """
    parsed = parse_spec(str(spec))
    merged = _merge(parsed.options, options if precision is None else {**options, "precision": precision}, str(spec))
    chosen = merged.pop("precision", "fp32")
    for known in get_args(Precision):
        if chosen == known:
            return _resolve(parsed.head).load(merged, device, known)
    raise ConfigError(f"codec {spec}: precision: expected {', '.join(get_args(Precision))}, found {chosen!r}")


def load_own(spec: str) -> CodecModel | None:
    """Load the network of a codec that Solfa trained, built in or exported; None if it is something else."""
    path = Path(spec).expanduser()
    if isinstance(NAMES.get(spec), BuiltIn) or is_codec_directory(path):
        codec = load_codec(spec)
        assert isinstance(codec, OwnCodec)
        return codec.model
    return None


def _merge(written: Mapping[str, str], given: Mapping[str, object], spec: str) -> dict[str, object]:
    """Merge the options of the text and of the call; two different values for one option are an error."""
    for key in written.keys() & given.keys():
        if str(given[key]).lower() != written[key].lower():
            raise ConfigError(f"codec {spec}: {key}: the text says {written[key]!r} and the call says {given[key]!r}")
    return {**written, **given}


def _resolve(head: str) -> Reference:
    if head in NAMES:
        return NAMES[head]
    path = Path(resolve_path(head, load_environment(os.environ)) if head.startswith("//") else head).expanduser()
    if path.is_dir() and any((path / name).is_file() for name in (ARGV, BEST)):
        return TrainedCodec(path.absolute())
    if path.is_dir():
        return Pretrained(path.absolute())
    if path.is_file():
        return StableAudio(path.absolute())
    if "/" in head and is_hub_id(head) and not head.endswith((".json", ".ckpt", ".safetensors")):
        return Pretrained(head)
    if "/" in head or path.suffix:
        raise ConfigError(f"codec {head}: no such directory or file")
    raise ConfigError(f"codec {head!r}: unknown name{nearest(head, NAMES)}; known names are {', '.join(NAMES)}")


def _family(config: Mapping[str, object], location: str | Path) -> Family:
    found = str(config.get("model_type") or config.get("_class_name"))
    if found == "musicgen_decoder":
        raise ConfigError(
            f"codec {location}: expected a codec, or a whole MusicGen with one in it, found its language model alone; "
            "MusicGen's codec is encodec_32khz"
        )
    if found not in FAMILIES:
        raise ConfigError(f"codec {location}: expected a config.json of type {', '.join(FAMILIES)}, found {found!r}")
    return FAMILIES[found]
