"""`solfa pre-encode`: the flags and the layout of stable-audio-tools' `pre_encode.py`, resumable and lossless.

config ──► frozen list of items ──► batches, dealt to ranks ──► decode ahead ──► codec ──► .npy, then .json

A recording longer than `sample_size` becomes consecutive items that cover all of it. Everything readable is encoded as
it is, silence included: nothing is flipped, clamped, drawn, replaced, repeated or dropped. Unreadable files are listed
in `failures.jsonl`. Prefer `solfa encode` for new work: it pads nothing and stores far fewer files.
"""
