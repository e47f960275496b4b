"""How a command that a policy wrote is read."""

_BLANKS_AND_QUOTES = " \t\r\n\f\v\xa0\"'`\u2018\u2019\u201c\u201d"


def tidy_command(text: str) -> str:
    """Return a command in lower case, with single blanks, without quotes around it or a final full stop."""
    plain = text.lower().strip(_BLANKS_AND_QUOTES).removesuffix(".").strip(_BLANKS_AND_QUOTES)
    return " ".join(plain.split())
