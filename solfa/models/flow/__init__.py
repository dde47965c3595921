"""Flow matching and diffusion on latents: the networks of Stable Audio, their conditions, and how to draw with them."""
