"""From what is known about a clip (a caption, labels, numbers) to vectors that a model is conditioned on."""
