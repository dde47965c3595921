"""Other people's checkpoints: found here or on the Hub, read without running code, every weight accounted for."""

from typing import TYPE_CHECKING

from solfa.lazy_names import lazy_names

if TYPE_CHECKING:
    from solfa.pretrained.account import load_exactly
    from solfa.pretrained.origin import Origin
    from solfa.pretrained.tensors import TensorFiles, read_state_dict, weights_sha256
else:
    __getattr__, __dir__ = lazy_names(
        __name__,
        {
            "solfa.pretrained.account": ["load_exactly"],
            "solfa.pretrained.origin": ["Origin"],
            "solfa.pretrained.tensors": ["TensorFiles", "read_state_dict", "weights_sha256"],
        },
    )

__all__ = ["Origin", "TensorFiles", "load_exactly", "read_state_dict", "weights_sha256"]
