"""The parts of `codec_quality.py`: clips, systems, metrics, measurements, and the report that is made of them."""
