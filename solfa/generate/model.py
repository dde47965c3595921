"""`solfa.load_model`: a trained model to generate with, by its name, its signature, its folder or its Hub id."""

import os
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any, Unpack, final

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from solfa.audio.reader import read_audio
from solfa.codecs.protocol import Codec, Encoded, StoredClip, as_batch
from solfa.environment.accelerator import choose_device
from solfa.environment.teams import load_environment
from solfa.errors import ConfigError
from solfa.files.digest import file_sha256
from solfa.generate.adapters import LoadsPretrained, adapter_facts, with_factors
from solfa.generate.built_in.model_release import BUILT_IN_MODELS, is_released, released_folder
from solfa.generate.catalogue import find_generator
from solfa.generate.clip import GeneratedClip
from solfa.generate.generator import ClipGenerator, HasLikelihood, OnStep, check_edits, device_of
from solfa.generate.options import DrawOptions
from solfa.generate.request import ClipRequest, Inpainting, Variation, check_requests, is_whole
from solfa.generate.stream import DrawsSamples, OnAudio
from solfa.generate.trained_folder import Trained, read_trained
from solfa.generate.weight_layout import LaysOutWeights, choose_layout, weight_layout
from solfa.models.adapters.merged_weights import merge_adapters
from solfa.models.listener.listener_files import find_listener
from solfa.models.lm.weight_layouts import WeightLayout
from solfa.pretrained.hub import SOLFA_MODEL, local_directory
from solfa.pretrained.tensors import weights_sha256
from solfa.xp.provenance import read_software
from solfa.xp.record import SHOWN, NoSuchExperimentError, find_experiment, list_experiments, similar_experiments
from solfa.xp.state_file import load_module

_HUB_ID = re.compile(r"[\w.-]+/[\w.-]+")

Sound = Path | str | NDArray[Any] | Tensor | StoredClip | GeneratedClip
"""Audio as a file, as `[C, N]` at the codec's sample rate, as a clip of a dataset, or as a generated clip."""


@dataclass(frozen=True)
class ModelInfo:
    """What a model is, in plain values."""

    solver: str
    """The solver that trained it."""
    num_parameters: int
    sample_rate: int
    num_channels: int
    codec: str
    conditions: Mapping[str, str]
    """What it can be conditioned on: name to kind (`text`, `labels` or `number`)."""
    sampling: Mapping[str, Any]
    """How it draws by default; these are the options of `generate`."""
    folder: Path
    epoch: int | None


@final
class Model:
    """A trained model without its trainer: ask it for clips, or for the probability of a clip.

    >>> import solfa
    >>> model = solfa.load_model("899630c8")
    >>> model
    Model('...899630c8', solver='lm', num_parameters=...)
    >>> clips = model.generate(text="a warm piano", seconds=1, num=2)
    >>> clips[0].samples().shape, clips[0].sample_rate
    ((1, 24000), 24000)
    >>> model.log_prob("audio/drums/kick.wav", text="a kick drum") < 0
    True
    """

    def __init__(self, trained: Trained, build: Callable[[], ClipGenerator], device: torch.device) -> None:
        self.trained, self._build = trained, build
        self._wanted: WeightLayout | None = None
        self._laid_out: WeightLayout | None = None
        self.generator = build()
        # Counted now: weights that are laid out for generation are no parameters.
        self._num_parameters = sum(parameter.numel() for parameter in self.generator.network.parameters())
        self.generator.network.to(device)

    def __repr__(self) -> str:
        folder, solver = str(self.trained.folder), self.trained.solver
        return f"Model({folder!r}, {solver=}, num_parameters={self._num_parameters})"

    @property
    def info(self) -> ModelInfo:
        """A description of the model; this loads its codec."""
        return ModelInfo(
            solver=self.trained.solver,
            num_parameters=self._num_parameters,
            sample_rate=self.codec.sample_rate,
            num_channels=self.codec.num_channels,
            codec=self.codec.spec,
            conditions=dict(self.generator.conditions),
            sampling=self.generator.sampling.model_dump(mode="json"),
            folder=self.trained.folder,
            epoch=self.trained.about.get("epoch"),
        )

    @property
    def codec(self) -> Codec:
        """The codec that decodes what the model draws, on the model's device; loaded on first use."""
        return self.generator.codec

    @property
    def provenance(self) -> dict[str, Any]:
        """Which model, data and software make its clips; with a clip's metadata, enough to make it again."""
        about, data, listener = self.trained.about, self.trained.data_facts, find_listener(self.trained.folder)
        return {
            "experiment": about.get("experiment", self.trained.folder.name),
            "epoch": about.get("epoch"),
            "weights_sha256": self._weights_sha256,
            **({"adapters": adapter_facts(self.trained.adapters)} if self.trained.adapters else {}),
            **({} if listener is None else {"listener_sha256": file_sha256(listener / "model.safetensors")}),
            "weights": self._laid_out,
            "device": self.device.type,
            "codec_fingerprint": self.codec.fingerprint,
            "data": {name: data[name] for name in ("digest", "fingerprint", "codec") if name in data},
            **read_software().values(),
        }

    @property
    def device(self) -> torch.device:
        return device_of(self.generator.network)

    @property
    def draws_samples(self) -> bool:
        """Whether clips can be heard while they are being drawn."""
        return isinstance(self.generator, DrawsSamples)

    def to(self, device: str) -> "Model":
        """Move the model and its codec to another device, where its weights are laid out as `load_model` would."""
        self._move(torch.device(choose_device(device)))
        return self

    def generate(
        self,
        text: str | None = None,
        *,
        seconds: float = 10.0,
        num: int = 1,
        seed: int = 0,
        conditions: Mapping[str, Any] | None = None,
        prompt: str | Path | None = None,
        prompt_seconds: float | None = None,
        edit: Variation | Inpainting | None = None,
        on_progress: OnStep | None = None,
        **options: Unpack[DrawOptions],
    ) -> list[GeneratedClip]:
        """Generate `num` clips with the seeds `seed`, `seed + 1`, and so on; each depends on its own seed alone.

        `conditions` are further conditions by name (`info.conditions` lists them); `options` override how the
        experiment draws: `temperature=0.9`, `top_k=100`, ... (`DrawOptions`, and `info.sampling` for this model's).
        A model of latents makes clips from a recording with `edit`, a `Variation` or an `Inpainting`.
        """
        if not is_whole(num) or num < 1:
            raise ConfigError(f"`num`: expected a whole number of clips, at least 1, found {num!r}")
        if not is_whole(seed):
            raise ConfigError(f"`seed`: expected a whole number, found {seed!r}")
        begin = None if prompt is None else Path(prompt)
        requests = [
            ClipRequest(f"clip-{index:03d}", seconds, seed + index, text, conditions or {}, begin, prompt_seconds, edit)
            for index in range(num)
        ]
        return list(self.draw(requests, on_progress=on_progress, **options))

    def draw(
        self,
        requests: Sequence[ClipRequest],
        *,
        on_progress: OnStep | None = None,
        on_audio: OnAudio | None = None,
        **options: Unpack[DrawOptions],
    ) -> Iterator[GeneratedClip]:
        """Draw clips for many requests, in batches of equal length, and yield each one when it is complete.

        `on_audio` receives blocks of every clip while it is drawn, if the model draws samples in order.
        """
        if on_audio is not None and not self.draws_samples:
            raise ConfigError(
                f"`on_audio`: only a model that draws samples in order can stream, and a model of the solver "
                f"{self.trained.solver} does not; leave it out and use the complete clips"
            )
        check_requests(requests, self.trained.data_facts)
        check_edits(type(self.generator), requests)
        return self.generator.draw(requests, options, on_progress or (lambda done, total: None), on_audio)

    def log_prob(self, sound: Sound, text: str | None = None, conditions: Mapping[str, Any] | None = None) -> float:
        """Return the log-probability, in nats, of a clip as the model's codec encodes it."""
        generator = self.generator
        if not isinstance(generator, HasLikelihood):
            raise ConfigError(f"solver {self.trained.solver}: its models cannot tell how probable a clip is")
        return generator.log_prob(self._encoded(sound), text, conditions or {})

    @cached_property
    def _weights_sha256(self) -> str:
        if self.trained.base is not None:
            return self.trained.adapters[0].stored["base"]["sha256"]
        return weights_sha256({name: value for name, value in self.trained.state.items() if isinstance(value, Tensor)})

    def _move(self, device: torch.device) -> None:
        if device == self.device:
            return
        choose_layout(self._wanted, self.generator, device, self.trained.solver)  # refused before anything changes
        if self._laid_out is not None:
            self.generator = self._build()  # a layout is for one kernel and cannot be moved
        self.generator.network.to(device)
        self._lay_out(self._wanted)

    def _lay_out(self, weights: WeightLayout | None) -> None:
        """Store the weights as asked, or for None as is best on this device."""
        self._laid_out = choose_layout(weights, self.generator, self.device, self.trained.solver)
        self._wanted = weights
        if self._laid_out is not None:
            assert isinstance(self.generator, LaysOutWeights)
            self.generator.lay_out_weights(self._laid_out)

    def _encoded(self, sound: Sound) -> Tensor:
        """Encode a sound with the model's codec, `[T, K]`."""
        codec = self.codec
        if isinstance(sound, GeneratedClip):
            sound = sound.samples()
        if isinstance(sound, StoredClip) and not isinstance(sound, Tensor | np.ndarray):
            return as_batch(sound, "cpu")[0].array[0]
        if isinstance(sound, str | Path):
            sound = read_audio(sound, sample_rate=codec.sample_rate, num_channels=codec.num_channels)
        audio = torch.as_tensor(sound, dtype=torch.float32)
        if audio.ndim != 2 or len(audio) != codec.num_channels or not audio.shape[1]:
            raise ConfigError(
                f"audio: expected [C, N] with {codec.num_channels} channels at {codec.sample_rate} Hz, "
                f"found {list(audio.shape)}"
            )
        encoded: Encoded = codec.encode(audio[None])
        return encoded.array[0]


def load_model(
    location: str | Path,
    *,
    epoch: int | None = None,
    device: str = "auto",
    codec: str | None = None,
    weights: WeightLayout | None = None,
    adapters: Mapping[str | Path, float] | None = None,
    trust_code: bool = False,
) -> Model:
    """Load a trained model: `solfa_tiny_music`, a signature (or the start of one), a folder, a Hub id, or a `.ckpt`.

    `epoch` takes the weights that an experiment kept of that epoch (`checkpoint.save_every`) instead of the best.
    `codec` replaces the codec that decodes. `weights` sets how a language model stores its weights on a CPU: `fp32`,
    `fp16`, `int8` or `int4` (fewer bits are faster and less exact, also in `log_prob`); None is float32. `adapters` are
    experiments that were trained with an adapter on this model, or folders of adapters, and how much of each is wanted:
    1 is all of its change. A model of a solver that is not Solfa's is loaded by running that solver's code, and only
    with `trust_code`.

    >>> import solfa
    >>> model = solfa.load_model("899630c8", device="cpu")
    >>> model.info.solver, model.info.sample_rate, model.info.conditions
    ('lm', 24000, {'description': 'text'})
    """
    wanted = None if weights is None else weight_layout(weights)
    trained = read_trained(find_folder(location), epoch=epoch)
    if adapters:
        trained = with_adapters(trained, adapters)
    return load_trained(trained, device=device, codec=codec, weights=wanted, trust_code=trust_code)


def with_adapters(trained: Trained, adapters: Mapping[str, float] | Mapping[str | Path, float]) -> Trained:
    """Add adapters to a model, by signature or folder, each with a factor."""
    wanted = {find_folder(name): factor for name, factor in adapters.items()}
    return replace(trained, adapters=with_factors(trained.adapters, wanted))


def load_trained(
    trained: Trained, *, device: str, codec: str | None, weights: WeightLayout | None, trust_code: bool
) -> Model:
    """Build the model of a folder that has been read, with its weights laid out."""
    model = build_model(trained, device=device, codec=codec, trust_code=trust_code)
    model._lay_out(weights)
    return model


def build_model(trained: Trained, *, device: str = "auto", codec: str | None = None, trust_code: bool = False) -> Model:
    """Build the generator and load the trained weights into it, laid out as they were trained."""
    config = {**trained.config, "codec": codec} if codec is not None else trained.config
    own = trained.folder / "codec"
    if codec is None and own.is_dir() and trained.about.get("codec_in_folder"):
        config = {**config, "codec": str(own)}
    if codec is not None and "codec" not in trained.config:
        raise ConfigError(f"`codec`: the codec of the model in {trained.folder} cannot be replaced; leave it out")
    listener = find_listener(trained.folder)
    if listener is not None:
        config = {**config, "listener": str(listener)}
    place = torch.device(choose_device(device))
    kind = find_generator(trained.solver, trust_code=trust_code)

    def build() -> ClipGenerator:
        with torch.random.fork_rng(devices=[]):  # the initial weights are replaced, so leave the caller's RNG untouched
            generator = kind.build(config, trained.data_facts)
            _load_weights(generator, trained)
        generator.network.eval()
        return generator

    return Model(trained, build, place)


def _load_weights(generator: ClipGenerator, trained: Trained) -> None:
    """Load the trained weights, and merge the changes of adapters into them."""
    if trained.base is None:
        load_module("model", generator.network, trained.state)
    elif isinstance(generator, LoadsPretrained):
        generator.load_pretrained(trained.base)
    else:
        raise ConfigError(
            f"{trained.folder}: its base is {trained.base}, which only training can load; continue from an experiment "
            "or an exported model instead"
        )
    base = trained.folder.name if trained.base is None else trained.base
    merge_adapters(generator.network, trained.adapters, base)


def find_folder(location: str | Path) -> Path:
    """Find a model's folder: one that comes with Solfa, a signature among this machine's experiments, a path, a Hub id.

    A file is returned as it is: a checkpoint of state-spaces.
    """
    if location in BUILT_IN_MODELS:
        return released_folder(str(location))
    xps_dir = load_environment(os.environ).xps_dir
    try:
        return find_experiment(xps_dir, str(location))
    except ConfigError as error:
        folder = Path(location).expanduser()
        if folder.exists():
            return folder
        if isinstance(location, Path) or not _HUB_ID.fullmatch(location):
            if isinstance(error, NoSuchExperimentError):
                raise NoSuchExperimentError(_no_such_model(xps_dir, str(location))) from None
            raise
    return local_directory(location, what="model", wanted=SOLFA_MODEL)


def _no_such_model(xps_dir: Path, location: str) -> str:
    """Say where a model was looked for, and what would be found."""
    near = similar_experiments(xps_dir, location)
    latest = [folder.name for folder in list_experiments(xps_dir)[:SHOWN]]
    signature = f"a signature (the latest are {', '.join(latest)})" if latest else "a signature"
    ways = [signature, "the folder of an experiment or of an exported model", *filter(is_released, BUILT_IN_MODELS)]
    advice = f"did you mean {' or '.join(near)}?" if near else f"pass {', '.join(ways)}, or owner/name on the Hub"
    found = f"no such experiment in {xps_dir}, no such folder and no Hub id"
    return f"{location}: expected a model, found {found}; {advice}"
