"""Typed configuration: one frozen pydantic model per thing, and errors a person can act on."""

from solfa.config.base import Config, nearest, parse_config

__all__ = ["Config", "nearest", "parse_config"]
