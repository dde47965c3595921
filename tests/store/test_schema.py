"""The records of a dataset hold only what makes sense together."""

from typing import Any

import pytest
from store_maker import codes_spec, info_of, latents_spec

from solfa.config import parse_config
from solfa.errors import ConfigError
from solfa.store.schema import ArraySpec, DatasetInfo, FileRecord, data_schema

VALUES: dict[str, Any] = {
    "kind": "codes",
    "width": 4,
    "codebook_size": 1024,
    "sample_rate": 32_000,
    "num_channels": 1,
    "hop_length": 640,
    "dtype": "uint16",
}


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"dtype": "float16"}, "codes .*float16"),
        ({"codebook_size": None}, "codebook_size"),
        ({"kind": "latents", "dtype": "float16"}, "codebook_size"),
        ({"kind": "latents", "codebook_size": None}, "latents .*uint16"),
        ({"codebook_size": 65_537}, "65537 .*uint16"),
        ({"width": 0}, "width: .*found 0"),
        ({"dtype": "int64"}, "dtype"),
        ({"n_q": 4}, "n_q: "),
    ],
)
def test_a_contradictory_array_is_refused(change: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        parse_config(ArraySpec, VALUES | change, "array")


def test_what_follows_from_the_numbers_is_derived() -> None:
    assert codes_spec(4).frame_rate == 50.0
    assert codes_spec(4).bytes_per_frame == 8
    assert latents_spec(64, "float32").bytes_per_frame == 256
    assert parse_config(ArraySpec, VALUES | {"codebook_size": 65_536}, "array").dtype == "uint16"


def test_the_fingerprint_follows_from_the_parts_and_nothing_else() -> None:
    first, second = info_of(codes_spec()), info_of(codes_spec())
    assert first.fingerprint == second.fingerprint
    assert first.fingerprint != info_of(codes_spec(5)).fingerprint
    assert first.fingerprint != info_of(codes_spec(), codec="other").fingerprint


def test_a_description_whose_array_or_fingerprint_was_changed_is_refused() -> None:
    values = info_of(codes_spec()).model_dump(mode="json")
    with pytest.raises(ConfigError, match=r"fingerprint .*parts"):
        parse_config(DatasetInfo, values | {"parts": {}}, "dataset.json")
    other = codes_spec().model_dump() | {"hop_length": 320}
    with pytest.raises(ConfigError, match=r"array .*fingerprint"):
        parse_config(DatasetInfo, values | {"array": other}, "dataset.json")


def test_shards_beyond_a_hundred_thousand_have_names() -> None:
    for name in ("99999-0123456789abcdef.arrow", "123456-0123456789abcdef.arrow", "00000.parquet"):
        assert FileRecord(name=name, size_bytes=0, sha256="0" * 64).name == name


def test_the_schema_has_plain_types_and_says_its_version() -> None:
    schema = data_schema(codes_spec())
    assert [str(field.type) for field in schema] == ["string", "list<item: uint16 not null>", "int64"]
    assert b'"format_version":1' in schema.metadata[b"solfa"]
