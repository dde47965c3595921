"""`solfa pre-encode`: the surface and the layout of stable-audio-tools' `pre_encode.py`, resumable and without loss.

config ──► frozen list of items ──► batches, dealt to ranks ──► decode ahead ──► codec ──► .npy, then .json

A recording longer than `sample_size` becomes consecutive items that cover all of it. Everything readable is encoded,
silence included, as it is: nothing is flipped, clamped, drawn, replaced, repeated or dropped. What cannot be read is
listed in `failures.jsonl`. For new work `solfa encode` is the better way: it pads nothing and stores far fewer files.
"""
