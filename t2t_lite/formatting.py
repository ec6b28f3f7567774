"""Formats numbers for reports."""


def format_duration(seconds: float) -> str:
    """Formats a duration as hours, minutes and seconds: 3725.2 -> "1:02:05"."""
    minutes, seconds = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02}:{seconds:02}"


def encodable(text: str) -> str:
    """Returns a text with "?" for halves of characters, which JSON can hold and UTF-8 cannot."""
    return text.encode("utf-8", errors="replace").decode()
