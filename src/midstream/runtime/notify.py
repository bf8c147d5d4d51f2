"""What a run tells: its facts and notices, to a tap on the loop and to listeners beside it."""

from collections.abc import Callable

import msgspec

from midstream.core.notices import AnyNotice, Envelope, ListenerFailed
from midstream.runtime.emitter import Emitter
from midstream.runtime.ports import Clock
from midstream.runtime.user_words import readable
from midstream.safety.redaction import Redactor

MAX_ERROR = 10_000
"""Characters that are told of what a listener raised."""


class Telling:
    """Tells the events of a run. Its emitter is made when somebody first listens.

    Args:
        run: the run's id.
        clock: dates notices.
        redactor: takes the secrets out of what listeners raise.
        tap: a trusted, quick listener on the loop; what it raises is told, too.
    """

    __slots__ = ("_clock", "_emitter", "_redactor", "_run", "tap")

    def __init__(
        self,
        run: str,
        clock: Clock,
        redactor: Redactor,
        tap: Callable[[Envelope], None] | None,
    ) -> None:
        self._run = run
        self._clock = clock
        self._redactor = redactor
        self._emitter: Emitter | None = None
        self.tap = tap

    def tell(self, envelope: Envelope) -> None:
        """Hand an event to everyone who listens."""
        if self.tap is not None:
            try:
                self.tap(envelope)
            except Exception as error:
                self._tap_failed(envelope, error)
        if self._emitter is not None:
            self._emitter.emit(envelope)

    def notify(self, notice: AnyNotice) -> None:
        """Tell what is shown but not kept."""
        self.tell(Envelope(run=self._run, at=self._clock.now(), event=notice))

    def notify_of(self, branch: str, notice: AnyNotice) -> None:
        """Tell it of a branch, "" for the run itself."""
        self.notify(msgspec.structs.replace(notice, branch=branch) if branch else notice)

    def _tap_failed(self, envelope: Envelope, error: Exception) -> None:
        """Say that the tap raised, unless it raised over hearing just that."""
        if not isinstance(envelope.event, ListenerFailed):
            words = f"{type(error).__name__}: {error}"
            self._complain(ListenerFailed(listener="the tap", error=words))

    def _complain(self, failure: ListenerFailed) -> None:
        """Tell of a listener that raised."""
        # A secret that is cut in two here is beyond what is told.
        error = self._redactor.redacted(readable(failure.error[: 2 * MAX_ERROR]))
        self.notify(msgspec.structs.replace(failure, error=error[:MAX_ERROR]))

    def listeners(self) -> Emitter:
        """Return the emitter, made if there is none."""
        if self._emitter is None:
            self._emitter = Emitter(self._complain)
        return self._emitter
