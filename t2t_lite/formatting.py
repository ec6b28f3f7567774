"""Formats numbers and texts for reports and files."""


def format_duration(seconds: float) -> str:
    """Formats a duration as hours, minutes and seconds: 3725.2 -> "1:02:05"."""
    minutes, seconds = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02}:{seconds:02}"


def one_line(text: str) -> str:
    """Returns an output with blanks for line breaks, which vocabularies with byte tokens can produce.

    Files of texts have a line for each output, and are read with `read_lines`: it knows no other ends of lines, such as
    U+0085 or U+2028.
    """
    return text.replace("\r", " ").replace("\n", " ")


def encodable(text: str) -> str:
    """Returns a text with "?" for halves of characters, which JSON can hold and UTF-8 cannot."""
    return text.encode("utf-8", errors="replace").decode()
