"""What a run did after a point: facts in, calls and files out."""

from collections.abc import Sequence
from typing import Any

import msgspec
import pytest

from midstream.core import events as e
from midstream.core.notices import Envelope
from midstream.language.names import Effect, Outcome
from midstream.language.spec import Definition, ToolSpec, Workflow
from midstream.views.side_effects import (
    SEEN,
    FileChange,
    MadeCall,
    SideEffects,
    in_words,
    side_effects,
)

EFFECTS: dict[str, Effect] = {
    "look": "read",
    "write": "idempotent",
    "shell": "once",
    "edit": "once",
}


def definition(**effects: Effect) -> Definition:
    return Definition(
        workflow=msgspec.convert({"workflow_name": "w", "states": [{"name": "start"}]}, Workflow),
        roles={},
        tools={
            name: ToolSpec(name=name, description="", parameters={}, effect=effect)
            for name, effect in effects.items()
        },
    )


BEGIN = e.RunStarted(workflow="w", definition=definition(**EFFECTS))


def numbered(facts: Sequence[e.AnyFact]) -> list[Envelope]:
    return [Envelope(run="r", at=1.0, event=fact, seq=seq) for seq, fact in enumerate(facts, 1)]


def called(name: str, id: str = "c1", **arguments: Any) -> e.ToolCalled:
    return e.ToolCalled(call_id=id, name=name, arguments=arguments, agent="dude")


def returned(name: str, id: str = "c1", outcome: Outcome = "completed") -> e.ToolReturned:
    return e.ToolReturned(call_id=id, name=name, outcome=outcome, result="")


def wrote(path: str, before: str | None, after: str | None, id: str = "c1") -> e.FileWritten:
    return e.FileWritten(call_id=id, path=path, before=before, after=after)


def done(*facts: e.AnyFact, after: int = 1) -> SideEffects:
    return side_effects(numbered((BEGIN, *facts)), after)


def test_once_calls_are_named_with_what_they_ran_and_how_they_ended() -> None:
    effects = done(called("shell", command="make all"), returned("shell", outcome="failed"))

    assert effects.calls == (
        MadeCall(
            seq=2,
            call_id="c1",
            name="shell",
            arguments={"command": "make all"},
            outcome="failed",
            command="make all",
        ),
    )
    assert in_words(effects) == ("shell: make all (failed)",)


def test_what_only_reads_did_nothing() -> None:
    assert not done(called("look"), returned("look"))


@pytest.mark.parametrize("outcome", ["denied", "not_run"])
def test_a_call_that_never_ran_did_nothing(outcome: Outcome) -> None:
    assert not done(called("shell"), returned("shell", outcome=outcome))


@pytest.mark.parametrize("outcome", ["completed", "failed", "stopped", "unknown"])
def test_a_call_that_may_have_happened_is_named(outcome: Outcome) -> None:
    assert done(called("shell"), returned("shell", outcome=outcome)).calls[0].outcome == outcome


def test_what_had_ended_by_the_point_is_left_out() -> None:
    effects = done(
        called("shell", "c1"),
        returned("shell", "c1"),
        called("shell", "c2"),
        returned("shell", "c2"),
        after=3,
    )
    assert [call.call_id for call in effects.calls] == ["c2"]


def test_a_call_under_way_at_the_point_counts_with_all_it_wrote() -> None:
    effects = done(called("edit"), wrote("/w/a", "A", "B"), returned("edit"), after=3)

    assert [call.call_id for call in effects.calls] == ["c1"]
    assert effects.files == (FileChange(path="/w/a", before="A", after="B", seq=3),)


def test_a_call_that_has_not_ended_says_so() -> None:
    assert in_words(done(called("shell", command="sleep 9"))) == ("shell: sleep 9 (not ended)",)


def test_a_tool_that_is_not_declared_any_more_may_have_done_anything() -> None:
    assert done(called("gone"), returned("gone")).calls


def test_a_tool_is_what_its_definition_says_at_the_time() -> None:
    changed = e.DefinitionChanged(definition=definition(look="once"))
    effects = done(
        called("look", "c1"),
        returned("look", "c1"),
        changed,
        called("look", "c2"),
        returned("look"),
    )

    assert [call.call_id for call in effects.calls] == ["c2"]


def test_writes_of_one_file_are_one_change_from_the_first_before_to_the_last_after() -> None:
    effects = done(
        called("write", "c1"),
        wrote("/w/a", None, "A", "c1"),
        returned("write", "c1"),
        called("write", "c2"),
        wrote("/w/a", "A", "B", "c2"),
        wrote("/w/b", "X", None, "c2"),
        returned("write", "c2"),
    )

    assert effects.calls == ()
    assert effects.files == (
        FileChange(path="/w/a", before=None, after="B", seq=3, times=2),
        FileChange(path="/w/b", before="X", after=None, seq=7),
    )
    assert in_words(effects, workspace="/w") == ("a: created, 2 writes", "b: removed")


def test_a_file_somebody_else_changed_in_between_says_so() -> None:
    effects = done(
        called("write", "c1"),
        wrote("/w/a", "A", "B", "c1"),
        returned("write", "c1"),
        called("write", "c2"),
        wrote("/w/a", "THEIRS", "C", "c2"),
        returned("write", "c2"),
    )

    assert effects.files[0].is_mixed
    assert in_words(effects) == ("/w/a: changed, 2 writes, changed by others in between",)


def test_a_file_that_is_again_what_it_was_is_no_side_effect() -> None:
    effects = done(
        called("write", "c1"),
        wrote("/w/a", "A", "B", "c1"),
        returned("write", "c1"),
        called("write", "c2"),
        wrote("/w/a", "B", "A", "c2"),
        returned("write", "c2"),
    )

    assert not effects


@pytest.mark.parametrize("outcome", ["stopped", "failed", "unknown", None])
def test_a_write_that_may_not_have_been_made_says_what_else_the_file_may_hold(
    outcome: Outcome | None,
) -> None:
    effects = done(
        called("write", "c1"),
        wrote("/w/a", "A", "B", "c1"),
        returned("write", "c1"),
        called("write", "c2"),
        wrote("/w/a", "B", "A", "c2"),
        *(() if outcome is None else (returned("write", "c2", outcome),)),
    )

    assert effects.files == (
        FileChange(path="/w/a", before="A", after="A", seq=3, times=2, or_else=("B",)),
    )


def test_a_completed_edit_is_told_by_its_file_alone_and_a_doubtful_one_is_not() -> None:
    good = done(called("edit"), wrote("/w/a", "A", "B"), returned("edit"))
    bad = done(called("edit"), wrote("/w/a", "A", "B"), returned("edit", outcome="unknown"))

    assert in_words(good) == ("/w/a: changed",)
    assert in_words(bad) == ("edit: {} (unknown)", "/w/a: changed")


def test_words_stay_on_one_line_and_say_what_was_cut() -> None:
    (words,) = in_words(done(called("shell", command="echo a\n" + "b" * 1_000), returned("shell")))

    assert "\n" not in words
    assert words.endswith("b [+707 characters] (completed)")


def test_a_path_is_short_only_below_the_workspace() -> None:
    effects = done(called("write"), wrote("/work-old/a", "A", "B"), returned("write"))

    assert in_words(effects, workspace="/work") == ("/work-old/a: changed",)


def test_the_folders_of_all_writes_of_a_file_are_those_that_were_made_for_it() -> None:
    first = wrote("/w/p/s/a", None, "A")
    again = wrote("/w/p/s/a", None, "B", id="c2")  # somebody had removed it all in between
    effects = done(
        called("write"),
        msgspec.structs.replace(first, folders=("/w/p/s",)),
        returned("write"),
        called("write", id="c2"),
        msgspec.structs.replace(again, folders=("/w/p", "/w/p/s")),
        returned("write", id="c2"),
    )

    (change,) = effects.files
    assert sorted(change.folders) == ["/w/p", "/w/p/s"]


def test_a_worktree_that_was_opened_is_told_only_if_that_went_wrong() -> None:
    opened = done(called("open_worktree"), returned("open_worktree", outcome="completed"))
    failed = done(called("open_worktree"), returned("open_worktree", outcome="failed"))

    assert in_words(opened) == ()
    assert in_words(failed) == ("open_worktree: {} (failed)",)


def test_what_an_external_agent_did_to_files_itself_is_told_by_the_look_at_them() -> None:
    def theirs(id: str, kind: str, **arguments: Any) -> e.ToolCalled:
        return e.ToolCalled(call_id=id, name=kind, arguments=arguments, agent="a", external="once")

    effects = done(
        theirs("x1", "edit", title="Write a.py", paths=["/w/a.py"]),
        returned("edit", "x1"),
        theirs("x2", "edit", title="Write .hidden/b.py", paths=["/w/.hidden/b.py"]),
        returned("edit", "x2"),
        theirs("x3", "execute", title="make", command="make", paths=["/w/a.py"]),
        returned("execute", "x3"),
        wrote("/w/a.py", "aa", "bb", SEEN),
    )

    assert in_words(effects) == (
        'edit: {"title":"Write .hidden/b.py","paths":["/w/.hidden/b.py"]} (completed)',
        "execute: make (completed)",
        "/w/a.py: changed",
    )
