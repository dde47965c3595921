"""Imports are not interrupted by the search for cycles, and it goes on as before."""

import gc

import pytest

from solfa.environment.collector import collector_paused


@pytest.mark.parametrize("is_enabled", [True, False])
def test_the_collector_is_afterwards_as_it_was_also_after_an_error(is_enabled):
    before = gc.isenabled()
    (gc.enable if is_enabled else gc.disable)()
    try:
        frozen = gc.get_freeze_count()
        with collector_paused():
            assert not gc.isenabled()
        assert gc.isenabled() == is_enabled
        with pytest.raises(KeyError), collector_paused():
            raise KeyError
        assert gc.isenabled() == is_enabled and gc.get_freeze_count() == frozen
    finally:
        (gc.enable if before else gc.disable)()
