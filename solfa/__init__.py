"""Solfa encodes audio once, as codec tokens or latents, and trains audio models on the result.

    report  = solfa.encode("audio/", "music.solfa")
    dataset = solfa.open_dataset("music.solfa")
    codec   = solfa.load_codec(dataset.info.codec)
    audio   = codec.decode(dataset[0])
    run     = solfa.train(["solver=lm/debug"])
    clips   = solfa.load_model(run.signature).generate(seconds=2, num=4)
    report  = solfa.evaluate(clips, reference="audio/")

Names are resolved on first use, so importing the package costs nothing.
"""

from typing import TYPE_CHECKING

from solfa.lazy_names import lazy_names
from solfa.version import __version__

if TYPE_CHECKING:
    from solfa.codecs.catalogue import load_codec
    from solfa.encoding.api import encode
    from solfa.evaluate.judgement import evaluate
    from solfa.generate.export import export_model
    from solfa.generate.model import load_model
    from solfa.store.dataset import open_dataset
    from solfa.train import train
else:
    __getattr__, __dir__ = lazy_names(
        __name__,
        {
            "solfa.codecs.catalogue": ["load_codec"],
            "solfa.encoding.api": ["encode"],
            "solfa.evaluate.judgement": ["evaluate"],
            "solfa.generate.export": ["export_model"],
            "solfa.generate.model": ["load_model"],
            "solfa.store.dataset": ["open_dataset"],
            "solfa.train": ["train"],
        },
    )

__all__ = ["__version__", "encode", "evaluate", "export_model", "load_codec", "load_model", "open_dataset", "train"]
