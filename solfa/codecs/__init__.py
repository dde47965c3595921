"""Codecs: anything that maps a waveform to codes or latents and back, behind one protocol."""
