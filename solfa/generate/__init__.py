"""A trained model without its trainer: requests in, clips out."""
