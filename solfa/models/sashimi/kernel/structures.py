"""The interface between Python and the C kernel: the structures of network.c, field by field."""

import ctypes

BLOCK, PANEL, BURST = 16, 64, 8

_int = ctypes.c_int64
_floats = ctypes.c_void_p


class Tier(ctypes.Structure):
    """One rate of the network, for a number of clips."""

    _fields_ = (
        *((name, _int) for name in ("width", "padded", "inner", "modes", "glu", "num_down", "num_up")),
        *((name, _int) for name in ("pool", "phase", "burst")),
        *((name, _floats) for name in ("down", "down_pool", "up_pool", "up")),
        *((name, _floats) for name in ("memory", "waiting", "ready", "pooled", "normed", "hidden", "skips")),
    )


class Grid(ctypes.Structure):
    """The grid that a mixture of logistics is drawn on; zero mixtures mean a categorical head."""

    _fields_ = (
        *((name, _int) for name in ("num_classes", "num_mixtures")),
        *((name, ctypes.c_float) for name in ("steps", "log_steps", "smallest_log_scale", "largest_mean")),
        *((name, ctypes.c_float) for name in ("low_log_scale", "high_log_scale", "far")),
        ("borders", _floats),
    )


class Path(ctypes.Structure):
    """The linear path; an order of zero means that there is none."""

    _fields_ = (
        *((name, _int) for name in ("order", "num_borders")),
        *((name, _floats) for name in ("coefficients", "borders", "amplitudes", "residuals", "whitening")),
        *((name, ctypes.c_float) for name in ("error", "largest_log_scale")),
        *((name, _floats) for name in ("past", "predictions")),
        *((name, _int) for name in ("opening_samples", "num_level_borders")),
        ("opening_unit", ctypes.c_double),
        *((name, _floats) for name in ("level_borders", "amplitude_levels", "residual_levels", "opening")),
    )


class Network(ctypes.Structure):
    """The whole network, for a number of clips."""

    _fields_ = (
        *((name, _int) for name in ("num_clips", "num_tiers", "num_classes", "num_outputs", "padded_outputs")),
        ("tiers", ctypes.POINTER(Tier)),
        *((name, _floats) for name in ("embedding", "norm", "projection", "x", "outputs", "scratch")),
        ("grid", Grid),
        ("path", Path),
    )


def padded(width: int) -> int:
    """Round a width up to whole blocks."""
    return -(-width // BLOCK) * BLOCK
