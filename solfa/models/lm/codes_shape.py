"""How many codebooks a model of codes has, and how large they are: from its config, or from its data."""

from typing import TypeVar

from pydantic import Field

from solfa.config import Config
from solfa.errors import ConfigError


class CodesShape(Config):
    """The settings that every model of codes has."""

    num_codebooks: int | None = Field(default=None, ge=1)
    """None uses as many as the dataset has."""
    codebook_size: int | None = Field(default=None, ge=1)
    """None uses that of the dataset. The special token comes on top, with this id."""

    @property
    def special(self) -> int:
        """The id of the token where there is no code."""
        return self.codes_shape[1]

    @property
    def codes_shape(self) -> tuple[int, int]:
        """The number of codebooks and their size, once both are known."""
        if self.num_codebooks is None or self.codebook_size is None:
            raise ConfigError(
                "model: expected num_codebooks and codebook_size, found "
                f"{self.num_codebooks} and {self.codebook_size}; set both, or take them from a dataset"
            )
        return self.num_codebooks, self.codebook_size


C = TypeVar("C", bound=CodesShape)


def of_codes(config: C, num_codebooks: int, codebook_size: int) -> C:
    """Fill in what the dataset says, and refuse what contradicts it."""
    for name, wanted in (("num_codebooks", num_codebooks), ("codebook_size", codebook_size)):
        if getattr(config, name) not in (None, wanted):
            raise ConfigError(
                f"model.{name}: the dataset has {wanted}, found {getattr(config, name)}; "
                "leave it out to use the dataset's, or choose a dataset that fits the model"
            )
    return config.model_copy(update={"num_codebooks": num_codebooks, "codebook_size": codebook_size})
