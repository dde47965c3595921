"""Build a Mixture-of-Transformers from its config: load the base and the donor, initialise every expert, log how."""

import logging

from solfa.errors import ConfigError
from solfa.files.digest import file_sha256, value_sha256
from solfa.models.lm.musicgen import load_musicgen
from solfa.models.mot.config import MoTConfig
from solfa.models.mot.ffn_experts import Bridge
from solfa.models.mot.network import Donor, MoT
from solfa.models.mot.text_base import load_base
from solfa.pretrained.directory import named_files

logger = logging.getLogger(__name__)


def build_mot(config: MoTConfig) -> MoT:
    """Load the parts that the config names and assemble them; a donor that contributes nothing is an error.

    >>> import torch
    >>> from solfa.models import Bridge, MoTConfig, Texts, TextsConfig, build_mot
    >>> model = build_mot(MoTConfig(base="//tiny", ffn=Bridge(width=16), num_codebooks=3, codebook_size=8))
    >>> texts = Texts(TextsConfig(), model.base)
    >>> codes, mask = torch.zeros(1, 3, 6, dtype=torch.int64), torch.ones(1, 6, dtype=torch.bool)
    >>> model(codes, mask, texts.prefix(["a bell, struck twice"])).shape  # [B, K, T, V]
    torch.Size([1, 3, 6, 8])
    """
    base = load_base(config.base, config.base_dtype)
    donor = None if config.donor is None else load_donor(config.donor)
    model = MoT(config, base, donor)
    if donor is not None and not model.takes_tables:
        found = f"{donor.model.num_codebooks} codebooks of {donor.model.codebook_size}"
        wanted = "{} of {} in the layout {}".format(*config.codes_shape, config.layout.kind)
        if not isinstance(config.ffn, Bridge):
            raise ConfigError(
                f"model.donor: {config.donor} would not be used: ffn {config.ffn.kind} takes none of its layers, and "
                f"its {found} do not fit {wanted}; leave the donor out, or use a bridge"
            )
        logger.warning("donor %s: its %s do not fit %s, so tables and heads start fresh", config.donor, found, wanted)
    logger.info("MoT on %s: %s", config.base, model.report)
    return model


def load_donor(location: str) -> Donor:
    """Load a MusicGen decoder and hash its files."""
    loaded = load_musicgen(location)
    files = {path.name: file_sha256(path) for path in named_files(loaded.directory)}
    return Donor(loaded.model, value_sha256(files))
