"""Processes forked from one that has imported everything: each begins at once. For scripts with one thread."""

import os
import socket
import sys
from collections.abc import Callable


def free_port() -> int:
    """Find a port where processes may meet."""
    with socket.socket() as chosen:
        chosen.bind(("127.0.0.1", 0))
        return int(chosen.getsockname()[1])


def launcher_variables(rank: int, world_size: int, port: int) -> dict[str, str]:
    """Give the variables by which a launcher tells a process who it is."""
    numbers = {"RANK": rank, "LOCAL_RANK": rank, "WORLD_SIZE": world_size, "LOCAL_WORLD_SIZE": world_size}
    return {name: str(number) for name, number in numbers.items()} | {
        "MASTER_ADDR": "127.0.0.1",
        "MASTER_PORT": str(port),
    }


def fork_ranks(world_size: int, work: Callable[[int], None]) -> list[int]:
    """Start processes that call `work` with their rank; return their ids."""
    children = []
    for rank in range(world_size):
        child = os.fork()
        if not child:
            code = 1
            try:
                work(rank)
                code = 0
            finally:
                os._exit(code)
        children.append(child)
    return children


def expect_success(children: list[int]) -> None:
    """Wait for processes; if one failed, end this one with a sentence."""
    codes = [os.waitpid(child, 0)[1] for child in children]
    if any(codes):
        sys.exit(f"a process failed: {codes}")
