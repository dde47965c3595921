"""A grid that takes a minute: the smallest language model with two learning rates and two patterns of codebooks.

dora grid lm.debug --dry_run --init
solfa grid lm.debug --local --jobs 2
"""

from dora.explore import Launcher

from solfa.grids._explorers import LMExplorer


@LMExplorer
def explorer(launcher: Launcher) -> None:
    """Launch four experiments."""
    launcher.bind_(solver="lm/debug")
    for lr in (1e-3, 3e-3):
        sub = launcher.bind({"optim.optimizer.lr": lr})
        sub()
        sub({"model.pattern.kind": "flat"})
