"""Make text from files safe for a terminal."""


def printable(text: str) -> str:
    """Spell out control characters, so that they cannot affect the terminal."""
    return "".join(character if character.isprintable() else f"\\x{ord(character):02x}" for character in text)
