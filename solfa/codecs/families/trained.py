"""Codecs trained with Solfa: an exported directory, or an experiment's folder as it is."""

import os
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, final

from jaxtyping import Float, Shaped
from pydantic import Field
from torch import Tensor

from solfa.codecs.checkpoint import Checkpoint
from solfa.codecs.cpu.encodec_encoder import fast_encodec_encoder
from solfa.codecs.cpu.exact_product import ExactLinear, with_exact_products
from solfa.codecs.inference import clip_by_clip, dtype_of, exact_inference, set_for_inference
from solfa.codecs.protocol import Encoded, Kind, StoredClip, as_batch
from solfa.codecs.waveform import check_audio
from solfa.config import Config, parse_config
from solfa.environment.teams import load_environment
from solfa.errors import ConfigError, StoreError
from solfa.files.digest import value_sha256
from solfa.models.codec.bottlenecks import RvqBottleneck
from solfa.models.codec.codec_files import build_apart, load_codec_model, save_codec_model
from solfa.models.codec.config import CodecModelConfig
from solfa.models.codec.network import CodecModel
from solfa.nn.residual_beam import BEAM, growth_weights
from solfa.pretrained.tensors import weights_sha256
from solfa.spelling import plural
from solfa.xp.card import write_card
from solfa.xp.layout import BEST, CONFIG
from solfa.xp.record import expect_trained, find_experiment, read_experiment, read_settings
from solfa.xp.state_file import read_state

SOLVER = "compression"
"""The solver that trains codecs."""


class OwnOptions(Config):
    """The options of a codec trained with Solfa."""

    num_codebooks: int | None = Field(default=None, ge=1)
    """Keep the first K codebooks; None keeps all."""
    beam: int | None = Field(default=None, ge=1, le=64)
    """Choose codes of several codebooks together, following so many beginnings; 1 takes the nearest entries."""
    latents: bool = False
    """Latents instead of codes: what the encoder gives, before it is quantised."""


@final
class OwnCodec:
    """A codec network behind the codec protocol."""

    def __init__(self, model: CodecModel, checkpoint: Checkpoint, options: OwnOptions) -> None:
        config = model.config
        self._is_open = options.latents and config.kind == "codes"
        self.kind: Kind = "latents" if self._is_open else config.kind
        available = None if self._is_open else config.num_codebooks
        if options.num_codebooks is not None and (available is None or options.num_codebooks > available):
            raise ConfigError(
                f"codec {checkpoint.name}: num_codebooks: expected {f'at most {available}' if available else 'none'}, "
                f"found {options.num_codebooks}"
            )
        self.num_codebooks = options.num_codebooks or available
        self.name = checkpoint.name
        chosen: dict[str, int | bool] = {} if self.num_codebooks is None else {"num_codebooks": self.num_codebooks}
        if self._is_open:
            chosen = {"latents": True}
        beam = _beam_of(model, checkpoint.name, options)
        self.spec = checkpoint.spec(chosen if beam in (None, BEAM) else {"beam": beam, **chosen})
        if beam not in (None, 1):  # nearest entries are what codes have always been
            chosen["beam"] = beam
        self.sample_rate, self.num_channels = config.sample_rate, config.num_channels
        self.hop_length, self.frame_rate = config.hop_length, config.frame_rate
        self.codebook_size = None if self._is_open else config.codebook_size
        self.latent_channels = config.network.dim if self._is_open else config.latent_channels
        state = model.state_dict()
        decoder = {name: tensor for name, tensor in state.items() if name.startswith("decoder.")}
        self.decoder_sha256 = weights_sha256(decoder)
        self.description: Mapping[str, Any] = {
            "family": "solfa_codec",
            "architecture": config.model_dump(mode="json"),
            # Without the decoder: a better one reads the same codes, and datasets stay valid.
            "weights_sha256": weights_sha256({name: state[name] for name in state.keys() - decoder.keys()}),
            "options": chosen,
            "precision": checkpoint.precision,
        }
        self.fingerprint = value_sha256(self.description)
        set_for_inference(model, checkpoint.precision, checkpoint.device)
        self.model, self._device, self._beam = model, checkpoint.device, beam
        self._read_weights()

    def _read_weights(self) -> None:
        """Prepare what encodes and decodes from the model's current weights."""
        self._network: CodecModel = with_exact_products(self.model)
        encoder = fast_encodec_encoder(self._network)
        # The fast encoder already handles the clips of a batch one by one.
        self._encoder = clip_by_clip(encoder) if encoder is self._network.encoder else encoder
        quantize = _quantizer(self._network, self.num_codebooks, self._beam, is_open=self._is_open)
        self._quantize = clip_by_clip(quantize)

    @classmethod
    def from_checkpoint(cls, checkpoint: Checkpoint, options: Mapping[str, object]) -> "OwnCodec":
        """Load an exported directory."""
        parsed = parse_config(OwnOptions, options, f"codec {checkpoint.name}")
        return cls(load_codec_model(checkpoint.location), checkpoint, parsed)

    @classmethod
    def from_experiment(cls, folder: Path, checkpoint: Checkpoint, options: Mapping[str, object]) -> "OwnCodec":
        """Load the best weights of an experiment that trains a codec."""
        parsed = parse_config(OwnOptions, options, f"codec {checkpoint.name}")
        config = parse_config(CodecModelConfig, _settings(folder).get("model", {}), f"{folder / CONFIG}: model")
        return cls(_with_weights(build_apart(config), folder / BEST), checkpoint, parsed)

    def encode(self, audio: Float[Tensor, "B C N"]) -> Encoded:
        """Encode clips of equal length to codes `[B, T, K]`, or to latents `[B, T, Z]`."""
        check_audio(audio, self.num_channels, self.name)
        with exact_inference():
            array = self._quantize(self._encoder(audio.to(self._device, dtype_of(self.model))))
        return Encoded(array, audio.shape[-1])

    def decode(self, encoded: Encoded | StoredClip) -> Float[Tensor, "*B C N"]:
        """Decode to exactly the number of samples that were encoded."""
        batch, single = as_batch(encoded, self._device)
        array = batch.array.long() if self.kind == "codes" else batch.array.to(dtype_of(self.model))
        with exact_inference():
            if self._is_open:
                audio: Tensor = self._network.decoder(array.transpose(1, 2))[..., : batch.num_samples].float()
            else:
                audio = self._network.decode(array, batch.num_samples).float()
        return audio[0] if single else audio


def _beam_of(model: CodecModel, name: str, options: OwnOptions) -> int | None:
    """Say how widely codes are searched; None if they are not, or if there are none."""
    searched = isinstance(model.bottleneck, RvqBottleneck) and not options.latents
    if options.beam is not None and not searched:
        kind = "latents" if options.latents else model.config.bottleneck.kind
        raise ConfigError(
            f"codec {name}: beam: it searches codes of residual vector quantization, found {kind}; leave it out"
        )
    return (options.beam or BEAM) if searched else None


def _quantizer(
    model: CodecModel, num_codebooks: int | None, beam: int | None, *, is_open: bool
) -> Callable[[Float[Tensor, "B D T"]], Shaped[Tensor, "B T Z"]]:
    """Build what makes codes or latents of the encoder's outputs."""
    bottleneck = model.bottleneck
    if is_open:
        return lambda latents: latents.transpose(1, 2)
    if isinstance(bottleneck, RvqBottleneck) and beam is not None:
        growths = [
            ExactLinear(*growth_weights(codebook)) for codebook in bottleneck.quantizer.codebooks[:num_codebooks]
        ]
        return lambda latents: bottleneck.encode(latents, num_codebooks, beam=beam, growths=growths)
    return lambda latents: bottleneck.encode(latents, num_codebooks)


def export_codec(
    location: str | Path, directory: str | Path, *, half: bool = False, name: str | None = None
) -> OwnCodec:
    """Write a trained codec and its card to a new directory, and load it from there.

    `location` is a signature (or the start of one), `//sig/SIG`, or an experiment's folder. `half` stores float16. The
    card tells people to load `name`, such as the Hub id under which they will find it; by default the directory.

    >>> import solfa
    >>> from solfa.codecs import export_codec
    >>> exported = export_codec("5eba57e0", "my_codec")
    >>> exported.fingerprint == solfa.load_codec("my_codec").fingerprint
    True
    """
    folder = find_experiment(load_environment(os.environ).xps_dir, str(location))
    trained = OwnCodec.from_experiment(folder, Checkpoint(folder.name, str(folder), folder), {})
    written = Path(directory).absolute()

    def add_card(place: Path) -> None:
        _write_card(place, written.name, name or written.name, folder, trained)

    save_codec_model(trained.model, written, half=half, write_beside=add_card)
    return OwnCodec.from_checkpoint(Checkpoint(written.name, str(written), written), {})


def _write_card(place: Path, title: str, name: str, folder: Path, codec: OwnCodec) -> None:
    best = read_state(folder / BEST)
    base = best.get("started_from")
    if codec.kind == "codes":
        written = f"{plural(codec.num_codebooks or 0, 'codebook')} of {codec.codebook_size:,} entries"
    else:
        written = plural(codec.latent_channels or 0, "latent channel")
    facts = {
        "audio": f"{codec.sample_rate:,} Hz, {plural(codec.num_channels, 'channel')}",
        "frames": f"{codec.frame_rate:g} a second, {written}",
        "parameters": f"{sum(parameter.numel() for parameter in codec.model.parameters()):,}",
        "fingerprint": codec.fingerprint,
        "experiment": folder.name,
        "epoch": best.get("epoch"),
        **({} if base is None else {"started from": f"{base['source']} (sha256 {base['sha256']})"}),
    }
    write_card(
        place,
        title=title,
        what="A neural audio codec, trained with Solfa.",
        tag="audio-to-audio",
        facts=facts,
        data_facts=best.get("data_facts") or {},
        history=read_experiment(folder).history,
        metric=best.get("metric"),
        use=f'import solfa\n\ncodec = solfa.load_codec("{name}")\nencoded = codec.encode(audio)  # [B, C, N]',
    )


def _settings(folder: Path) -> Mapping[str, Any]:
    expect_trained(folder, f"codec {folder}")
    values = read_settings(folder)
    if values.get("solver") != SOLVER:
        raise ConfigError(
            f"codec {folder}: expected an experiment that trains a codec, found one of the solver "
            f"{values.get('solver')}; use `solfa export-model` for its model"
        )
    return values


def _with_weights(model: CodecModel, best: Path) -> CodecModel:
    try:
        model.load_state_dict(read_state(best).get("states", {}).get("model", {}))
    except RuntimeError as error:
        reason = " ".join(str(error).split())
        raise StoreError(f"{best}: expected the weights of the model in {CONFIG}, found others ({reason})") from None
    return model
