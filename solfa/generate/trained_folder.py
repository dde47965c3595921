"""Read a trained model from its folder: an experiment's, as training left it, or one that `export_model` wrote.

    experiment's folder     config.json (all settings)      best.pt (weights, what the model knew about its data)
                            of a run with an adapter, best.pt has the adapter alone, and config.json names its base
    exported folder         config.json (what the model is) model.safetensors (weights)      README.md (its card)
    FILE.ckpt               a SaShiMi that was trained with state-spaces

No trainer is built, and no code in the files is run.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from torch import Tensor

from solfa.errors import ConfigError
from solfa.generate.adapters import pack_adapters, unpack_adapters
from solfa.generate.base_weights import MODEL_TYPE, exported_state, read_base
from solfa.models.adapters.attachment import is_stored_adapter
from solfa.models.adapters.merging import WeightedAdapter
from solfa.models.codec.codec_files import MODEL_TYPE as CODEC_TYPE
from solfa.models.sashimi.state_spaces import load_state_spaces
from solfa.version import __version__
from solfa.xp.layout import BEST, CONFIG
from solfa.xp.record import read_settings
from solfa.xp.state_file import read_state

FORMAT_VERSION = 1

IMPORTED = "imported_from"
"""The note about a model that was not trained here."""

STATE_SPACES_SOLVER = "sashimi"
"""The solver that would have trained a checkpoint of state-spaces."""

TRAINING_ONLY = frozenset(
    {
        *("seed", "device", "precision", "strategy", "num_threads", "num_nodes", "dset", "dataset", "optim"),
        *("checkpoint", "evaluate", "logging", "execute_only", "continue_from", "continue_keep", "on_changed_default"),
        "adapter",
    }
)
"""Settings that say how a model was trained rather than what it is."""

ORIGINS = ("started_from", "parts")
"""What checkpoints and exports say about the weights of others: an `Origin`, and a mapping of them by name."""


@dataclass(frozen=True)
class Trained:
    """A trained model as its folder holds it."""

    folder: Path
    config: Mapping[str, Any]
    """The experiment's settings; at least those that define the model."""
    data_facts: Mapping[str, Any]
    """What the model needs to know about its data, in plain values."""
    state: Mapping[str, Any]
    """The weights and other state of the network."""
    about: Mapping[str, Any] = field(default_factory=dict)
    """Where the weights come from: epoch, metric, weights of others, and the notes of an export."""
    base: str | None = None
    """Where the weights of an adapter's base are, if only the generator can load them; `state` is empty then."""
    adapters: tuple[WeightedAdapter, ...] = ()
    """What changes the weights."""

    @property
    def solver(self) -> str:
        return str(self.config.get("solver"))


def read_solver(folder: Path) -> str:
    """Read which solver trained a model, and none of its weights."""
    if folder.is_file():
        return STATE_SPACES_SOLVER
    config = _read_config(folder)
    found = config.get("settings") if config.get("model_type") == MODEL_TYPE else config
    return str(found.get("solver") if isinstance(found, Mapping) else None)


def read_trained(folder: Path) -> Trained:
    """Read an experiment's folder, an exported one, or a checkpoint file of state-spaces."""
    if folder.is_file():
        return _read_state_spaces(folder)
    config = _read_config(folder)
    if config.get("model_type") == MODEL_TYPE:
        return _read_exported(folder, config)
    if config.get("model_type") == CODEC_TYPE:
        raise ConfigError(
            f"{folder}: expected a model that generates, found a codec; load it with `solfa.load_codec`, or pass it as "
            "the `codec` of a model"
        )
    if not (folder / BEST).is_file():
        raise ConfigError(f"{folder}: expected a trained experiment, found no {BEST}; train it first")
    best = read_state(folder / BEST)
    if "model" not in best["states"]:
        raise ConfigError(f"{folder / BEST}: expected the weights of a model, found {', '.join(best['states'])}")
    about: dict[str, Any] = {key: best[key] for key in ("epoch", "metric", "value", *ORIGINS) if key in best}
    state = best["states"]["model"]
    if not is_stored_adapter(state):
        return Trained(folder, config, best["data_facts"], state, about)
    location = str(config["continue_from"])
    base = read_base(location, reads_files=True)
    if base is None and Path(location).is_absolute() and not Path(location).exists():
        raise ConfigError(
            f"{folder}: it holds an adapter for the weights of {location}, which are not there; put them back, or load "
            "their model and pass this folder to `adapters`"
        )
    own = {} if base is None else base.networks["model"]
    adapters = (WeightedAdapter(state, where=f"{folder.name}/{BEST}"),)
    return Trained(folder, config, best["data_facts"], own, about, location if base is None else None, adapters)


def _read_state_spaces(path: Path) -> Trained:
    loaded = load_state_spaces(path)
    config = {"solver": STATE_SPACES_SOLVER, "model": loaded.config.model_dump(mode="json")}
    about = {IMPORTED: f"state-spaces ({path.name}, all {loaded.num_tensors} tensors)"}
    return Trained(path, config, {"codec": loaded.codec}, loaded.state, about)


def _read_exported(folder: Path, config: Mapping[str, Any]) -> Trained:
    if config.get("format_version") != FORMAT_VERSION:
        raise ConfigError(
            f"{folder}: expected format_version {FORMAT_VERSION} in {CONFIG}, found {config.get('format_version')!r}; "
            f"it was written by solfa {config.get('solfa_version')}, this is {__version__}"
        )
    state = exported_state(folder, config)
    adapters = unpack_adapters(config.get("adapters", ()), state)
    return Trained(folder, config["settings"], config["data"], state, config["about"], adapters=adapters)


def exported_config(trained: Trained) -> dict[str, Any]:
    """Describe a model in plain values: the content of an exported `config.json`."""
    return {
        "model_type": MODEL_TYPE,
        "format_version": FORMAT_VERSION,
        "solfa_version": __version__,
        "settings": {name: value for name, value in trained.config.items() if name not in TRAINING_ONLY},
        "data": dict(trained.data_facts),
        "extra_state": {name: value for name, value in trained.state.items() if not isinstance(value, Tensor)},
        "about": dict(trained.about),
        **({"adapters": pack_adapters(trained.adapters)[0]} if trained.adapters else {}),
    }


def _read_config(folder: Path) -> dict[str, Any]:
    if not (folder / CONFIG).is_file():
        raise ConfigError(
            f"{folder}: expected a trained experiment or an exported model, found no {CONFIG}; train it first"
        )
    return read_settings(folder)
