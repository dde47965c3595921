"""Small charts as inline SVG: bars of counts, and the spread of latent channels."""

import numpy as np
from numpy.typing import NDArray

from solfa.evaluate.statistics import CodeStatistics, LatentStatistics, LengthHistogram
from solfa.spelling import count, plural, short
from solfa.ui.html.markup import Markup, element, join
from solfa.ui.html.picture import RANGE_DB, time_ticks

MAX_BARS = 128


def merged_bars(counts: NDArray[np.int64], max_bars: int = MAX_BARS) -> NDArray[np.float64]:
    """Average neighbouring counts until there are at most `max_bars`."""
    if len(counts) <= max_bars:
        return counts.astype(np.float64)
    starts = np.arange(max_bars) * len(counts) // max_bars
    lengths = np.diff(np.append(starts, len(counts)))
    return np.asarray(np.add.reduceat(counts, starts) / lengths, np.float64)


def bars(heights: NDArray[np.float64], label: str, *, gap: float = 0.0) -> Markup:
    """Draw bars in a box that stretches, scaled to the highest; a single path, however many bars."""
    highest = float(heights.max()) if heights.size else 0.0
    scaled = heights / highest if highest > 0 else np.zeros_like(heights)
    # A bar that is not empty is at least one hundredth high, so that rare looks different from never.
    tall = 100.0 - 100.0 * np.where(scaled > 0, np.maximum(scaled, 0.01), 0.0)
    steps = "".join(
        f"M{place + gap:g} 100V{top:.2f}H{place + 1 - gap:g}V100Z" for place, top in enumerate(tall) if top < 100.0
    )
    return element(
        "svg",
        element("path", d=steps),
        class_="bars",
        view_box=f"0 0 {len(heights)} 100",
        preserveAspectRatio="none",
        role="img",
        aria_label=label,
    )


def axis(ticks: list[tuple[str, float]]) -> Markup:
    """Write labels below a chart, at positions from 0 to 1."""
    # A label at either end stays inside the chart instead of being centred on its tick.
    labels = (
        element("span", label, class_="end" if place > 0.97 else None, style=f"left:{100 * place:.2f}%")
        for label, place in ticks
    )
    return element("div", *labels, class_="axis", aria_hidden="true")


def spectrogram_key(of: str, class_: str = "quiet lead") -> Markup:
    """Say how to read spectrograms whose brightest colour is the loudest point of something."""
    return element(
        "p",
        "Spectrograms: frequency in kHz (mel scale) over time in seconds; ",
        element("span", f"−{RANGE_DB:g} dB", element("i", class_="key"), f"loudest point of {of}."),
        class_=class_,
    )


def length_chart(histogram: LengthHistogram) -> Markup:
    """Draw a histogram of clip lengths."""
    longest = float(histogram.edges_seconds[-1])
    width = longest / len(histogram.counts)
    peak, most = int(histogram.counts.argmax()), plural(int(histogram.counts.max()), "clip")
    label = (
        f"Histogram of clip lengths up to {short(longest)} seconds; the highest bar is {most} "
        f"between {short(peak * width)} and {short((peak + 1) * width)} seconds"
    )
    return element(
        "figure",
        element("div", bars(histogram.counts.astype(np.float64), label, gap=0.06), class_="chart tall"),
        axis(time_ticks(longest, max_ticks=10)),
        element("figcaption", f"Length in seconds, in steps of {short(width)}; the highest bar is {most}."),
    )


def code_charts(statistics: CodeStatistics) -> Markup:
    """Draw how often the entries of every codebook are used."""
    entropy, perplexity, used = statistics.entropy_bits, statistics.perplexity, statistics.used_share
    most_bits = np.log2(statistics.codebook_size)
    figures = [
        element(
            "figure",
            element("h3", f"Codebook {codebook}"),
            element(
                "div",
                bars(
                    merged_bars(statistics.counts[codebook]),
                    f"Histogram of codebook {codebook}: {_percent(float(used[codebook]))} of its entries in use",
                ),
                class_="chart",
            ),
            axis([("0", 0.0), (count(statistics.codebook_size - 1), 1.0)]),
            element(
                "figcaption",
                _measure("entropy", f"{entropy[codebook]:.2f}", f"of {most_bits:.4g} bits"),
                _measure("perplexity", short(float(perplexity[codebook])), ""),
                _measure("used", _percent(float(used[codebook])), ""),
            ),
        )
        for codebook in range(statistics.num_codebooks)
    ]
    return element("div", *figures, class_="multiples")


def _percent(share: float) -> str:
    """Round to whole per cent, but never round to `100 %` or `0 %` unless it is exact."""
    if 0.0 < share < 0.005 or 0.995 <= share < 1.0:
        return "< 1 %" if share < 0.5 else "> 99 %"
    return f"{100 * share:.0f} %"


def _measure(name: str, value: str, unit: str) -> Markup:
    return element("span", f"{name} ", element("b", value), f" {unit}" if unit else "", class_="measure")


def latent_chart(statistics: LatentStatistics) -> Markup:
    """Draw the mean, one standard deviation either way, and the extremes of every channel."""
    parts = (statistics.minimum, statistics.maximum, statistics.mean - statistics.std, statistics.mean + statistics.std)
    known = np.isfinite(np.stack(parts)).all(axis=0)
    low = min(0.0, float(statistics.minimum[known].min(initial=0.0)))
    high = max(0.0, float(statistics.maximum[known].max(initial=0.0)))
    scale = 100.0 / max(high - low, 1e-12)

    def bar(bottom: NDArray[np.float64], top: NDArray[np.float64], half_width: float) -> str:
        return "".join(
            f"M{z + 0.5 - half_width:g} {(high - top[z]) * scale:.2f}H{z + 0.5 + half_width:g}"
            f"V{(high - bottom[z]) * scale + 0.3:.2f}H{z + 0.5 - half_width:g}Z"
            for z in np.flatnonzero(known)
        )

    drawing = element(
        "svg",
        element("path", d=bar(parts[0], parts[1], 0.08), class_="faint"),
        element("path", d=bar(parts[2], parts[3], 0.36), class_="band"),
        element("path", d=bar(statistics.mean, statistics.mean, 0.36), class_="mean"),
        class_="bars",
        view_box=f"0 0 {max(1, statistics.num_channels)} 100.3",
        preserveAspectRatio="none",
        role="img",
        aria_label=f"Mean, deviation and extremes of {statistics.num_channels} channels, {short(low)} to {short(high)}",
    )
    broken = int(statistics.num_nonfinite.sum())
    levels = join(
        *(
            element("span", short(level), style=f"bottom:{100 * (level - low) / max(high - low, 1e-12):.2f}%")
            for level in sorted({low, 0.0, high})
        )
    )
    return element(
        "figure",
        element(
            "div",
            element("div", levels, class_="levels", aria_hidden="true"),
            element("div", drawing, class_="chart tall"),
            class_="leveled",
        ),
        element(
            "figcaption",
            f"Channels 0 to {statistics.num_channels - 1}: mean, one standard deviation either way, minimum, maximum."
            + (f" {plural(broken, 'value')} left out, not finite." if broken else ""),
        ),
        class_="latents",
    )
