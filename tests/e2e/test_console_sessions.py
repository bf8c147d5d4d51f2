"""Chats that persist: going on with one, their list, their names, a long one made short."""

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from deadline import DEADLINE_S
from scene_kit import Listener, Scene, scene
from support.memory_pool import MemoryPool

from midstream.app.agents_file_draft import template_for
from midstream.app.chats import Chats, GoesOn
from midstream.core import events as e
from midstream.core.conversation import SUMMARY
from midstream.language.errors import UserMistake
from midstream.runtime.storage import KeptRun
from midstream.store.memory import MemoryStore
from midstream.testing.fakes import FakeTool, FakeTools, Gate, Line, Scripted, call, calls, says
from midstream.views.listing import Summary

NEWEST = GoesOn(is_newest=True)
LONG = "word " * 200


async def said(made: Scene, *lines: str) -> None:
    """Say lines, each once the one before is answered."""
    for line in lines:
        await made.type(line)
        active = made.session.active()
        assert active is not None
        await active.settled()


async def two_chats(home: Path, store: MemoryStore) -> None:
    """Keep a chat about fish, called zoo, and one about birds after it."""
    async with scene(home, "They swim.", "They fly.", store=store.beside()) as made:
        await said(made, "tell me about fish")
        await made.type("/rename zoo")
        made.clock.jump(5)
        await made.type("/clear")
        await said(made, "and about birds")


def heard(made: Scene) -> list[str]:
    """Return what the model was sent last, message by message."""
    return [message.text for message in made.model.requests[-1].messages]


# --- going on -------------------------------------------------------------------------------------


async def test_continue_goes_on_with_the_newest_chat_and_shows_where_it_was(tmp_path: Path) -> None:
    store = MemoryStore()
    await two_chats(tmp_path, store)

    async with scene(tmp_path, "Far.", store=store.beside(), goes_on=NEWEST) as made:
        assert made.ui.said[:2] == ["and about birds", "They fly."]
        assert made.ui.said[2] == "Chat with dude: waiting for your words"
        await said(made, "how far?")
        assert heard(made) == ["and about birds", "They fly.", "how far?"]
        assert made.ui.of(e.RunStarted) == []


async def test_continue_without_an_earlier_chat_says_so_and_begins_a_new_one(
    tmp_path: Path,
) -> None:
    async with scene(tmp_path, "Hello.", goes_on=NEWEST) as made:
        assert made.ui.said == ["There is no earlier chat in this folder: a new one begins."]
        await said(made, "hi")
        assert heard(made) == ["hi"]


async def test_continue_leaves_a_chat_alone_that_another_console_has(tmp_path: Path) -> None:
    store = MemoryStore()
    async with scene(tmp_path, "Hello.", store=store.beside()) as first:
        await said(first, "hi")
        async with scene(tmp_path, store=store.beside(), goes_on=NEWEST) as second:
            assert "“hi” is open in another console (/attach " in second.ui.said[0]
            assert second.ui.said[0].endswith("joins it): a new chat begins.")


@pytest.mark.parametrize("goes_on", [NEWEST, GoesOn(which="1")])
async def test_a_chat_goes_on_whose_console_seems_to_live_and_gives_no_answer(
    tmp_path: Path, goes_on: GoesOn
) -> None:
    pool = MemoryPool()
    killed = pool.beside()
    async with scene(tmp_path, "Hello.", store=killed) as first:
        await said(first, "hi")
        killed.is_silent = True
        async with scene(tmp_path, "Yes?", store=pool.beside(), goes_on=goes_on) as second:
            await said(second, "are you there?")
            assert heard(second) == ["hi", "Hello.", "are you there?"]
            assert second.ui.of(e.RunStarted) == []


async def test_a_chat_that_was_left_in_mid_turn_is_not_told_of_when_it_is_gone_on_with(
    tmp_path: Path,
) -> None:
    store = MemoryStore()
    async with scene(tmp_path, says("Once upon ", gate=Gate()), store=store.beside()) as first:
        await first.type("tell me a story")
        await first.thinking()

    async with scene(tmp_path, store=store.beside()) as made:
        assert [line for line in made.ui.said if "was left" in line]
    async with scene(tmp_path, "The end.", store=store.beside(), goes_on=NEWEST) as made:
        assert not [line for line in made.ui.said if "was left" in line]


@pytest.mark.parametrize("which", ["zoo", "ZO"])
async def test_resume_goes_on_with_a_chat_by_its_name(tmp_path: Path, which: str) -> None:
    store = MemoryStore()
    await two_chats(tmp_path, store)

    goes_on = GoesOn(which=which)
    async with scene(tmp_path, "Deep.", store=store.beside(), goes_on=goes_on) as made:
        assert made.ui.said[:2] == ["tell me about fish", "They swim."]


async def test_several_chats_that_were_left_in_mid_turn_are_told_in_one_line(
    tmp_path: Path,
) -> None:
    store = MemoryStore()
    for words in ("tell me a story", "and another"):
        async with scene(tmp_path, says("Once ", gate=Gate()), store=store.beside()) as made:
            await made.type(words)
            await made.thinking()

    async with scene(tmp_path, store=store.beside()) as made:
        told = "2 chats were left or cut off in mid-turn: /sessions lists them."
        assert [line for line in made.ui.said if "left" in line] == [told]
        await made.type("/sessions")
        assert made.ui.said[-1].count("left in mid-turn") == 2


async def test_who_goes_on_with_one_of_them_is_told_of_the_other(tmp_path: Path) -> None:
    store = MemoryStore()
    words = ("tell me a story", "and another")
    for each in words:
        async with scene(tmp_path, says("Once ", gate=Gate()), store=store.beside()) as made:
            await made.type(each)
            await made.thinking()

    async with scene(tmp_path, store=store.beside(), goes_on=NEWEST) as made:
        (other,) = {*words} - {made.ui.said[0]}
        (told,) = [line for line in made.ui.said if "was left" in line]
        assert f"role:dude ({other}): was left: /resume " in told


async def test_resume_with_an_unknown_name_says_so_and_begins_a_new_chat(tmp_path: Path) -> None:
    store = MemoryStore()
    await two_chats(tmp_path, store)
    goes_on = GoesOn(which="nobody")
    async with scene(tmp_path, "Hello.", store=store.beside(), goes_on=goes_on) as made:
        assert "No chat of this folder matches 'nobody'." in made.ui.said[0]
        await said(made, "hi")
        assert heard(made) == ["hi"]


class Listed:
    """The runs of a workspace as a list, which none of them leaves."""

    def __init__(self, *ids: str) -> None:
        self.gone_to: list[str] = []
        self._kept = tuple(
            KeptRun(
                id=id,
                seq=1,
                summary=Summary(kind="chat", workflow="role:dude", first="hi", updated_at=-at),
            )
            for at, id in enumerate(ids)
        )

    @property
    def runs(self) -> "Listed":
        """Return these."""
        return self

    async def walk(self, **wanted: Any) -> AsyncIterator[KeptRun]:
        """Yield the runs."""
        for kept in self._kept:
            yield kept

    async def matching(self, text: str) -> list[KeptRun]:
        """Return the runs whose id begins so."""
        return [kept for kept in self._kept if kept.id.startswith(text)]

    @property
    def ui(self) -> Listener:
        """Return one that nobody looks at."""
        return Listener()

    def active(self) -> None:
        """Return no run."""

    def short(self, id: str) -> str:
        """Return the whole id."""
        return id

    async def listed(self) -> tuple[KeptRun, ...]:
        """Return the runs."""
        return self._kept

    async def owner(self, kept: KeptRun) -> str:
        return kept.owner

    async def resume(self, id: str) -> None:
        """Remember where one went."""
        self.gone_to.append(id)


@pytest.mark.parametrize(
    ("which", "id"), [("2", "abcd"), ("23", "23wx"), ("2x", "2xyz"), ("3", "23wx")]
)
async def test_a_number_of_the_list_goes_before_an_id_that_begins_so(which: str, id: str) -> None:
    runs: Any = Listed("2xyz", "abcd", "23wx")
    chats = Chats(runs, runs)
    async with asyncio.timeout(DEADLINE_S):
        await chats.go(which)

    assert runs.gone_to == [id]


async def test_a_number_that_is_neither_says_which_numbers_there_are() -> None:
    runs: Any = Listed("2xyz", "abcd", "23wx")
    chats = Chats(runs, runs)
    async with asyncio.timeout(DEADLINE_S):
        with pytest.raises(UserMistake) as refused:
            await chats.go("7")

    assert refused.value.what == "No chat of this folder matches '7'."
    hint = "/sessions lists them. 1 to 3 are numbers in that list; others start an id."
    assert refused.value.hint == hint


async def test_resume_without_a_name_lets_the_next_line_choose(tmp_path: Path) -> None:
    store = MemoryStore()
    await two_chats(tmp_path, store)

    async with scene(tmp_path, "Deep.", store=store.beside(), goes_on=GoesOn()) as made:
        listed = made.ui.said[0].splitlines()
        assert "and about birds" in listed[0]
        assert "zoo" in listed[1]
        assert made.console.status().enter.startswith("chooses a chat")
        back = await made.type("nobody")
        assert (back.kind, "'nobody'" in back.reason) == ("returned", True)
        assert (await made.type("2")).kind == "taken"
        assert "They swim." in made.ui.said
        await said(made, "how deep?")
        assert heard(made)[0] == "tell me about fish"


async def test_escape_chooses_none_of_them(tmp_path: Path) -> None:
    store = MemoryStore()
    await two_chats(tmp_path, store)
    async with scene(tmp_path, "Hello.", store=store.beside(), goes_on=GoesOn()) as made:
        await made.console.halt()
        await said(made, "2")
        assert heard(made) == ["2"]


async def test_a_name_of_several_words_is_gone_to_and_may_be_followed_by_a_choice(
    tmp_path: Path,
) -> None:
    store = MemoryStore()
    async with scene(tmp_path, "They swim.", store=store.beside()) as made:
        await said(made, "tell me about fish")
        await made.type("/rename zoo of mine")
        await made.type("/clear")
        await made.type("/resume zoo of mine")
        assert made.ui.said[-1].endswith("waiting for your words")
        await made.type("/clear")
        await made.type("/resume zoo of mine new")
        assert made.session.active() is not None
        assert "not old, new or stop" in (await made.type("/resume zoo off")).reason


# --- the list -------------------------------------------------------------------------------------


async def test_sessions_lists_chats_with_names_words_turns_and_where_they_are(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "100")
    store = MemoryStore()
    await two_chats(tmp_path, store)
    async with scene(tmp_path, "Deep.", store=store.beside(), goes_on=GoesOn(which="zoo")) as made:
        await made.type("/sessions")
        rows = made.ui.said[-1].splitlines()
    marks = {("zoo" in row, "›" in row, "1 turn" in row, "open here" in row) for row in rows}
    assert marks == {(True, True, True, True), (False, False, True, False)}


async def test_a_chat_that_was_gone_back_in_is_listed_once(tmp_path: Path) -> None:
    store = MemoryStore()
    async with scene(tmp_path, "Hello.", "Again.", "Anew.", store=store.beside()) as made:
        await said(made, "hi")
        await made.type("/undo")
        await made.type("/redo")
        await said(made, "and now?")
        await made.type("/sessions")

        listed = made.ui.said[-1]
        assert "› 1 hi" in listed
        assert listed.count("turn") == 1
        assert listed.endswith("There are stopped ones: midstream runs lists them.")


async def test_undo_of_words_that_cut_a_reply_asks_nothing_before_it_is_wanted(
    tmp_path: Path,
) -> None:
    gate = Gate()
    script = (says("Once", gate=gate, after=0), "In short.", "Once more.")
    async with scene(tmp_path, *script) as made:
        await made.type("tell me all")
        await gate.reached()
        await said(made, "in short, please")
        await made.type("/undo")
        active = made.session.active()
        assert active is not None
        await active.settled()
        assert (active.run.visit.phase, len(made.model.requests)) == ("held", 2)

        await made.type("/redo")
        forward = made.session.active()
        assert forward is not None
        assert forward.run.visit.phase == "waiting"
        await made.type("/undo")
        active = made.session.active()
        assert active is not None
        await active.unsuspend()
        await active.settled()
        assert (active.run.visit.phase, len(made.model.requests)) == ("waiting", 3)
        assert made.model.requests[-1].messages[-1].text == "tell me all"


async def test_sessions_goes_to_one_and_back_and_each_keeps_its_own_words(tmp_path: Path) -> None:
    store = MemoryStore()
    await two_chats(tmp_path, store)
    async with scene(tmp_path, "Deep.", "High.", store=store.beside(), goes_on=NEWEST) as made:
        await made.type("/sessions zoo")
        await said(made, "how deep?")
        assert heard(made)[0] == "tell me about fish"
        await made.type("/sessions")
        number = next(
            row.split()[0].lstrip("›") or row.split()[1]
            for row in made.ui.said[-1].splitlines()
            if "birds" in row
        )
        await made.type(f"/sessions {number}")
        await said(made, "how high?")
        assert heard(made)[0] == "and about birds"


async def test_clear_leaves_the_chat_as_it_is_for_later(tmp_path: Path) -> None:
    async with scene(tmp_path, "Hello.", "Again.", "Back.") as made:
        await said(made, "hi")
        first = made.session.active()
        await made.type("/clear")
        await said(made, "anew")
        assert heard(made) == ["anew"]
        assert made.ui.of(e.RunStopped) == []
        assert first is not None
        await made.type(f"/resume {first.run.id}")
        await said(made, "and?")
        assert heard(made) == ["hi", "Hello.", "and?"]


async def test_clear_in_mid_turn_holds_the_chat_it_leaves(tmp_path: Path) -> None:
    async with scene(tmp_path, says("Once upon ", gate=Gate()), "New.") as made:
        await made.type("tell me a story")
        await made.thinking()
        first = made.session.active()
        await made.type("/clear")
        await said(made, "hello")
        assert first is not None
        assert first.run.visit.phase == "held"


# --- names ----------------------------------------------------------------------------------------


async def test_a_name_survives_and_is_shown_with_the_run(tmp_path: Path) -> None:
    store = MemoryStore()
    await two_chats(tmp_path, store)
    async with scene(tmp_path, store=store.beside()) as later:
        await later.type("/runs")
        assert "“zoo”" in later.ui.said[-1]
        [kept] = [k for k in await store.listing() if k.summary.name]
        assert (kept.summary.name, kept.summary.first) == ("zoo", "tell me about fish")


@pytest.mark.parametrize(
    ("name", "why"),
    [("zoo", "is called 'zoo' already"), ("12", "only digits"), ("x" * 61, "at most 60")],
)
async def test_a_name_that_would_not_do_is_refused(tmp_path: Path, name: str, why: str) -> None:
    store = MemoryStore()
    await two_chats(tmp_path, store)
    async with scene(tmp_path, store=store.beside(), goes_on=NEWEST) as made:
        back = await made.type(f"/rename {name}")
        assert back.kind == "returned"
        assert why in back.reason


async def test_rename_alone_says_the_name_and_only_a_dash_removes_it(tmp_path: Path) -> None:
    async with scene(tmp_path, "They swim.") as made:
        await said(made, "tell me about fish")
        for line in ("/rename", "/rename -"):
            assert "has no name yet" in (await made.type(line)).reason
        await made.type("/rename zoo")
        await made.type("/rename")
        [machine] = made.engine.machines()
        assert machine.run.name == "zoo"
        assert made.ui.said[-1].startswith("It is called “zoo”: ")
        await made.type("/rename -")
        assert machine.run.name == ""


async def test_before_the_first_line_there_is_nothing_to_name_or_compact(tmp_path: Path) -> None:
    async with scene(tmp_path) as made:
        for line in ("/rename zoo", "/compact"):
            assert "Nothing has been said" in (await made.type(line)).reason


# --- compacting -----------------------------------------------------------------------------------


async def long_chat(made: Scene) -> None:
    await said(made, "one", "two", "three", "four")


async def test_compact_lets_the_next_turn_be_answered_from_the_summary(tmp_path: Path) -> None:
    replies = [f"answer {LONG}"] * 4
    async with scene(tmp_path, *replies, "They counted.", "Five.") as made:
        await long_chat(made)
        await made.type("/compact the numbers")
        await made.ui.until("conversation_compacted")
        asked = made.model.requests[-1]
        assert asked.tools == ()
        assert "keep in mind: the numbers" in asked.messages[0].text
        await said(made, "five")
        assert made.model.requests[-1].messages[0].author == SUMMARY
        assert "They counted." in heard(made)[0]
        assert heard(made)[-1] == "five"
        assert len(heard(made)) == 6


async def test_compact_is_interrupted_by_escape_and_by_words(tmp_path: Path) -> None:
    replies = [f"answer {LONG}"] * 4
    gates = (Gate(), Gate())
    async with scene(
        tmp_path, *replies, says("a", gate=gates[0]), says("b", gate=gates[1]), "Five."
    ) as made:
        await long_chat(made)
        await made.type("/compact")
        assert made.console.status().enter.startswith("ends the summary")
        assert made.console.status().busy
        await made.console.halt()
        await made.type("/compact")
        await said(made, "five")
        assert [fact.reason for fact in made.ui.of(e.CompactionEnded)] == ["interrupted"] * 2
        assert made.ui.of(e.ConversationCompacted) == []
        assert heard(made)[0] == "one"


async def test_queued_words_wait_for_the_summary(tmp_path: Path) -> None:
    replies = [f"answer {LONG}"] * 4
    gate = Gate()
    async with scene(tmp_path, *replies, says("They counted.", gate=gate), "Five.") as made:
        await long_chat(made)
        await made.type("/compact")
        await made.type("/queue five")
        gate.open()
        active = made.session.active()
        assert active is not None
        await active.settled()
        assert heard(made)[-1] == "five"
        assert "They counted." in heard(made)[0]


async def test_what_is_too_short_to_compact_says_so(tmp_path: Path) -> None:
    async with scene(tmp_path, "Hello.") as made:
        await said(made, "hi")
        back = await made.type("/compact")
        assert back.reason == "Nothing was compacted: nothing is older than the last turns."


async def test_a_console_that_dies_in_the_middle_of_it_leaves_the_old_conversation_whole(
    tmp_path: Path,
) -> None:
    store = MemoryStore()
    replies = [f"answer {LONG}"] * 4
    async with scene(tmp_path, *replies, says("half", gate=Gate()), store=store.beside()) as made:
        await long_chat(made)
        await made.type("/compact")
        await asyncio.sleep(0)
    async with scene(tmp_path, "They counted.", store=store.beside(), goes_on=NEWEST) as later:
        await later.ui.until("conversation_compacted")
        assert len(later.ui.of(e.RunRecovered)) == 1
        active = later.session.active()
        assert active is not None
        assert active.run.contexts["chat"][0].author == SUMMARY


async def test_a_conversation_near_the_models_window_is_told_of_once(tmp_path: Path) -> None:
    used = e.Usage(model="scripted", input_tokens=80_000, output_tokens=500)
    async with scene(
        tmp_path, *(Scripted(pieces=(words,), usage=used) for words in ("One.", "Two.", "Three."))
    ) as made:
        await said(made, "one", "two", "three")
        await made.ui.told("/compact")
        full = [words for words in made.ui.said if "/compact" in words]
        assert len(full) == 1
        assert "fills 80 %" in full[0]


def answer(words: str, *, used: int) -> Scripted:
    return Scripted(pieces=(words,), usage=e.Usage(model="scripted", input_tokens=used))


async def test_a_conversation_that_is_nearly_full_is_compacted_unasked(tmp_path: Path) -> None:
    early = [f"answer {LONG}"] * 3
    full = answer(f"answer {LONG}", used=93_000)
    async with scene(tmp_path, *early, full, "They counted.", "Five.") as made:
        await long_chat(made)
        await made.ui.until("conversation_compacted")
        assert any("fills 93 %" in words and "summarised" in words for words in made.ui.said)
        await said(made, "five")
        assert "They counted." in heard(made)[0]


async def test_where_compacting_unasked_is_off_a_line_says_how_full_it_is(tmp_path: Path) -> None:
    early = [f"answer {LONG}"] * 3
    (tmp_path / "application.json").write_text('{"autoCompact": false}')
    async with scene(tmp_path, *early, answer(f"answer {LONG}", used=93_000), "Five.") as made:
        await long_chat(made)
        await made.ui.told("/compact")
        await said(made, "five")
        assert heard(made)[0] == "one"


async def test_a_nearly_full_one_with_nothing_old_enough_is_told_of(tmp_path: Path) -> None:
    async with scene(tmp_path, answer("One.", used=93_000)) as made:
        await said(made, "one")
        await made.ui.told("/compact")
        assert "fills 93 %" in made.ui.said[-1]


async def test_a_summary_that_comes_to_nothing_is_not_asked_for_after_every_reply(
    tmp_path: Path,
) -> None:
    early, full = [f"answer {LONG}"] * 3, answer(f"answer {LONG}", used=93_000)
    later = [answer("Hm.", used=94_000)] * 2
    async with scene(tmp_path, *early, full, "", *later) as made:
        await long_chat(made)
        await made.ui.until("compaction_ended")
        await said(made, "five", "six")
        await made.ui.told("/compact")
        assert len(made.ui.of(e.CompactionEnded)) == 1


# --- init -----------------------------------------------------------------------------------------


async def test_init_asks_a_role_for_code_to_write_it(tmp_path: Path) -> None:
    async with scene(tmp_path, "Done.") as made:
        await made.type("/init mind the tests")
        active = made.session.active()
        assert active is not None
        await active.settled()
        assert str(made.session.switching.mode) == "role:coder"
        assert "AGENTS.md" in heard(made)[-1]
        assert heard(made)[-1].endswith("mind the tests")


def test_a_plain_agents_file_says_what_the_folder_shows(tmp_path: Path) -> None:
    (tmp_path / "src").mkdir()
    (tmp_path / "src" / "a.py").write_text("")
    (tmp_path / "node_modules").mkdir()
    (tmp_path / "node_modules" / "b.js").write_text("")
    (tmp_path / "Makefile").write_text("check: lint\n\t@true\nlint:\nX := 3\n.PHONY: check\n")
    (tmp_path / "package.json").write_text('{"scripts": {"build": "x"}, "description": "A thing"}')
    (tmp_path / "pyproject.toml").write_text("[tool.ruff]\nline-length = 3\n")
    text = template_for(tmp_path)

    assert "Python (1)" in text
    assert "JavaScript" not in text
    assert "- `src/` (1 file)" in text
    assert [line for line in text.splitlines() if line.startswith("- `m")] == [
        "- `make check`",
        "- `make lint`",
    ]
    assert "- `npm run build`" in text
    assert "- `ruff check`" in text
    assert "A thing" in text


def test_a_plain_agents_file_of_broken_files_is_still_one(tmp_path: Path) -> None:
    (tmp_path / "pyproject.toml").write_text("[[[")
    (tmp_path / "package.json").write_text("{")
    (tmp_path / "Makefile").mkdir()
    assert "None were found" in template_for(tmp_path)


# --- what is not asked, and what does not run -----------------------------------------------------


async def test_a_numbered_answer_to_nothing_and_a_stop_of_nothing_are_told(tmp_path: Path) -> None:
    async with scene(tmp_path, "Hello.") as made:
        await said(made, "hi")
        answered = await made.type("/answer #9 blue")
        assert (answered.kind, answered.reason[:20]) == ("returned", "No question is open.")
        stopped = await made.type("/stop")
        assert (stopped.kind, stopped.reason[:19]) == ("returned", "Nothing is running.")
        assert heard(made) == ["hi"]


async def test_what_goes_on_behind_is_named_by_stop_and_found_by_its_workflow(
    tmp_path: Path,
) -> None:
    async with scene(tmp_path, says("Once upon ", gate=Gate())) as made:
        await made.type("/workflow review")
        await made.thinking()
        review = made.session.active()
        assert review is not None
        await made.type("/detach")

        stopped = await made.type("/stop")

        short = review.run.id[:4]
        assert stopped.reason.startswith(
            f"Nothing is running in front; review ({short}) goes on behind. /attach {short}"
        )
        await made.type("/attach REVIEW")
        assert made.session.active() is review


async def test_chats_without_a_name_are_told_apart_by_their_first_words(tmp_path: Path) -> None:
    async with scene(tmp_path, "They swim.", "They fly.") as made:
        await said(made, "tell me about fish")
        await made.type("/clear")
        await said(made, "and about birds")
        fish, birds = (words for _, words in made.session.background.names()[::-1])
        assert fish == "role:dude (tell me about fish): waiting for your words"
        assert birds == "role:dude (and about birds): waiting for your words"
        assert made.session.chats.names() == made.session.background.names()


def reading(words: str = "One.") -> list[Line]:
    return [calls(call("look")), says(words)]


def large_tool(chars: int) -> FakeTools:
    return FakeTools(FakeTool(name="look", answer="== big.py ==\n" + "x" * chars))


async def test_old_results_give_way_before_a_summary_is_made(tmp_path: Path) -> None:
    script = [*reading(), "Two.", answer("Three.", used=93_000), answer("Four.", used=60_000)]
    async with scene(tmp_path, *script, tools=large_tool(200_000)) as made:
        await said(made, "one", "two", "three")
        await made.ui.until("results_trimmed")
        await said(made, "four")
        assert made.ui.of(e.CompactionBegan) == []
        assert not any("summarised" in words for words in made.ui.said)
        (result,) = made.model.requests[-1].messages[1].results
        assert result.text == (
            "== big.py ==\n[200,001 characters of this result were taken out to make room. "
            "Call look again to see it as it is now.]"
        )
        await made.type("/context")
        assert "1 result, 1 trimmed by 50k" in made.ui.said[-1]


async def test_where_old_results_do_not_free_enough_the_summary_is_made(tmp_path: Path) -> None:
    script = [*reading(), "Two.", answer("Three.", used=93_000), "They counted.", "Four."]
    async with scene(tmp_path, *script, tools=large_tool(20_000)) as made:
        await said(made, "one", "two", "three")
        await made.ui.until("conversation_compacted")
        assert made.ui.of(e.ResultsTrimmed) == []
        assert any("fills 93 %" in words and "summarised" in words for words in made.ui.said)


async def test_where_the_chat_is_full_again_it_is_summarised(tmp_path: Path) -> None:
    script = [*reading(), "Two.", *(answer(f"{n}.", used=93_000) for n in (3, 4))]
    async with scene(tmp_path, *script, "They counted.", tools=large_tool(200_000)) as made:
        await said(made, "one", "two", "three")
        await made.ui.until("results_trimmed")
        await said(made, "four")
        await made.ui.until("conversation_compacted")
        assert len(made.ui.of(e.ResultsTrimmed)) == 1


async def test_where_compacting_unasked_is_off_nothing_is_trimmed(tmp_path: Path) -> None:
    (tmp_path / "application.json").write_text('{"autoCompact": false}')
    script = [*reading(), "Two.", answer("Three.", used=93_000)]
    async with scene(tmp_path, *script, tools=large_tool(200_000)) as made:
        await said(made, "one", "two", "three")
        await made.ui.told("/compact")
        assert made.ui.of(e.ResultsTrimmed) == []
