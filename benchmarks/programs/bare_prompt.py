"""A bare prompt of prompt_toolkit with a history file and completion: the floor of ours.

Run as `bare_prompt.py FOLDER`; the history is kept there. Prints each line it is given.
"""

import sys
from pathlib import Path

from prompt_toolkit import PromptSession
from prompt_toolkit.completion import WordCompleter
from prompt_toolkit.history import FileHistory


def main() -> None:
    """Prompt until the input ends."""
    session: PromptSession[str] = PromptSession(
        "› ",
        history=FileHistory(str(Path(sys.argv[1]) / "history")),
        completer=WordCompleter(["/help", "/exit", "/cost", "/mode", "/role", "/workflow"]),
        bottom_toolbar="role:dude",
    )
    while True:
        try:
            line = session.prompt()
        except (EOFError, KeyboardInterrupt):
            return
        print(f"got {line}")


if __name__ == "__main__":
    main()
