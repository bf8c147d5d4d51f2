"""A run as a page sees it and talks to it, over real HTTP."""

import contextlib

from api_kit import TALK, Place, here
from browser_kit import is_end, items, page_of

from midstream.language.errors import JournalFull
from midstream.runtime.state_machine import WorkflowStateMachine
from midstream.testing import Gate, says
from midstream.views.run_status import STANDS_STILL

__all__ = ["here"]


async def test_a_page_shows_a_run_from_its_first_fact_to_its_end(here: Place) -> None:
    engine = await here.engine("Tidied.")
    async with page_of(engine) as page:
        run = await engine.start(TALK, "tidy")
        await run.wait()

        shown = await items(page, run.id, until=is_end)
        kinds = [item["kind"] for item in shown]
        assert kinds == ["note", "state", "agent", "state", "output", "end"]
        assert [item["text"] for item in shown][2] == "Tidied."
        listed = (await page.get("/api/runs"))["runs"]
        assert [(each["id"], each["status"]) for each in listed] == [(run.id, "finished")]
        stands = await page.get(f"/api/runs/{run.id}")
        assert (stands["output"], stands["enter"]) == ("Tidied.", "")


async def test_a_page_that_comes_back_is_told_what_came_since_once(here: Place) -> None:
    engine = await here.engine("Hello.", "Again.", "Bye.")
    async with page_of(engine) as page:
        chat = await engine.start("role:dude", "Hi")
        await chat.settled()
        first = await items(page, chat.id, until=lambda item: item["text"] == "Hello.")
        await chat.say("and")
        await chat.settled()
        await chat.stop()

        rest = await items(page, chat.id, had=first[-1]["seq"], until=is_end)
        whole = await items(page, chat.id, until=is_end)
        assert first + rest == whole
        assert "Again." in [item["text"] for item in rest]


async def test_words_of_a_page_reach_a_run_of_another_process_once(here: Place) -> None:
    owner = await here.engine("Hello.", "Fine.", Gate())
    chat = await owner.start("role:dude", "Hi")
    await chat.settled()
    async with page_of(await here.engine()) as page:
        will = await page.post(f"/api/runs/{chat.id}/will", text="again")
        assert will.json() == {"sentence": "Enter sends to dude"}
        said = await page.post(f"/api/runs/{chat.id}/say", text="again", id="a1")
        twice = await page.post(f"/api/runs/{chat.id}/say", text="again", id="a1")
    assert said.json()["handling"] == "answer"
    assert twice.json() == said.json()
    words = [message.text for message in chat.run.contexts["chat"]]
    assert words.count("again") == 1


async def test_a_run_whose_journal_is_away_stands_still_on_its_page(here: Place) -> None:
    gate = Gate()
    engine = await here.engine(says("Half", " of it.", gate=gate))
    async with page_of(engine) as page:
        chat = await engine.start("role:dude", "Hi")
        await gate.reached()
        async with contextlib.aclosing(page.events(f"/api/runs/{chat.id}/events")) as events:
            async for name, value, _ in events:
                if name == "delta" and "Half" in value["text"]:
                    machine = chat._machine
                    assert isinstance(machine, WorkflowStateMachine)
                    await machine.stand_still(JournalFull("It was not reached in time.", hint=""))
                if name == "status" and value["doing"] == STANDS_STILL:
                    break
        stands = await page.get(f"/api/runs/{chat.id}")
        assert (stands["doing"], stands["enter"], stands["is_busy"]) == (STANDS_STILL, "", False)
