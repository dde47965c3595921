"""The room of datasets: find clips, look at them, hear them."""
