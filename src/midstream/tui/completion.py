"""What may complete the word before the cursor: names the desk knows, then files, as they are found."""

import contextlib
import re
import shlex
from collections.abc import AsyncGenerator, Callable, Iterable

from prompt_toolkit.buffer import CompletionState
from prompt_toolkit.completion import CompleteEvent, Completer, Completion
from prompt_toolkit.document import Document

from midstream.core.mentions import asked_for, mention_before
from midstream.safety.sanitize import sanitized
from midstream.tui.shell_lines import is_own


def mention_in(before: str) -> str | None:
    """Return the mention at the end of a text; a shell command (`!`) has none."""
    return None if before.startswith("!") else mention_before(before)


def path_in(before: str) -> str | None:
    """Return the word at the end of a shell command, None outside of one."""
    return re.split(r"\s", before[1:])[-1] if is_own(before) else None


class Words(Completer):
    """Completes a word; see `Editor` for what `completions` and `mentions` are.

    Args:
        state: returns the choices that are on the screen now. Once they are others than those a
            search was begun for, it ends: the next key's search waits for it.
        changed: draws the choices found so far. By itself prompt_toolkit does that three times a
            second.
    """

    def __init__(
        self,
        completions: Callable[[str], tuple[tuple[str, str], ...]],
        mentions: Callable[[str], AsyncGenerator[tuple[tuple[str, str], ...], None]] | None,
        *,
        state: Callable[[], CompletionState | None] = lambda: None,
        changed: Callable[[], None] = lambda: None,
    ) -> None:
        self._completions = completions
        self._mentions = mentions
        self._state = state
        self._changed = changed

    def get_completions(
        self, document: Document, complete_event: CompleteEvent
    ) -> Iterable[Completion]:
        """Give what the desk knows at once; files are not among it."""
        before = document.text_before_cursor
        for whole, description in self._completions(before):
            yield _completion(whole, description, len(before) - _begin_of_word(before))

    async def get_completions_async(
        self, document: Document, complete_event: CompleteEvent
    ) -> AsyncGenerator[Completion, None]:
        """Give what the desk knows, then files, or what a command asks for. Of a shell command files
        alone, and if asked for.
        """
        given: set[str] = set()
        for completion in self.get_completions(document, complete_event):
            given.add(completion.text)
            yield completion
        before = document.text_before_cursor
        word = path_in(before)
        if word is not None and complete_event.completion_requested:
            async with contextlib.aclosing(self._files(f"@{word}")) as found:
                async for whole, kind in found:
                    # As a shell reads it.
                    path = shlex.quote(asked_for(whole).removesuffix('"'))
                    if path != word:
                        yield _completion(path, kind, len(word))
        if before.startswith("/"):
            async with contextlib.aclosing(self._files(before)) as found:
                async for whole, description in found:
                    if whole not in given:
                        yield _completion(whole, description, len(before) - _begin_of_word(before))
        mention = mention_in(before)
        if mention is not None:
            async with contextlib.aclosing(self._files(mention)) as found:
                async for whole, kind in found:
                    if whole not in given and whole != mention:
                        yield _completion(whole, kind, len(mention))

    async def _files(self, mention: str) -> AsyncGenerator[tuple[str, str], None]:
        """Give each file once, as it is found, until something else is typed."""
        if self._mentions is None:
            return
        begun_for = self._state()
        given: set[str] = set()
        async with contextlib.aclosing(self._mentions(mention)) as found:
            async for pairs in found:
                if self._state() is not begun_for:
                    return
                for whole, kind in pairs:
                    if whole not in given:
                        given.add(whole)
                        yield whole, kind
                self._changed()


def _begin_of_word(before: str) -> int:
    return max(before.rfind(" "), before.rfind("\n")) + 1


def _completion(whole: str, description: str, typed: int) -> Completion:
    return Completion(whole, -typed, display=sanitized(whole), display_meta=sanitized(description))
