"""A perceptual colour map: night blue through plum and rose to pale gold.

It is a path through OKLCh (Ottosson 2020) whose lightness rises in equal steps, so that equal differences in level
look equal and the picture still works in greyscale.
"""

from functools import cache

import numpy as np
from numpy.typing import NDArray

LIGHTNESS = (0.16, 0.96)
_STOPS = np.array([0.0, 0.25, 0.5, 0.75, 1.0])
_CHROMA = np.array([0.045, 0.125, 0.165, 0.135, 0.075])
_HUE_DEGREES = np.array([275.0, 305.0, 370.0, 412.0, 455.0])


def colour_map(num_colours: int = 256) -> NDArray[np.uint8]:
    """Return `[num_colours, 3]` sRGB colours from dark to light."""
    place = np.linspace(0.0, 1.0, num_colours)
    lightness = np.interp(place, (0.0, 1.0), LIGHTNESS)
    chroma = np.interp(place, _STOPS, _CHROMA)
    hue = np.deg2rad(np.interp(place, _STOPS, _HUE_DEGREES))
    linear = np.clip(_linear_rgb(lightness, chroma * np.cos(hue), chroma * np.sin(hue)), 0.0, 1.0)
    encoded = np.where(linear <= 0.0031308, 12.92 * linear, 1.055 * linear ** (1 / 2.4) - 0.055)
    return np.asarray(np.round(255.0 * encoded), np.uint8)


def _linear_rgb(lightness: NDArray[np.float64], a: NDArray[np.float64], b: NDArray[np.float64]) -> NDArray[np.float64]:
    cones = (
        np.stack(
            [
                lightness + 0.3963377774 * a + 0.2158037573 * b,
                lightness - 0.1055613458 * a - 0.0638541728 * b,
                lightness - 0.0894841775 * a - 1.2914855480 * b,
            ]
        )
        ** 3
    )
    to_rgb = np.array(
        [
            [4.0767416621, -3.3077115913, 0.2309699292],
            [-1.2684380046, 2.6097574011, -0.3413193965],
            [-0.0041960863, -0.7034186147, 1.7076147010],
        ]
    )
    return np.asarray((to_rgb @ cones).T)


@cache
def css_gradient(num_stops: int = 9) -> str:
    """Write the colour map as a CSS gradient, for the key to a picture."""
    stops = ", ".join(f"rgb({red} {green} {blue})" for red, green, blue in colour_map(num_stops).tolist())
    return f"linear-gradient(90deg, {stops})"
