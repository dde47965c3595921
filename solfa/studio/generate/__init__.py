"""The room where models are asked for sound: text and conditions in, clips to hear, look at, and go on from."""
