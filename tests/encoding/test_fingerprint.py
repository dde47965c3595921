"""The fingerprint names everything that changes the numbers, and differences are told by name."""

import pytest

from solfa.codecs.catalogue import load_codec
from solfa.encoding.fingerprint import EncodeSettings, array_spec, dataset_info, differences
from solfa.errors import ConfigError


def test_every_setting_changes_the_fingerprint():
    codec = load_codec("mulaw")
    variants = [
        dataset_info(codec, EncodeSettings()),
        dataset_info(codec, EncodeSettings(segment_seconds=10)),
        dataset_info(codec, EncodeSettings(batch_seconds=60)),
        dataset_info(codec, EncodeSettings(dtype="uint32")),
        dataset_info(load_codec("mulaw:bits=9"), EncodeSettings()),
        dataset_info(load_codec("mulaw:sample_rate=8000"), EncodeSettings()),
    ]
    assert len({info.fingerprint for info in variants}) == len(variants)
    assert dataset_info(load_codec("mulaw"), EncodeSettings()).fingerprint == variants[0].fingerprint


def test_differences_are_listed_by_their_dotted_names():
    old = dataset_info(load_codec("mulaw"), EncodeSettings())
    new = dataset_info(load_codec("mulaw:bits=9"), EncodeSettings(segment_seconds=10))
    listed = list(differences(old.parts, new.parts))
    assert "segment_seconds: 30.0 in the dataset, 10.0 now" in listed
    assert any("bits: 8 in the dataset, 9 now" in line for line in listed)


def test_of_two_kinds_of_codecs_only_the_kinds_are_named():
    old = dataset_info(load_codec("solfa_24khz"), EncodeSettings())
    new = dataset_info(load_codec("mulaw"), EncodeSettings(segment_seconds=10))
    assert list(differences(old.parts, new.parts)) == [
        "codec: 'solfa_codec' in the dataset, 'mulaw' now",
        "segment_seconds: 30.0 in the dataset, 10.0 now",
    ]


@pytest.mark.parametrize(("codec", "dtype"), [("mulaw:bits=8", "uint16"), ("mulaw:bits=16", "uint16")])
def test_codes_are_stored_in_the_smallest_unsigned_integer(codec, dtype):
    assert array_spec(load_codec(codec)).dtype == dtype


def test_codes_cannot_be_stored_as_floats():
    with pytest.raises(ConfigError, match=r"dtype float16: .*codes.*mulaw"):
        array_spec(load_codec("mulaw"), "float16")
