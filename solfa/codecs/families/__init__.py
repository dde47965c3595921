"""One file per family of codecs, each a final class behind the `Codec` protocol."""
