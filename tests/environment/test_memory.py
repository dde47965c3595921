"""More memory than there is: counted beforehand, or answered in a sentence when an allocation fails."""

import numpy as np
import pytest
import torch

from solfa.environment.memory import allocation_fault, expect_memory, total_memory
from solfa.errors import ConfigError


def test_what_fits_is_allowed_and_what_does_not_is_told_with_its_size():
    assert total_memory() > 1 << 20
    expect_memory(1 << 20, "clips", "ask for less")
    with pytest.raises(ConfigError, match=r"^clips: .*1,126 TB .*; ask for less$"):
        expect_memory(1 << 50, "clips", "ask for less")


@pytest.mark.parametrize(
    ("allocate", "told"),
    [
        (lambda: torch.empty(1 << 55), "TB"),
        (lambda: np.zeros(1 << 55), "PiB"),
        (lambda: torch.empty(1 << 62, 1 << 30), "out of memory"),
        (lambda: bytearray(1 << 60), "out of memory"),
    ],
)
def test_allocations_that_fail_are_recognised(allocate, told):
    with pytest.raises((MemoryError, RuntimeError)) as error:
        allocate()
    assert told in (allocation_fault(error.value) or "")


def test_other_errors_are_left_alone():
    assert allocation_fault(RuntimeError("mat1 and mat2 shapes cannot be multiplied")) is None
