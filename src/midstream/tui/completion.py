"""What a line is, by how it begins, and what completes its last word: names, then files as they are
found."""

import contextlib
import re
import shlex
from collections.abc import AsyncGenerator, Callable, Iterable

from prompt_toolkit.application import get_app
from prompt_toolkit.buffer import Buffer, CompletionState
from prompt_toolkit.completion import (
    CompleteEvent,
    Completer,
    Completion,
    get_common_complete_suffix,
)
from prompt_toolkit.document import Document

from midstream.core.mentions import asked_for, mention_before
from midstream.safety.sanitize import sanitized


def is_own(text: str) -> bool:
    """Return whether a line is a command for the person's shell; `!!` starts a text, `![` a picture."""
    return text.startswith("!") and not text.startswith(("!!", "!["))


def words_of(text: str) -> str:
    """Return the words a line stands for that is no command: of `!!text`, `!text`."""
    return text[1:] if text.startswith("!!") else text


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
        """Give what the session knows at once; files are not among it."""
        before = document.text_before_cursor
        for whole, description in self._completions(before):
            yield _completion(whole, description, len(before) - _begin_of_word(before))

    async def get_completions_async(
        self, document: Document, complete_event: CompleteEvent
    ) -> AsyncGenerator[Completion, None]:
        """Give what the session knows, then files, or what a command asks for. Of a shell command files
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


def complete(buffer: Buffer, words: Words) -> None:
    """Complete the word before the cursor as far as it is certain; show the choices, go on."""
    state = buffer.complete_state
    if state is not None and state.current_completion:
        buffer.complete_next()
        return
    before = buffer.document.text_before_cursor
    if mention_in(before) is not None or path_in(before) is not None:
        # What fits has nothing in common but letters: the first choice, again: the next.
        if state is None or not state.completions:
            _take_first(buffer, words)
        elif len(state.completions) == 1:
            buffer.apply_completion(state.completions[0])
        else:
            buffer.complete_next()
        return
    found = list(words.get_completions(buffer.document, CompleteEvent()))
    common = get_common_complete_suffix(buffer.document, found)
    if common:
        buffer.insert_text(common)
    elif len(found) > 1 and buffer.complete_state is not None:
        buffer.complete_next()
    elif len(found) > 1:
        buffer.start_completion()


def _take_first(buffer: Buffer, words: Words) -> None:
    """Take the first choice, and look for more.

    What is known takes the place of the word before the next key does anything; files are still to
    be looked for, and one is taken if nothing was typed until they are found.
    """
    event = CompleteEvent(completion_requested=True)
    known = list(words.get_completions(buffer.document, event))
    state = CompletionState(buffer.document, known)
    buffer.complete_state = state
    get_app().create_background_task(_find_more(buffer, words, state, event))
    if known:
        buffer.go_to_completion(0)


async def _find_more(
    buffer: Buffer, words: Words, state: CompletionState, event: CompleteEvent
) -> None:
    known = len(state.completions)
    more = words.get_completions_async(state.original_document, event)
    async with contextlib.aclosing(more) as found:
        async for completion in found:
            if buffer.complete_state is not state:
                return
            known -= 1
            if known < 0:
                state.completions.append(completion)
                buffer.on_completions_changed.fire()
    if buffer.complete_state is not state:
        return
    if not state.completions:
        buffer.complete_state = None
        buffer.on_completions_changed.fire()
    elif state.complete_index is None:
        buffer.go_to_completion(0)
