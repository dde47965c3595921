"""The parts of `sashimi_heads.py`: recordings, contenders, training, scores, anchors, and the report of them."""
