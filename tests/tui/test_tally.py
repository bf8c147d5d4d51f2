"""The end of a run says what it took and cost."""

from midstream.core.events import AgentResponded, AnyFact, RunFinished, RunStarted, Usage
from midstream.core.notices import Envelope
from midstream.core.run import Run, RunUsage
from midstream.language.spec import Definition, State, Workflow
from midstream.tui.event_lines import Block, Words, plain_words
from midstream.tui.event_renderer import EventRenderer
from midstream.tui.styled_lines import to_plain

USED = Usage(model="m", input_tokens=10, output_tokens=5, cost_usd="0.0100")
STARTED = RunStarted(
    workflow="w",
    definition=Definition(
        workflow=Workflow(workflow_name="w", states=(State(name="start"), State(name="stop"))),
        roles={},
    ),
)


def said(usage: Usage = USED) -> AgentResponded:
    return AgentResponded(agent="ada", text="", is_final=False, usage=usage)


def ends(renderer: EventRenderer, *told: tuple[float, AnyFact]) -> str:
    blocks: list[Block] = []
    for number, (at, fact) in enumerate(told, 1):
        blocks = renderer.render(Envelope(run="r1", at=at, event=fact, seq=number))
    return "".join(
        to_plain(plain_words(block) if isinstance(block, Words) else [block]) for block in blocks
    )


def test_the_end_of_a_run_says_how_long_it_took_and_what_it_cost() -> None:
    renderer = EventRenderer(with_cards=True)

    line = ends(renderer, (10, STARTED), (12, said()), (14, said()), (135, RunFinished()))
    assert line == "✓ finished  after 2 min 5 s · $0.0200\n"
    assert ends(renderer, (140, RunFinished())) == "✓ finished\n", "it is forgotten"


def test_a_price_nobody_knows_is_never_told_as_nothing() -> None:
    unpriced = Usage(model="m", input_tokens=10, output_tokens=5)

    renderer = EventRenderer(with_cards=True)

    line = ends(renderer, (0, STARTED), (0, said(unpriced)), (0, RunFinished()))
    assert line == "✓ finished  cost unknown\n"
    again = ends(renderer, (0, STARTED), (0, said(unpriced)), (0, RunFinished()))
    assert again == "✓ finished\n", "it is said once"


def test_of_a_run_that_was_taken_up_all_it_cost_is_told_and_no_time() -> None:
    renderer = EventRenderer(with_cards=True)
    renderer.recall(Run(id="r1", usage=RunUsage(requests=(("ada", USED),) * 2)))

    line = ends(renderer, (14, said()), (135, RunFinished()))
    assert line == "✓ finished  $0.0300\n"
