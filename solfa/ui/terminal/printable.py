"""Text from files, made safe for a terminal."""


def printable(text: str) -> str:
    """Spell control characters out, so that they cannot act on the terminal."""
    return "".join(character if character.isprintable() else f"\\x{ord(character):02x}" for character in text)
