"""Numbers as people read them."""


def format_duration(seconds: float) -> str:
    """Returns hours, minutes and seconds: 3725.2 -> "1:02:05"."""
    minutes, seconds = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02}:{seconds:02}"
