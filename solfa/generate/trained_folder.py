"""Read a trained model from its folder: an experiment's, as training left it, or one that `export_model` wrote.

    experiment's folder     config.json (all settings)      best.pt (weights, what the model knew about its data)
                            of a run with an adapter, best.pt has the adapter alone, and config.json names its base
                            checkpoint_0012.pt (the state after epoch 12, if the run kept a copy)
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
from solfa.models.adapters.merged_weights import WeightedAdapter
from solfa.models.codec.codec_files import MODEL_TYPE as CODEC_TYPE
from solfa.models.sashimi.state_spaces import load_state_spaces
from solfa.version import __version__
from solfa.xp.layout import BEST, CONFIG, copied_epochs, copy_path
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
        *("adapter", "compile"),
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


def weights_path(folder: Path, epoch: int | None = None) -> Path:
    """Return the file that changes when a model's weights do; `epoch` asks for a copy that a run kept."""
    if folder.is_file():
        return folder
    if epoch is not None:
        return copy_path(folder, epoch)
    return folder / BEST if (folder / BEST).is_file() else folder / CONFIG


def read_trained(folder: Path, *, epoch: int | None = None) -> Trained:
    """Read an experiment's folder, an exported one, or a checkpoint file of state-spaces.

    An experiment has the weights of its best epoch, and those of others that it kept a copy of
    (`checkpoint.save_every`): `epoch` asks for one of these, with the averages if the run had any.
    """
    if epoch is not None:
        _expect_copy(folder, epoch)
        return _read_copy(folder, epoch)
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
    return _read_experiment(folder, config, folder / BEST, read_state(folder / BEST))


def _expect_copy(folder: Path, epoch: int) -> None:
    kept = copied_epochs(folder) if folder.is_dir() else []
    if epoch not in kept:
        found = f"those of epochs {', '.join(map(str, kept))}" if kept else "no copies"
        raise ConfigError(
            f"{folder}: expected a copy of the weights of epoch {epoch}, found {found} (`checkpoint.save_every` keeps "
            "them); leave `epoch` out for the best"
        )


def _read_copy(folder: Path, epoch: int) -> Trained:
    path = copy_path(folder, epoch)
    kept = read_state(path)
    averages = ((kept.get("ema") or {}).get("averages") or {}).get("model") or {}
    states = dict(kept["states"])
    if averages and not averages.keys() <= states["model"].keys():
        raise ConfigError(f"{path}: it holds averages of other weights than the model's; leave `epoch` out")
    if averages:
        # The averages may be more precise than the weights; the best epoch is stored as the weights are.
        rounded = {name: value.to(states["model"][name].dtype) for name, value in averages.items()}
        states["model"] = {**states["model"], **rounded}
    notes = {name: kept[name] for name in ORIGINS if kept.get(name)}
    best = {**notes, "epoch": epoch, "data_facts": kept["data_facts"], "states": states}
    return _read_experiment(folder, _read_config(folder), path, best)


def _read_experiment(folder: Path, config: Mapping[str, Any], path: Path, best: Mapping[str, Any]) -> Trained:
    if "model" not in best["states"]:
        raise ConfigError(f"{path}: expected the weights of a model, found {', '.join(best['states'])}")
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
    adapters = (WeightedAdapter(state, where=f"{folder.name}/{path.name}"),)
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
