"""Turn what is known about a clip (a caption, labels, numbers) into vectors to condition a model on."""
