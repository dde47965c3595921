"""Executors: where the encoder processes of a run are, and who watches over them."""
