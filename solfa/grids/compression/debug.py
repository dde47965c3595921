"""A grid that takes a minute: the smallest codec with two bottlenecks, with and without discriminators.

dora grid compression.debug --dry_run --init
solfa grid compression.debug --local --jobs 2
"""

from dora.explore import Launcher

from solfa.grids._explorers import CodecExplorer


@CodecExplorer
def explorer(launcher: Launcher) -> None:
    """Launch three experiments."""
    launcher.bind_(solver="compression/debug")
    launcher()
    launcher({"adversarial": None})
    launcher({"model.bottleneck.num_codebooks": 2})
