"""Network layers, built from plain numbers."""

from typing import TYPE_CHECKING

from solfa.lazy_names import lazy_names

if TYPE_CHECKING:
    from solfa.nn.discriminators import MultiScaleStftDiscriminator, StftDiscriminatorConfig
    from solfa.nn.linears.half import halve_linears
    from solfa.nn.linears.int8 import quantise_linears
    from solfa.nn.linears.packed import pack_linears
    from solfa.nn.positions import Rope, Sinusoidal
    from solfa.nn.rvq import ResidualVectorQuantizer
    from solfa.nn.s4d import S4D
    from solfa.nn.seanet import SeanetConfig, SeanetDecoder, SeanetEncoder
    from solfa.nn.spectral_net import SpectralConfig, SpectralDecoder, SpectralEncoder
    from solfa.nn.transformer import Transformer, TransformerLayer
else:
    __getattr__, __dir__ = lazy_names(
        __name__,
        {
            "solfa.nn.discriminators": ["MultiScaleStftDiscriminator", "StftDiscriminatorConfig"],
            "solfa.nn.linears.half": ["halve_linears"],
            "solfa.nn.linears.int8": ["quantise_linears"],
            "solfa.nn.linears.packed": ["pack_linears"],
            "solfa.nn.positions": ["Rope", "Sinusoidal"],
            "solfa.nn.rvq": ["ResidualVectorQuantizer"],
            "solfa.nn.s4d": ["S4D"],
            "solfa.nn.seanet": ["SeanetConfig", "SeanetDecoder", "SeanetEncoder"],
            "solfa.nn.spectral_net": ["SpectralConfig", "SpectralDecoder", "SpectralEncoder"],
            "solfa.nn.transformer": ["Transformer", "TransformerLayer"],
        },
    )

__all__ = [
    "S4D",
    "MultiScaleStftDiscriminator",
    "ResidualVectorQuantizer",
    "Rope",
    "SeanetConfig",
    "SeanetDecoder",
    "SeanetEncoder",
    "Sinusoidal",
    "SpectralConfig",
    "SpectralDecoder",
    "SpectralEncoder",
    "StftDiscriminatorConfig",
    "Transformer",
    "TransformerLayer",
    "halve_linears",
    "pack_linears",
    "quantise_linears",
]
