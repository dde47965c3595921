"""An adapter as a folder that PEFT loads, with the hash of the base that it belongs to.

adapter_config.json         PEFT's settings; `base_model_name_or_path` names the base
adapter_model.safetensors   PEFT's weights; the header says which weights they belong to, by their hash
fresh.safetensors           what the base did not have, if anything
"""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from safetensors.torch import save_file
from torch import Tensor

from solfa.errors import ConfigError
from solfa.models.adapters.attachment import StoredAdapter, parse_lora
from solfa.pretrained.directory import read_json
from solfa.pretrained.origin import Origin
from solfa.pretrained.tensors import read_header, read_state_dict

SETTINGS = "adapter_config.json"
WEIGHTS = "adapter_model.safetensors"
FRESH = "fresh.safetensors"
_PREFIX = "base_model.model."
"""What PEFT puts before the names of the network's own modules."""


def write_adapter(folder: Path, stored: StoredAdapter) -> None:
    """Write an adapter into an existing folder."""
    lora = parse_lora(stored, str(folder))
    config = lora.for_peft(stored["layers"], stored["base"]["source"]).to_dict()
    plain = {name: _plain(value) for name, value in config.items()} | {"inference_mode": True}
    (folder / SETTINGS).write_text(json.dumps(plain, indent=2, sort_keys=True) + "\n", encoding="utf-8")
    weights = {f"{_PREFIX}{name}": _whole(value) for name, value in stored["weights"].items()}
    notes = {"lora": stored["lora"], "layers": stored["layers"], "base": stored["base"]}
    notes["fresh"] = {name: value for name, value in stored["fresh"].items() if not isinstance(value, Tensor)}
    save_file(weights, folder / WEIGHTS, metadata={"format": "pt", "solfa": json.dumps(notes, sort_keys=True)})
    fresh = {name: _whole(value) for name, value in stored["fresh"].items() if isinstance(value, Tensor)}
    if fresh:
        save_file(fresh, folder / FRESH, metadata={"format": "pt"})


def read_adapter(folder: Path) -> StoredAdapter:
    """Read a folder that `write_adapter` wrote; one of PEFT's own does not say which weights it belongs to."""
    read_json(folder / SETTINGS)
    header = read_header(folder / WEIGHTS)
    if "solfa" not in header:
        raise ConfigError(
            f"{folder}: expected an adapter that Solfa wrote, found one that does not say by a hash which weights it "
            "belongs to; merge it with PEFT and load the result"
        )
    notes: dict[str, Any] = json.loads(header["solfa"])
    fresh = read_state_dict(folder / FRESH) if (folder / FRESH).is_file() else {}
    return StoredAdapter(
        lora=notes["lora"],
        layers=notes["layers"],
        base=Origin(source=notes["base"]["source"], sha256=notes["base"]["sha256"]),
        weights={name.removeprefix(_PREFIX): value for name, value in read_state_dict(folder / WEIGHTS).items()},
        fresh={**fresh, **notes["fresh"]},
    )


def is_adapter_folder(folder: Path) -> bool:
    """Say whether a folder holds an adapter."""
    return (folder / SETTINGS).is_file()


def _whole(value: Tensor) -> Tensor:
    return value.detach().cpu().contiguous()


def _plain(value: Any) -> Any:
    if isinstance(value, set | frozenset):
        return sorted(value)
    if isinstance(value, Mapping):
        return {str(name): _plain(inner) for name, inner in value.items()}
    return value
