"""Questions under the keys: the list or the form of the marked one, and what a key does to it. No IO.

Nothing is taken away from the line. Arrows mark a choice only while the line is empty and the card has
been on the screen for a while; what is typed marks one by meaning it. A form is filled in only once
Enter on an empty line has opened it, or lines would go where nobody saw them go. It keeps what it
holds when it is left; when its question closes meanwhile, what is being typed stays typed.
"""

from collections.abc import Sequence

import msgspec

from midstream.core.question import Question
from midstream.core.run_data import as_text
from midstream.tui.choice_list import Choosing, choices_of
from midstream.tui.form import Form, form_of
from midstream.tui.on_screen import OnScreen


class Answered(msgspec.Struct, frozen=True, kw_only=True):
    """An answer a person has made: `text` for the session, `echo` for the screen."""

    question: str
    text: str
    echo: str


class Step(msgspec.Struct, frozen=True, kw_only=True):
    """What a key came to. `line` is what the editor holds then, None: as it is.

    `says` is to be told, `answer` to be delivered.
    """

    line: str | None = None
    says: str = ""
    answer: Answered | None = None


class Answering:
    """The lists and forms of the open questions. Times are the loop's, in seconds.

    `filling` is the id of the question whose form is open under the line, "" for none; `is_closed`:
    nobody asks it any more. `let_go` are the numbers of questions that closed while their form was left
    with something in it, and what that was, in a line; whoever gives it back takes it from there.
    """

    def __init__(self, on_screen: OnScreen | None = None) -> None:
        """Make one. `on_screen` knows since when the questions' cards have been there, by their ids."""
        self.on_screen = on_screen or OnScreen()
        self.filling = ""
        self.is_closed = False
        self.let_go: list[tuple[int, str]] = []
        self._lists: dict[str, Choosing] = {}
        self._forms: dict[str, Form] = {}
        self._arrived = 0.0
        self._sending = ""

    # --- what there is ------------------------------------------------------------------------

    def keep_to(self, questions: Sequence[Question]) -> None:
        """Forget what is about questions nobody asks any more; an open form is kept until it is left."""
        ids = {question.id for question in questions}
        self.is_closed = bool(self.filling) and self.filling not in ids
        self.let_go += [
            (form.number, form.one_line())
            for id, form in self._forms.items()
            if form.is_touched and id not in ids and id not in (self.filling, self._sending)
        ]
        for memory in (self._lists, self._forms):
            for id in [id for id in memory if id not in ids and id != self.filling]:
                del memory[id]

    def list_of(self, question: Question, text: str = "") -> Choosing | None:
        """Return the list a question is answered from, as `text` in the line means it."""
        found = self._lists.get(question.id) or choices_of(question)
        return None if found is None else found.meant(text)

    @property
    def form(self) -> Form | None:
        """Return the form that is open."""
        return self._forms.get(self.filling)

    def field_list(self, text: str = "") -> Choosing | None:
        """Return the list the field of the open form is chosen from, as `text` means it."""
        form = self.form
        if form is None or form.choices is None:
            return None
        return (self._lists.get(form.question) or form.choices).meant(text)

    def begun(self, question: Question) -> Form | None:
        """Return the form of a question that was left with something in it, None if it was not."""
        form = self._forms.get(question.id)
        return form if form is not None and form.is_touched else None

    def number(self) -> int:
        """Return the number of the question whose form is open."""
        return 0 if self.form is None else self.form.number

    # --- keys -----------------------------------------------------------------------------------

    def enter(self, question: Question | None, text: str, *, now: float) -> Step | None:
        """Take Enter; None: it is none of ours. `question` is the marked one."""
        if self.filling:
            return self._enter_form(text, now)
        if question is None or text.strip() or self._sending == question.id:
            return None
        chosen = self._lists.get(question.id)
        if chosen is not None and chosen.is_made:
            self._sending = question.id
            return Step(answer=self.chosen(question, chosen))
        if not self.on_screen.is_fresh(question.id, now=now):
            return None
        return self._open(question, now)

    def arrow(self, question: Question | None, text: str, step: int, *, now: float) -> Step | None:
        """Take Up (-1) or Down (1); None: it is none of ours."""
        if self.filling:
            return self._arrow_form(text, step, now)
        if question is None or text or not self.on_screen.is_fresh(question.id, now=now):
            return None
        found = self.list_of(question)
        if found is None:
            return None
        self._lists[question.id] = found.moved(step)
        return Step()

    def marks(self, question: Question | None) -> bool:
        """Return whether a choice of a question's list is marked by an arrow, or picked."""
        found = None if question is None else self._lists.get(question.id)
        return found is not None and found.is_made

    def picks(self, question: Question | None) -> bool:
        """Return whether Space picks a choice now."""
        found = self._marked(question)
        return found is not None and found.many and found.at is not None

    def pick(self, question: Question | None) -> None:
        """Pick the marked choice, or no more."""
        found = self._marked(question)
        if found is not None:
            self._lists[self.filling or (question.id if question else "")] = found.toggled()

    def leave(self, text: str) -> Step:
        """Leave the form, all of it kept; of one whose question is closed, only the line."""
        form, was_closed = self.form, self.is_closed
        if form is not None and not was_closed:
            self._forms[self.filling] = form.left(text)
        self._lists.pop(self.filling, None)
        self.filling, self.is_closed = "", False
        return Step() if was_closed else Step(line="")

    def unmark(self, question: Question | None) -> None:
        """Mark nothing in a question's list any more."""
        if question is not None:
            self._lists.pop(question.id, None)

    # --- what came of an answer -----------------------------------------------------------------

    def sent(self, question: str, reason: str = "") -> bool:
        """Take note of what became of an answer, `reason` why it did not fit.

        Returns:
            Whether the form says so itself.
        """
        self._sending = ""
        form = self._forms.get(question)
        if not reason:
            self._lists.pop(question, None)
            self._forms.pop(question, None)
            if self.filling == question:
                self.filling, self.is_closed = "", False
            return False
        if form is None or self.filling != question or self.is_closed:
            return False
        self._forms[question] = form.refused(reason)
        return True

    # --- inside ---------------------------------------------------------------------------------

    def _marked(self, question: Question | None) -> Choosing | None:
        if self.filling:
            return self.field_list()
        return None if question is None else self._lists.get(question.id)

    def chosen(self, question: Question, chosen: Choosing) -> Answered:
        """Return the answer that is chosen in a question's list."""
        is_text = bool(question.choices) or (question.schema or {}).get("type") == "string"
        text = as_text(chosen.value) if is_text else _json(chosen.value)
        echo = f"#{question.number} {chosen.label}" if question.number else chosen.label
        return Answered(question=question.id, text=text, echo=echo)

    def _open(self, question: Question, now: float) -> Step | None:
        form = self._forms.get(question.id) or form_of(question)
        if form is None:
            return None
        self._forms[question.id] = form
        self.filling, self.is_closed, self._arrived = question.id, False, now
        self._lists.pop(question.id, None)
        return Step(line=form.line)

    def _enter_form(self, text: str, now: float) -> Step:
        if self.is_closed:
            number = self.number()
            self.leave(text)
            rest = " What you typed stays in the line." if text.strip() else ""
            return Step(says=f"#{number} is closed already.{rest}")
        form = self.form
        if form is None or self._sending == self.filling:
            return Step()
        if form.field is None:
            return self._finish(form, text, now)
        chosen = self._lists.get(self.filling)
        if not text.strip() and chosen is not None and chosen.is_made:
            return self._come_to(form.chose(chosen.value), now)
        return self._come_to(form.entered(text), now, typed=text)

    def _come_to(self, form: Form, now: float, *, typed: str = "") -> Step:
        """Go on with the form as it is now; a line that does not fit stays in the editor."""
        assert self.form is not None
        has_moved = form.at != self.form.at
        self._forms[self.filling] = form
        if not has_moved:
            return Step(line=typed)
        self._lists.pop(self.filling, None)
        self._arrived = now
        if form.field is None and len(form.asked) == 1:
            return self._send(form)
        return Step(line=form.line)

    def _finish(self, form: Form, text: str, now: float) -> Step:
        if text.strip():
            problem = "Enter on an empty line sends it, Up goes back."
            self._forms[self.filling] = msgspec.structs.replace(form, problem=problem)
            return Step()
        # An Enter that is held down does not send what nobody has looked at.
        return self._send(form) if now - self._arrived >= self.on_screen.fresh_s else Step()

    def _send(self, form: Form) -> Step:
        self._sending = form.question
        number = self.number()
        words = form.one_line() or "nothing"
        echo = f"#{number} {words}" if number else words
        answer = Answered(question=form.question, text=_json(form.values), echo=echo)
        return Step(line="", answer=answer)

    def _arrow_form(self, text: str, step: int, now: float) -> Step | None:
        form = self.form
        if form is None or self.is_closed:
            return None
        found = self.field_list()
        if found is not None and not text:
            moved = found.moved(step)
            leaves = step < 0 and not found.at and form.at > 0
            if not leaves:
                self._lists[self.filling] = moved
                return Step()
        after = form.back(text) if step < 0 else form.forth(text)
        return self._come_to(after, now, typed=text)


def _json(value: object) -> str:
    return msgspec.json.encode(value).decode()
