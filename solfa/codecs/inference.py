"""How networks run here: no gradients, no random algorithms, no hidden loss of precision."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from copy import deepcopy
from typing import Literal

import torch
from torch import Tensor, nn

from solfa.errors import ConfigError

Precision = Literal["fp32", "fp16", "bf16"]

DTYPES: dict[Precision, torch.dtype] = {"fp32": torch.float32, "fp16": torch.float16, "bf16": torch.bfloat16}


@contextmanager
def exact_inference() -> Iterator[None]:
    """Run without gradients, with cuDNN's deterministic algorithms, and without the TF32 that torch uses for fp32."""
    with (
        torch.no_grad(),
        torch.backends.cudnn.flags(enabled=True, benchmark=False, deterministic=True, allow_tf32=False),
    ):
        yield


def set_for_inference(
    model: nn.Module, precision: Precision, device: str | torch.device, exact: nn.Module | None = None
) -> None:
    """Freeze `model` and bring its weights to `precision` and `device`; its part `exact` stays in fp32.

    Buffers that are not part of a checkpoint keep their dtype: rotary frequencies in bf16 would distort positions.
    Weights that are not finite are refused: everything they encode would be the same, and nothing would say so.
    """
    for name, tensor in model.state_dict().items():
        if tensor.is_floating_point() and not bool(tensor.isfinite().all()):
            raise ConfigError(
                f"codec: the weights in {name} are not all finite numbers; download or copy the files again"
            )
    model.eval().requires_grad_(False).to(device)
    if precision == "fp32":
        return
    derived = {
        (module, name): module.get_buffer(name).clone()
        for module in model.modules()
        for name in module._non_persistent_buffers_set
    }
    kept = None if exact is None else deepcopy(exact.state_dict())
    model.to(DTYPES[precision])
    if exact is not None and kept is not None:
        exact.float().load_state_dict(kept)
    for (module, name), buffer in derived.items():
        module.register_buffer(name, buffer, persistent=False)


def clip_by_clip(encoder: Callable[[Tensor], Tensor]) -> Callable[[Tensor], Tensor]:
    """Make an encoder take the clips of a batch one by one on CPUs, where batching costs memory and gains nothing."""

    def encode(audio: Tensor) -> Tensor:
        if audio.device.type != "cpu" or len(audio) == 1:
            return encoder(audio)
        return torch.cat([encoder(clip[None]) for clip in audio])

    return encode


def dtype_of(model: nn.Module) -> torch.dtype:
    """Return the dtype of a model's weights."""
    return next(model.parameters()).dtype
