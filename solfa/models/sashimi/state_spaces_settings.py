"""What state-spaces' settings say about a SaShiMi beyond its tensors, and which of them there is no network for here.

A checkpoint of PyTorch Lightning holds the settings of its run. For a file with the weights alone, they are in
`.hydra/config.yaml` of the run's folder, above the checkpoint.
"""

from collections.abc import Mapping
from pathlib import Path
from typing import Any, Literal

import yaml  # type: ignore[import-untyped]
from pydantic import ConfigDict, Field

from solfa.config import Config, parse_config
from solfa.errors import ConfigError

Transform = Literal["none", "exp", "relu", "sigmoid", "softplus"]
"""How a positive number is stored."""
_HYDRA = Path(".hydra/config.yaml")
_FOLDERS_ABOVE = 4
_NO_ACTIVATION = ("id", "identity", "linear", "none")
_FIXED: Mapping[str, tuple[Any, ...]] = {
    "model.prenorm": (True,),
    "model.residual": ("R", "residual"),
    "model.norm": ("layer",),
    "model.interp": (0,),
    "model.act_pool": (None,),
    "model.bidirectional": (False,),
    "model.pool_mode": ("linear",),
    "model.center_layer": (None,),
    "decoder.mode": ("last",),
    "layer.mode": ("diag", "s4d"),
    "layer.kernel": (None, "diag", "s4d"),
    "layer.layer": ("fftconv",),
    "layer.channels": (1,),
    "layer.swap_channels": (False,),
    "layer.bidirectional": (False,),
    "layer.gate": (None,),
    "layer.bottleneck": (None,),
    "layer.activation": ("gelu",),
    "layer.mult_act": (None, *_NO_ACTIVATION),
    "layer.final_act": ("glu", *_NO_ACTIVATION),
    "layer.disc": ("zoh", "bilinear"),
    "layer.dt_fast": (False,),
    "layer.bandlimit": (None,),
    "layer.is_real": (False,),
    "layer.l_max": (None,),
}
"""What a setting can be; a setting that is left out has one of these values."""


class StateSpacesSettings(Config):
    """How its numbers are to be read, with the defaults of its own classes."""

    model_config = ConfigDict(extra="ignore")

    disc: Literal["zoh", "bilinear"] = "zoh"
    """How the continuous system is sampled."""
    dt_transform: Transform = "exp"
    real_transform: Transform = "exp"
    imag_transform: Transform = "none"
    dropout: float = Field(default=0.0, ge=0, lt=1)
    bits: int = Field(default=8, ge=2, le=16)
    quantization: Literal["linear", "mu-law"] = "linear"
    sample_rate: int = Field(default=16_000, gt=0)

    @property
    def codec(self) -> str:
        """The codec whose classes the network reads."""
        name = "mulaw" if self.quantization == "mu-law" else "linear"
        return f"{name}:bits={self.bits},sample_rate={self.sample_rate}"


def find_settings(path: Path, stored: Mapping[str, Any] | None) -> Mapping[str, Any]:
    """Return the settings in a checkpoint, or else those of the Hydra run it is in."""
    if stored is not None and isinstance(stored.get("model"), Mapping):
        return stored
    for folder in list(path.absolute().parents)[:_FOLDERS_ABOVE]:
        if (folder / _HYDRA).is_file():
            return _read_yaml(folder / _HYDRA)
    raise ConfigError(
        f"checkpoint {path}: expected the settings of its run inside, or {_HYDRA} in a folder above, found neither; "
        "without them nobody knows how its numbers are meant"
    )


def read_settings(settings: Mapping[str, Any], where: str) -> StateSpacesSettings:
    """Refuse what has no counterpart here, and return the rest."""
    model = _mapping(settings, "model")
    # The standalone network has the settings of its layers among its own.
    layer = _mapping(model, "layer") if "layer" in model else model
    if layer.get("postact"):  # the older name
        layer = {**layer, "final_act": layer["postact"]}
    places = {"model": model, "layer": layer, "decoder": _mapping(settings, "decoder")}
    faults = []
    for key, accepted in _FIXED.items():
        place, _, name = key.partition(".")
        found = places[place].get(name, accepted[0])
        if found not in accepted:
            shown = f"model.{key}" if place == "layer" else key
            faults.append(f"{shown} {' or '.join(map(str, accepted))}, found {found}")
    if faults:
        raise ConfigError(
            f"{where}: this network has no counterpart here, which needs {'; '.join(faults)}; "
            "of its networks, causal ones with S4D layers (mode diag) can be loaded"
        )
    dataset = _mapping(settings, "dataset") if "dataset" in settings else {}
    rate = {"sample_rate": dataset["target_sr"]} if dataset.get("target_sr") else {}
    read = {**layer, **{key: dataset[key] for key in ("bits", "quantization") if key in dataset}, **rate}
    return parse_config(StateSpacesSettings, {**read, "dropout": model.get("dropout") or 0.0}, where)


def _mapping(values: Mapping[str, Any], key: str) -> Mapping[str, Any]:
    found = values.get(key)
    return found if isinstance(found, Mapping) else {}


def _read_yaml(path: Path) -> Mapping[str, Any]:
    try:
        found = yaml.safe_load(path.read_text("utf-8"))
    except (yaml.YAMLError, UnicodeDecodeError) as error:
        raise ConfigError(f"{path}: expected the settings of a run as YAML ({' '.join(str(error).split())})") from None
    if not isinstance(found, Mapping):
        raise ConfigError(f"{path}: expected the settings of a run, found {type(found).__name__}")
    return found
