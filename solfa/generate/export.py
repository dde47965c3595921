"""`solfa.export_model`: write a trained model to a portable folder with weights, config and model card."""

import logging
import shutil
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from torch import Tensor

from solfa.codecs.catalogue import load_codec
from solfa.codecs.families.trained import OwnCodec
from solfa.errors import ConfigError
from solfa.files.whole_files import new_directory
from solfa.generate.adapters import adapter_facts, find_adapter, pack_adapters
from solfa.generate.catalogue import GENERATORS
from solfa.generate.model import Model, build_model, find_folder
from solfa.generate.trained_folder import IMPORTED, ORIGINS, Trained, exported_config, read_trained
from solfa.models.adapters.adapter_files import write_adapter
from solfa.models.adapters.attachment import part_to_adapt
from solfa.models.codec.codec_files import save_codec_model
from solfa.models.conditioners.set import TEXT_KINDS
from solfa.models.listener.listener_files import FOLDER, find_listener, load_listener
from solfa.models.lm.conditioned import ConditionedLM
from solfa.models.lm.musicgen_export import export_musicgen
from solfa.pretrained.directory import write_checkpoint
from solfa.pretrained.tensors import halved, weights_sha256
from solfa.spelling import plural
from solfa.xp.card import write_card
from solfa.xp.record import read_experiment

logger = logging.getLogger(__name__)


def export_model(
    location: str | Path,
    directory: str | Path,
    *,
    half: bool = False,
    name: str | None = None,
    trust_code: bool = False,
) -> Path:
    """Write a trained model into a new folder that `load_model` can read, here or on another machine.

    What an adapter learned is merged into the weights. `half` stores float16, for half the size; the loaded model still
    computes in float32. A codec trained with Solfa is copied into the folder `codec`, and the model's listener into
    `listener`; parts made by others are named, with their hashes. The card tells people to load `name`, such as the Hub
    id under which they will find it; by default the folder.

    >>> import solfa
    >>> folder = solfa.export_model("899630c8", "piano")
    >>> sorted(path.name for path in folder.iterdir())
    ['README.md', 'config.json', 'curve.svg', 'model.safetensors']
    >>> solfa.load_model("piano").info.num_parameters == solfa.load_model("899630c8").info.num_parameters
    True
    """
    trained = read_trained(find_folder(location))
    model = build_model(trained, device="cpu", trust_code=trust_code)
    codec = load_codec(model.codec.spec)
    is_own = isinstance(codec, OwnCodec) and Path(codec.spec.partition(":")[0]).exists()
    merged = _with_merged_weights(trained, model)
    if half:
        weights = {key: halved(key, value) for key, value in merged.state.items() if isinstance(value, Tensor)}
        merged = replace(merged, state={**merged.state, **weights})
    about = {**trained.about, **_about(merged, model)}
    if is_own:
        about["codec_in_folder"] = True
    carried = replace(merged, about=about)
    tensors = {name: value for name, value in carried.state.items() if isinstance(value, Tensor)}
    tensors |= pack_adapters(carried.adapters)[1]
    with new_directory(Path(directory)) as folder:
        write_checkpoint(folder, exported_config(carried), tensors)
        if isinstance(codec, OwnCodec) and is_own:
            save_codec_model(codec.model, folder / "codec")
        if (listener := find_listener(trained.folder)) is not None:
            shutil.copytree(listener, folder / FOLDER)
        _write_card(folder, Path(directory).name, name, carried, model)
    return Path(directory)


def export_adapter(location: str | Path, directory: str | Path) -> str:
    """Write the adapter of an experiment into a new folder that PEFT loads; say what it belongs to.

    `PeftModel.from_pretrained` puts it on the network that it was trained on: of a language model
    `model.generator.network.lm`, of a flow model the transformer of its diffusers pipeline, of audio experts the text
    model.
    """
    stored = find_adapter(find_folder(location))
    with new_directory(Path(directory)) as folder:
        write_adapter(folder, stored)
    base = stored["base"]
    return f"an adapter for {base['source']} (sha256 {base['sha256'][:12]}), as PEFT reads it"


def _with_merged_weights(trained: Trained, model: Model) -> Trained:
    """Return a model whose weights hold what its adapters change; one whose adapters change other parts keeps them."""
    network = model.generator.network
    if not trained.adapters or all(part_to_adapt(network) is not module for module in network.modules()):
        return trained
    about = {**trained.about, "adapters": adapter_facts(trained.adapters)}
    return replace(trained, state=network.state_dict(), adapters=(), base=None, about=about)


def export_as_musicgen(location: str | Path, directory: str | Path, source: str | None = None) -> str:
    """Write a language model as a MusicGen checkpoint of transformers: the decoder, or all of `source` around it.

    >>> from pathlib import Path
    >>> from solfa.generate import export_as_musicgen
    >>> print(export_as_musicgen("899630c8", "musicgen"))
    a MusicgenForCausalLM
    >>> sorted(path.name for path in Path("musicgen").iterdir())
    ['config.json', 'model.safetensors']
    """
    network = build_model(read_trained(find_folder(location)), device="cpu").generator.network
    if not isinstance(network, ConditionedLM):
        raise ConfigError(
            f"{location}: only a codec language model can be written as MusicGen, and this is another kind; "
            "export it without a format"
        )
    return export_musicgen(network, Path(directory), source)


def _about(trained: Trained, model: Model) -> dict[str, Any]:
    """Describe where the weights come from, in plain values."""
    tensors = {name: value for name, value in trained.state.items() if isinstance(value, Tensor)}
    return {
        "experiment": trained.folder.name,
        "weights_sha256": weights_sha256(tensors),
        "codec_fingerprint": model.codec.fingerprint,
        **{f"{part}_fingerprint": value for part, value in _parts(trained.state).items() if value},
    }


def _parts(state: Mapping[str, Any]) -> dict[str, str]:
    """Collect the hashes of the frozen parts that the weights depend on: a text model's base and donor."""
    extra = state.get("_extra_state")
    return {str(part): str(value) for part, value in extra.items() if value} if isinstance(extra, Mapping) else {}


def _write_card(folder: Path, title: str, name: str | None, trained: Trained, model: Model) -> None:
    info = model.info
    others = {"started from": trained.about.get("started_from"), **trained.about.get("parts", {})}
    history = read_experiment(trained.folder).history
    facts = {
        "solver": info.solver,
        "parameters": f"{info.num_parameters:,}",
        "audio": f"{info.sample_rate:,} Hz, {plural(info.num_channels, 'channel')}, decoded by {info.codec}",
        "conditioned on": ", ".join(f"{name} ({kind})" for name, kind in info.conditions.items()) or "nothing",
        **_listener_facts(trained.folder),
        "epoch": info.epoch,
        **{part: f"{told['source']} (sha256 {told['sha256']})" for part, told in others.items() if told},
        **{key: value for key, value in trained.about.items() if str(value) and key not in ("epoch", *ORIGINS)},
    }
    reads_text = bool(TEXT_KINDS.intersection(info.conditions.values()))
    told = 'text="...", ' if reads_text else ""
    loading = f'model = solfa.load_model("{name or title}")'
    write_card(
        folder,
        title=title,
        what=f"{_WHAT.get(info.solver, 'An audio model')}, trained with {trained.about.get(IMPORTED, 'Solfa')}.",
        tag="text-to-audio" if reads_text else None,
        facts=facts,
        data_facts=trained.data_facts,
        history=history,
        metric=trained.about.get("metric"),
        use=f"import solfa\n\n{loading}\nclips = model.generate({told}seconds=10, num=4)",
    )


def _listener_facts(folder: Path) -> dict[str, str]:
    directory = find_listener(folder)
    if directory is None:
        return {}
    listener = load_listener(directory)
    num_parameters = sum(parameter.numel() for parameter in listener.parameters())
    return {"listener": f"tells {listener.config.condition}; {num_parameters:,} parameters"}


_WHAT = {
    "flow": "A flow model of latents",
    "lm": "A codec language model",
    "mot": "A text model with audio experts",
    "sashimi": "A SaShiMi model of raw waveforms",
}
assert set(_WHAT) == set(GENERATORS)
