"""The room of runs: how they are doing, what they sound like, stop and resume."""
