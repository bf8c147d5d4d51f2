"""Words as every store and provider takes them."""


def readable(text: str) -> str:
    """Return words as Unicode that can be kept and sent: no lone surrogates, no NUL."""
    try:
        text.encode()
    except UnicodeEncodeError:
        text = text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    return text.replace("\0", "\ufffd")
