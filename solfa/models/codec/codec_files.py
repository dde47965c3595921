"""Save and load a codec network: `config.json` and `model.safetensors`, in a directory that is always complete.

    config.json         {"model_type": "solfa_codec", "format_version": 1, "solfa_version": .., "model": {..}}
    model.safetensors   the state of `CodecModel`: weights, codebooks and the counts that training continues from

Half precision halves the file size; the loaded model still computes in float32.
"""

from collections.abc import Callable, Mapping
from pathlib import Path

import torch
from torch import Tensor

from solfa.config import parse_config
from solfa.errors import ConfigError
from solfa.files.whole_files import new_directory
from solfa.models.codec.config import CodecModelConfig
from solfa.models.codec.network import CodecModel
from solfa.pretrained.account import check_tensors
from solfa.pretrained.directory import CONFIG, read_config, write_checkpoint
from solfa.pretrained.hub import local_directory
from solfa.pretrained.tensors import TensorFiles, halved
from solfa.version import __version__

MODEL_TYPE = "solfa_codec"
FORMAT_VERSION = 1

_COUNTS = "quantizer.counts"
"""Statistics, not weights: large ones would overflow in half precision."""


def save_codec_model(
    model: CodecModel,
    directory: str | Path,
    *,
    half: bool = False,
    write_beside: Callable[[Path], None] = lambda folder: None,
) -> None:
    """Write a model to a new directory, in float16 if `half`; `write_beside` may add files, such as a card.

    >>> from pathlib import Path
    >>> from solfa.models import CodecModel, CodecModelConfig, Rvq, save_codec_model
    >>> from solfa.nn import SeanetConfig
    >>> network = SeanetConfig(num_filters=4, dim=8, strides=(4, 2), lstm_layers=0)
    >>> config = CodecModelConfig(sample_rate=8_000, network=network, bottleneck=Rvq(num_codebooks=2, codebook_size=16))
    >>> save_codec_model(CodecModel(config), "codec", half=True)
    >>> sorted(path.name for path in Path("codec").iterdir())
    ['config.json', 'model.safetensors']
    """
    config = {
        "model_type": MODEL_TYPE,
        "format_version": FORMAT_VERSION,
        "solfa_version": __version__,
        "model": model.config.model_dump(mode="json"),
    }
    state = model.state_dict()
    tensors = {
        name: halved(name, tensor) if half and not name.endswith(_COUNTS) else tensor for name, tensor in state.items()
    }
    with new_directory(Path(directory)) as folder:
        write_checkpoint(folder, config, tensors)
        write_beside(folder)


def load_codec_model(location: str | Path, *, revision: str | None = None) -> CodecModel:
    """Load a codec network from a directory (or a Hub id) in float32 and eval mode, every tensor accounted for.

    >>> from solfa.models import CodecModel, CodecModelConfig, Rvq, load_codec_model, save_codec_model
    >>> from solfa.nn import SeanetConfig
    >>> network = SeanetConfig(num_filters=4, dim=8, strides=(4, 2), lstm_layers=0)
    >>> config = CodecModelConfig(sample_rate=8_000, network=network, bottleneck=Rvq(num_codebooks=2, codebook_size=16))
    >>> save_codec_model(CodecModel(config), "codec")
    >>> load_codec_model("codec").config == config
    True
    """
    directory = local_directory(location, revision)
    where = f"codec {location}"
    config = _read_config(directory, where)
    model = build_apart(config)
    files = TensorFiles(directory)
    check_tensors(files, {name: tuple(tensor.shape) for name, tensor in model.state_dict().items()}, set(), where)
    return fill(model, files.read)


def is_codec_directory(directory: Path) -> bool:
    """Say whether a directory is one that `save_codec_model` wrote."""
    return (directory / CONFIG).is_file() and read_config(directory).get("model_type") == MODEL_TYPE


def build_apart(config: CodecModelConfig) -> CodecModel:
    """Build a model whose weights will be loaded, leaving the caller's random state untouched."""
    with torch.random.fork_rng(devices=[]):
        return CodecModel(config)


def fill(model: CodecModel, read: Callable[[str], Tensor]) -> CodecModel:
    """Load all tensors of a model by name, and switch it to eval mode."""
    state: Mapping[str, Tensor] = {name: read(name) for name in model.state_dict()}
    # copy_ converts to the dtype that the model has.
    model.load_state_dict(state)
    return model.eval()


def _read_config(directory: Path, where: str) -> CodecModelConfig:
    raw = read_config(directory)
    if raw.get("model_type") != MODEL_TYPE:
        raise ConfigError(
            f"{where}: expected model_type {MODEL_TYPE} in config.json, found {raw.get('model_type')!r}; "
            "pass a directory written by solfa export-codec"
        )
    if raw.get("format_version") != FORMAT_VERSION:
        raise ConfigError(
            f"{where}: expected format_version {FORMAT_VERSION} in config.json, found {raw.get('format_version')!r}; "
            f"it was written by solfa {raw.get('solfa_version')}, this is {__version__}"
        )
    values = raw.get("model")
    if not isinstance(values, dict):
        raise ConfigError(f"{where}: expected a model in config.json, found {values!r}")
    return parse_config(CodecModelConfig, values, f"{where}: config.json: model")
