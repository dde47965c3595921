"""The name of the default codec, which commands need without importing anything else, and what to expect of it."""

DEFAULT_CODEC = "solfa_24khz"
"""Used unless another codec is chosen; its weights ship with Solfa, so it works offline."""

ABOUT_DEFAULT_CODEC = (
    "the codec that comes with Solfa: mono, 24 kHz, at most 6 kbit/s, trained on 29 hours of sound. Good for trying "
    "things out and for small models; you hear the loss. Better codecs load from the Hub: encodec_32khz, mimi, "
    "dac_44khz."
)

FOR_STEREO = "stable_audio_open (44.1 kHz, stereo) or ace_step_48khz (48 kHz, stereo)"
FOR_FULL_BAND = "dac_44khz (44.1 kHz, mono), stable_audio_open (44.1 kHz, stereo) or ace_step_48khz (48 kHz, stereo)"
"""What to take instead for audio that is stereo, or that has more than 24 kHz."""

WITH_SCALES = "encodec_48khz"
ABOUT_SCALES = (
    "it stores a loudness for every second of a recording beside its codes. You can decode and export such a dataset, "
    "but no model here predicts loudness, so none can be trained on it. For that, choose stable_audio_open or "
    "ace_step_48khz (48 kHz, stereo), or encodec_32khz."
)
"""What to know before encoding with it."""
