"""Save and load a listener: `config.json` and `model.safetensors`, in a directory that is always complete.

    config.json         {"model_type": "solfa_listener", "format_version": 1, "solfa_version": .., "listener": {..}}
    model.safetensors   its weights; those in half precision compute in float32, too

Beside a model's own files, in the folder `listener`, it is what the model chooses among candidates by.
"""

from pathlib import Path

import torch

from solfa.config import parse_config
from solfa.errors import ConfigError
from solfa.files.whole_files import new_directory
from solfa.models.listener.network import CodesListener, ListenerConfig
from solfa.pretrained.account import check_tensors
from solfa.pretrained.directory import CONFIG, read_config, write_checkpoint
from solfa.pretrained.tensors import TensorFiles, halved
from solfa.version import __version__

FOLDER = "listener"
"""Where a model's folder has its listener."""
LISTENER_FILES = (f"{FOLDER}/{CONFIG}", f"{FOLDER}/model.safetensors")
MODEL_TYPE = "solfa_listener"
FORMAT_VERSION = 1


def find_listener(folder: Path) -> Path | None:
    """Return where the listener of a model's folder is, if it has one."""
    own = folder / FOLDER
    return own if (own / CONFIG).is_file() else None


def save_listener(listener: CodesListener, directory: str | Path, *, half: bool = False) -> None:
    """Write a listener to a new directory, in float16 if `half`.

    >>> from solfa.models import CodesListener, ListenerConfig, load_listener, save_listener
    >>> shape = {"num_codebooks": 2, "codebook_size": 16, "codec_fingerprint": "d2fa4765"}
    >>> listener = CodesListener(ListenerConfig(condition="key", num_values=24, **shape))
    >>> save_listener(listener, "listener", half=True)
    >>> load_listener("listener").config == listener.config
    True
    """
    config = {
        "model_type": MODEL_TYPE,
        "format_version": FORMAT_VERSION,
        "solfa_version": __version__,
        "listener": listener.config.model_dump(mode="json"),
    }
    state = listener.state_dict()
    with new_directory(Path(directory)) as folder:
        write_checkpoint(folder, config, {name: halved(name, one) if half else one for name, one in state.items()})


def load_listener(directory: str | Path) -> CodesListener:
    """Load a listener in float32 and eval mode, every tensor accounted for.

    >>> import torch
    >>> from solfa.models import CodesListener, ListenerConfig, load_listener, save_listener
    >>> shape = {"num_codebooks": 2, "codebook_size": 16, "codec_fingerprint": "d2fa4765"}
    >>> save_listener(CodesListener(ListenerConfig(condition="key", num_values=24, **shape)), "heard")
    >>> load_listener("heard")(torch.zeros(1, 2, 300, dtype=torch.int64)).shape  # how probable each of 24 keys is
    torch.Size([1, 24])
    """
    folder, where = Path(directory), f"listener {directory}"
    raw = read_config(folder)
    found = (raw.get("model_type"), raw.get("format_version"))
    if found != (MODEL_TYPE, FORMAT_VERSION):
        raise ConfigError(
            f"{where}: expected a {MODEL_TYPE} of format_version {FORMAT_VERSION} in {CONFIG}, found {found[0]!r} of "
            f"{found[1]!r}; it was written by solfa {raw.get('solfa_version')}, this is {__version__}"
        )
    with torch.random.fork_rng(devices=[]):  # the initial weights are replaced
        listener = CodesListener(parse_config(ListenerConfig, raw["listener"], where))
    files, own = TensorFiles(folder), listener.state_dict()
    check_tensors(files, {name: tuple(tensor.shape) for name, tensor in own.items()}, set(), where)
    listener.load_state_dict({name: files.read(name) for name in own})
    return listener.eval()
