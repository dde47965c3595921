"""From audio to a dataset: plan purely, encode shard by shard, commit once."""

from typing import TYPE_CHECKING

from solfa.lazy_names import lazy_names

if TYPE_CHECKING:
    from solfa.encoding.api import encode
    from solfa.encoding.content_fingerprints import FingerprintReport, add_fingerprints
    from solfa.encoding.decoded_clips import DecodeReport, decode_dataset
    from solfa.encoding.legacy_import import ArrayFacts, ImportReport, import_legacy
    from solfa.encoding.precision_trial import PrecisionTrial, try_precision
    from solfa.encoding.progress import EncodeReport, Listener, Totals
    from solfa.encoding.repair import RepairReport, repair_dataset
else:
    __getattr__, __dir__ = lazy_names(
        __name__,
        {
            "solfa.encoding.api": ["encode"],
            "solfa.encoding.decoded_clips": ["DecodeReport", "decode_dataset"],
            "solfa.encoding.content_fingerprints": ["FingerprintReport", "add_fingerprints"],
            "solfa.encoding.legacy_import": ["ArrayFacts", "ImportReport", "import_legacy"],
            "solfa.encoding.precision_trial": ["PrecisionTrial", "try_precision"],
            "solfa.encoding.progress": ["EncodeReport", "Listener", "Totals"],
            "solfa.encoding.repair": ["RepairReport", "repair_dataset"],
        },
    )

__all__ = [
    "ArrayFacts",
    "DecodeReport",
    "EncodeReport",
    "FingerprintReport",
    "ImportReport",
    "Listener",
    "PrecisionTrial",
    "RepairReport",
    "Totals",
    "add_fingerprints",
    "decode_dataset",
    "encode",
    "import_legacy",
    "repair_dataset",
    "try_precision",
]
