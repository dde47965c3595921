"""Numbers as a person reads them: in logs, on the terminal, on pages."""

import math


def count(number: int) -> str:
    """Group digits by thousands: 1,234,567."""
    return f"{number:,}"


def plural(number: int, noun: str) -> str:
    """Write `1 clip`, `2 clips`."""
    return f"{number:,} {noun}" if number == 1 else f"{number:,} {noun}s"


def short(number: float, digits: int = 3) -> str:
    """Round to a few digits, without an exponent if possible and with a true minus sign."""
    if number == 0 or not math.isfinite(number):
        return f"{abs(number) if number == 0 else number:g}"
    text = f"{number:.{digits}g}"
    if 1e-4 <= abs(number) < 1e6:
        decimals = max(0, digits - 1 - math.floor(math.log10(abs(number))))
        text = f"{number:,.{decimals}f}"
        text = text.rstrip("0").rstrip(".") if "." in text else text
    return text.replace("-", "−", 1) if number < 0 else text


def duration(seconds: float) -> str:
    """Write a duration in suitable units: `0.52 s`, `3 min 05 s`, `12 h 40 min`, `9.5 days`."""
    if seconds < 60:
        return f"{seconds:.2f} s" if seconds < 10 else f"{seconds:.1f} s"
    whole = round(seconds)
    if whole < 3600:
        return f"{whole // 60} min {whole % 60:02d} s"
    if whole < 100 * 3600:
        return f"{whole // 3600} h {whole % 3600 // 60:02d} min"
    return f"{seconds / 86400:,.1f} days"


def size(num_bytes: float) -> str:
    """Write a number of bytes in decimal units."""
    for unit in ("bytes", "kB", "MB", "GB", "TB"):
        if num_bytes < 1000 or unit == "TB":
            break
        num_bytes /= 1000
    return f"{short(num_bytes)} {unit}"


def khz(sample_rate: int) -> str:
    """Write a sample rate: `44.1 kHz`."""
    return f"{sample_rate / 1000:g} kHz"


def channels(number: int) -> str:
    """Write `mono`, `stereo`, `6 channels`."""
    return {1: "mono", 2: "stereo"}.get(number, plural(number, "channel"))


def signed_db(decibels: float) -> str:
    """Write a level with a true minus sign."""
    if math.isinf(decibels):
        return "−∞ dB" if decibels < 0 else "∞ dB"
    return f"{decibels:.1f} dB".replace("-", "−")
