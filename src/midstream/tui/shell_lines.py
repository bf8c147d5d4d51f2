"""Which lines are commands for the person's own shell, and which only look like one."""


def is_own(text: str) -> bool:
    """Return whether a line is a command for the person's shell; `!!` starts a text, `![` a picture."""
    return text.startswith("!") and not text.startswith(("!!", "!["))


def words_of(text: str) -> str:
    """Return the words a line stands for that is no command: of `!!text`, `!text`."""
    return text[1:] if text.startswith("!!") else text
