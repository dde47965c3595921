"""Typed configuration: one frozen pydantic model per thing, and errors a person can act on."""

from typing import TYPE_CHECKING

from solfa.lazy_names import lazy_names

if TYPE_CHECKING:
    from solfa.config.base import Config, nearest, parse_config
else:
    __getattr__, __dir__ = lazy_names(
        __name__,
        {
            "solfa.config.base": ["Config", "nearest", "parse_config"],
        },
    )

__all__ = ["Config", "nearest", "parse_config"]
