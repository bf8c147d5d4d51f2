"""What a page does with a run beside talking to it: it answers, decides, halts, goes back."""

import asyncio
import contextlib
from typing import Any

from api_kit import TALK, Place, here
from browser_kit import Page, is_end, items, let_in, page_of, serving

import midstream
from midstream.runtime.ports import ModelReply, ModelRequest, ReplyListener
from midstream.testing import Gate, asks, call, calls, says

__all__ = ["here"]

WRITES = calls(call("write_file", path="a.txt", content="new\n"))


class HeldCall:
    """A model that says it writes a call, and stands before a gate then."""

    def __init__(self, gate: Gate) -> None:
        self.gate = gate

    async def request(self, request: ModelRequest, listener: ReplyListener) -> ModelReply:
        listener.calling("write_file")
        await self.gate.passed()
        return ModelReply(text="", calls=(call("write_file", path="a.txt", content="new\n"),))


async def asked(page: Page, run: str) -> dict[str, Any]:
    """Return the first question a run has open, once it has."""
    async with contextlib.aclosing(page.events(f"/api/runs/{run}/events")) as events:
        async for name, value, _ in events:
            if name == "status" and value["questions"]:
                return dict(value["questions"][0])
    raise AssertionError("it ended before")


async def test_a_yes_is_to_what_was_shown_and_reaches_another_process(here: Place) -> None:
    owner = await here.engine(WRITES, "Done.")
    run = await owner.start(TALK, "write")
    async with page_of(await here.engine()) as page:
        shown = await asked(page, run.id)
        assert "new" in shown["text"]
        path = f"/api/runs/{run.id}/approve"
        other = await page.post(path, question=shown["id"], granted=True, digest="0" * 64)
        assert other.status_code == 409
        assert run.questions
        yes = await page.post(path, question=shown["id"], granted=True, digest=shown["digest"])
        assert yes.status_code == 200
        told = await items(page, run.id, until=is_end)
        late = await page.post(path, question=shown["id"], granted=True, digest=shown["digest"])
        assert late.status_code == 409
    assert (here.workspace / "a.txt").read_text() == "new\n"
    kinds = [item["kind"] for item in told if item["kind"] not in ("note", "state", "output")]
    assert kinds == ["agent", "question", "answered", "tool", "file", "result", "agent", "end"]
    change = next(item for item in told if item["kind"] == "file")
    assert (change["added"], "+new" in change["diff"]) == (1, True)


async def test_a_line_begun_before_a_question_came_is_asked_about(here: Place) -> None:
    engine = await here.engine(asks("Which way?"), "Left it is.")
    run = await engine.start(TALK, "go")
    async with page_of(engine) as page:
        question = await asked(page, run.id)
        path = f"/api/runs/{run.id}"
        will = await page.post(f"{path}/will", text="left")
        assert will.json()["sentence"] == "Enter asks whether it answers #1"
        unclear = await page.post(f"{path}/say", text="left", id="a")
        assert unclear.status_code == 409
        assert unclear.json()["choices"] == ["answer", "say"]
        seen = [question["id"]]
        will = await page.post(f"{path}/will", text="left", seen=seen)
        assert will.json()["sentence"] == "Enter answers #1"
        said = {"text": "left", "id": "a", "as": "answer", "question": question["id"]}
        assert (await page.post(f"{path}/say", **said)).json()["handling"] == "answer"
        await run.wait()


async def test_unasked_words_halt_and_what_streamed_comes_with_them(here: Place) -> None:
    gate = Gate()
    engine = await here.engine(says("Once upon", " a time.", gate=gate, after=1), "Otherwise.")
    run = await engine.start(TALK, "tell")
    async with page_of(engine) as page:
        await gate.reached()
        events = page.events(f"/api/runs/{run.id}/events")
        deltas = ""
        async with contextlib.aclosing(events):
            async for name, value, _ in events:
                if name == "delta":
                    deltas += value["text"]
                    assert value["so_far"] is (deltas == value["text"])
                if deltas == "Once upon":
                    break
        said = await page.post(f"/api/runs/{run.id}/say", text="no, rename", id="n")
        assert said.json()["handling"] == "interrupt"
        told = await items(page, run.id, until=is_end)
        cut = [item for item in told if item["kind"] == "cut"]
        assert [item["text"] for item in cut] == ["Once upon"]
        words = next(item for item in told if item["kind"] == "user")
        assert (words["source"], words["input_id"]) == ("web", "n")


async def test_a_page_is_told_which_call_a_reply_is_writing_until_it_is_there(here: Place) -> None:
    gate = Gate()
    opening = midstream.open(here.workspace, model=HeldCall(gate), journal=here.journal)
    here.engines.append(engine := await opening)
    run = await engine.start(TALK, "make it")
    async with page_of(engine) as page:
        await gate.reached()
        told: list[Any] = []
        async with contextlib.aclosing(page.events(f"/api/runs/{run.id}/events")) as events:
            async for name, value, _ in events:
                if name == "delta":
                    told.append(value)
                    gate.open()
                elif name == "item" and value["kind"] == "agent":
                    break
    assert [each["text"] for each in told] == ["write_file"]
    assert told[0]["calling"] is True
    assert told[0]["who"] == value["who"]
    assert value["text"] == ""


async def test_a_long_text_that_streamed_comes_whole_in_pieces(here: Place) -> None:
    gate = Gate()
    hostile = "\x1b" * 9_000 + "end"
    engine = await here.engine(says(hostile, " more", gate=gate, after=1))
    run = await engine.start(TALK, "tell")
    async with page_of(engine) as page:
        await gate.reached()
        pieces: list[str] = []
        async with contextlib.aclosing(page.events(f"/api/runs/{run.id}/events")) as events:
            async for name, value, _ in events:
                if name == "delta":
                    assert value["so_far"] is (not pieces)
                    pieces.append(value["text"])
                if "".join(pieces).endswith("end"):
                    break
        assert "".join(pieces) == "␛" * 9_000 + "end"
        assert max(map(len, pieces)) <= 4_000


async def test_nobody_is_at_work_in_a_run_whose_process_is_gone(here: Place) -> None:
    gate = Gate()
    owner = await here.engine(says("Once upon", " a time.", gate=gate, after=1))
    run = await owner.start(TALK, "tell")
    await gate.reached()
    async with page_of(await here.engine()) as page:
        events = page.events(f"/api/runs/{run.id}/events")
        standings = []
        async with contextlib.aclosing(events):
            async for name, value, _ in events:
                if name != "status":
                    continue
                standings.append(value)
                if value["is_busy"]:
                    await owner.close()
                elif "no process runs it" in value["doing"]:
                    break
        assert standings[0]["is_busy"]
        assert standings[-1]["status"] == "running"


async def test_words_take_up_a_run_that_no_process_runs(here: Place) -> None:
    first = await here.engine("Hello.")
    chat = await first.start("role:dude", "Hi")
    await chat.settled()
    engine = await here.engine("Again.")
    async with page_of(engine) as page:
        events = page.events(f"/api/runs/{chat.id}/events")
        async with contextlib.aclosing(events):
            seen: list[int] = []
            async for name, value, _ in events:
                if name == "item":
                    seen.append(value["seq"])
                    if value["text"] == "Hello.":
                        await first.close()
                        said = await page.post(f"/api/runs/{chat.id}/say", text="and", id="b")
                        assert said.json()["handling"] == "answer", said.text
                    if value["text"] == "Again.":
                        break
        assert seen == sorted(set(seen))
        stands = await page.get(f"/api/runs/{chat.id}")
        assert stands["is_running"]


async def test_a_run_is_halted_renamed_and_stopped(here: Place) -> None:
    gate = Gate()
    owner = await here.engine(says("On and", " on", gate=gate, after=1))
    run = await owner.start(TALK, "go")
    await gate.reached()
    async with page_of(await here.engine()) as page:
        path = f"/api/runs/{run.id}"
        assert (await page.post(f"{path}/halt")).status_code == 200
        await run.settled()
        assert run.run.visit.phase == "held"
        (begun,) = (await page.get("/api/runs"))["runs"]
        assert begun["title"] == "talk: go"
        assert (await page.post(f"{path}/rename", name="mine")).status_code == 200
        assert (await page.post(f"{path}/stop", reason="enough")).status_code == 200
        told = await items(page, run.id, until=is_end)
        assert told[-1]["text"] == "stopped: enough"
        listed = (await page.get("/api/runs"))["runs"]
        assert [(each["title"], each["status"]) for each in listed] == [("mine", "stopped")]
        will = await page.post(f"{path}/will", text="more")
        assert will.json()["sentence"].startswith("It has ended")


async def test_a_page_goes_back_in_time_and_forks_from_there(here: Place) -> None:
    engine = await here.engine("Hello.", "Again.", "Anew.")
    async with page_of(engine) as page:
        chat = await engine.start("role:dude", "Hi")
        await chat.settled()
        then = chat.run.seq
        await chat.say("and")
        await chat.settled()
        path = f"/api/runs/{chat.id}"
        past = await page.get(f"{path}/at/{then}")
        assert (past["seq"], past["status"], past["questions"]) == (then, "waiting", [])
        assert (await page.get(path))["seq"] == chat.run.seq
        missing = await page.client.get(f"{path}/at/{chat.run.seq + 1}")
        assert missing.status_code == 400
        forked = (await page.post(f"{path}/fork", at=then)).json()["id"]
        said = await page.post(f"/api/runs/{forked}/say", text="else", id="c")
        assert said.json()["handling"] == "answer"
        told = await items(page, forked, until=lambda item: item["text"] == "Anew.")
        assert "Again." not in [item["text"] for item in told]


async def test_a_page_starts_a_run_once_however_often_it_asks(here: Place) -> None:
    engine = await here.engine("Hello.", "Hello.")
    async with page_of(engine) as page:
        asked_for = {"workflow": "role:dude", "input": "Hi", "id": "s1"}
        first = (await page.post("/api/runs", **asked_for)).json()
        assert (await page.post("/api/runs", **asked_for)).json() == first
        await items(page, first["id"], until=lambda item: item["text"] == "Hello.")
        assert len((await page.get("/api/runs"))["runs"]) == 1
        wrong = await page.post("/api/runs", workflow="role:dud", id="s2")
        assert (wrong.status_code, "dude" in wrong.json()["hint"]) == (400, True)


async def test_the_list_is_told_what_changes_in_it(here: Place) -> None:
    owner = await here.engine("Hello.")
    async with page_of(await here.engine()) as page:
        first = await owner.start("role:dude")
        events = page.events("/api/runs/events")
        async with contextlib.aclosing(events):
            _, value, _ = await anext(events)
            assert value["id"] == first.id  # the list as it stands comes first
            chat = await owner.start("role:dude", "Hi")
            async for name, value, _ in events:
                # Between its start and its first words it waits, too, and is called after its role.
                if (value["id"], value["status"], value["title"]) == (chat.id, "waiting", "Hi"):
                    assert name == "run"
                    break


async def test_the_server_ends_with_pages_open(here: Place) -> None:
    engine = await here.engine("Hello.")
    chat = await engine.start("role:dude", "Hi")
    names: list[str] = []
    begun = asyncio.Event()

    async def watch(page: Page) -> None:
        async for name, _, _ in page.events(f"/api/runs/{chat.id}/events"):
            names.append(name)
            if name == "status":  # which comes when the run is known: facts may be there first
                begun.set()

    async with contextlib.AsyncExitStack() as client:
        async with serving(engine) as (address, access):
            page = await client.enter_async_context(let_in(address, access))
            watching = asyncio.ensure_future(watch(page))
            await begun.wait()
        await watching
    assert "end" not in names  # the run has not ended: the page comes back
    assert chat.status == "waiting"
