"""What a run made of the weights it started from: losses, weights and clips before and after, and a verdict."""
