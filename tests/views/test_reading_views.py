"""What a person reads of a run: who is at work, how far it is, its turns, its state, its window."""

from collections.abc import Iterable

import pytest
from decide_kit import (
    asks,
    call,
    done,
    flow,
    go,
    replies,
    says,
    state,
    tell,
    within,
)

from midstream.core import events as e
from midstream.core.conversation import ToolCall, tokens_in
from midstream.core.inputs import Halt
from midstream.core.notices import Envelope
from midstream.core.run import Run
from midstream.language import plan, spec
from midstream.language.names import Outcome
from midstream.views.amounts import in_short, span_words, token_words
from midstream.views.calls_in_words import call_words, result_words
from midstream.views.cells import width_of
from midstream.views.context_window import agents_of, filling_lines, filling_of
from midstream.views.lanes import at_work, behind, progress_words
from midstream.views.state_tree import kind_words, state_tree, tree_lines
from midstream.views.transcript import markdown_of
from midstream.views.turns import Turned, history_lines, history_of

CHAT = flow(state("start", "dude", awaits_input=True, next="start"))
BOTH = (
    spec.Branch(name="left", states=(state("look", "dude"),)),
    spec.Branch(name="right", states=(state("look", "critic"),)),
)
FORKED = flow(spec.State(name="start", parallel=BOTH), state("end", "dude"))
USED = e.Usage(model="m", input_tokens=1200, output_tokens=80, cost_usd="0.01")


def enveloped(facts: Iterable[e.AnyFact], *, every_s: float = 1.0) -> list[Envelope]:
    return [
        Envelope(run="r", at=1000 + number * every_s, event=fact, seq=number)
        for number, fact in enumerate(facts, 1)
    ]


# --- amounts ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("number", "said"),
    [
        (0, "0"),
        (999, "999"),
        (1_000, "1.0k"),
        (1_234, "1.2k"),
        (9_960, "10k"),
        (34_567, "35k"),
        (999_499, "999k"),
        (999_500, "1.0M"),
        (3_400_000, "3.4M"),
    ],
)
def test_a_number_is_short(number: int, said: str) -> None:
    assert in_short(number) == said


def test_tokens_and_spans_are_said_as_people_do() -> None:
    assert token_words(1) == "1 token"
    assert tokens_in(5) == 2
    assert [span_words(s) for s in (3.21, 14.4, 125, 12_000)] == [
        "3.2 s",
        "14 s",
        "2 min 5 s",
        "3 h 20 min",
    ]


# --- tool calls ---------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "arguments", "said"),
    [
        ("read_files", {"paths": ["a.py", "b.py"]}, "read_files(a.py, b.py)"),
        ("read_files", {"paths": list("abcde")}, "read_files(a, b, c +2)"),
        ("execute_terminal", {"command": "make test"}, "execute_terminal(make test)"),
        ("write_file", {"content": "x\ny", "path": "a"}, "write_file(a, content=x⏎y)"),
        ("get", {"at": {"deep": 1}}, 'get({"deep":1})'),
        ("get", {"one": 1, "two": 2}, "get(one=1, two=2)"),
        ("get", {}, "get()"),
        ("edit", {"title": "write", "paths": ["/w/a.py"]}, "edit(write: /w/a.py)"),
        ("edit", {"title": "Write a.py", "paths": ["/w/a.py"]}, "edit(Write a.py)"),
        ("execute", {"title": "Shell", "command": "make test"}, "execute(Shell: make test)"),
    ],
)
def test_a_call_is_said_by_what_it_is_about(
    name: str, arguments: dict[str, object], said: str
) -> None:
    assert call_words(name, arguments) == said


@pytest.mark.parametrize(
    ("name", "outcome", "result", "said"),
    [
        ("read_files", "completed", "== a.py (2 lines) ==\n     1\tx\n     2\ty", "2 lines"),
        (
            "read_files",
            "completed",
            "== a (1 line) ==\n     1\tx\n\n== b (1 line) ==\n     1\ty",
            "2 files, 2 lines",
        ),
        ("read_files", "completed", "== a: empty file ==", "== a: empty file =="),
        ("execute_terminal", "completed", "Exit code: 0\n\n(no output)", "exit 0 · no output"),
        ("execute_terminal", "failed", "Exit code: 1\n\na\nb\n", "exit 1 · 2 lines"),
        (
            "execute_terminal",
            "stopped",
            "Stopped after 3 s. Ended by SIGINT.",
            "stopped after 3 s.",
        ),
        ("execute_terminal", "unknown", "Ended by SIGKILL", "outcome unknown: Ended by"),
        ("exact_search", "completed", "a:1: x\n[1 matching line in 1 file]", "1 matching line"),
        ("exact_search", "completed", "No matches.", "No matches."),
        ("find_files", "completed", "a (1 B)\n[1 file]", "1 file"),
        ("find_files", "completed", "a (1 B)\n[1 of 1,200 files: more]", "1 of 1,200 files: more"),
        ("list_directory", "completed", "a\nb\nc", "3 entries"),
        ("other", "completed", "first\nsecond", "first (+1 more lines)"),
        ("other", "completed", " \n", "(nothing)"),
        ("other", "completed", '{"a": 1}', '{"a": 1}'),
        ("other", "completed", '{"a": 1, "b": "%s"}' % ("x" * 90), "{a, b}, 107 characters"),
        ("other", "completed", "[%s1]" % ("1," * 99), "list of 100 items"),
        ("other", "failed", "no such file", "no such file"),
        (
            "read_files",
            "failed",
            "== a.py: not read ==\nThere is no a.py.\n\n== b.py: not read ==\nnor b.py",
            "There is no a.py. (+2 more lines)",
        ),
        ("other", "denied", "Refused: by a rule", "denied: by a rule"),
    ],
)
def test_a_result_is_summed_up(name: str, outcome: Outcome, result: str, said: str) -> None:
    assert result_words(name, outcome, result).startswith(said)


# --- who is at work -----------------------------------------------------------------------------


def test_a_run_without_branches_has_a_lane_of_its_own() -> None:
    run, _ = tell(CHAT, says("hi"), replies("", call("look"), usage=USED))

    (lane,) = at_work(run)
    assert (lane.path, lane.agent, lane.doing) == ("", "dude", "dude is using look")
    assert lane.tokens == 80


def test_tokens_are_those_of_this_visit() -> None:
    run, _ = tell(CHAT, says("hi"), replies("well", usage=USED), says("and?"))

    assert at_work(run)[0].tokens == 0


def test_nobody_is_at_work_who_waits_for_a_person() -> None:
    waiting, _ = tell(CHAT)
    held, _ = tell(CHAT, says("hi"), Halt())
    parked, _ = tell(CHAT, says("hi"), replies("", call("write")))

    assert at_work(waiting) == at_work(held) == at_work(parked) == ()


def test_branches_have_a_lane_each_with_their_tokens() -> None:
    run, _ = tell(FORKED, within("left", replies("", call("look"), usage=USED)))

    assert [(lane.path, lane.tokens) for lane in at_work(run)] == [("left", 80), ("right", 0)]


def test_a_run_in_the_background_has_one_lane_under_its_name() -> None:
    run, _ = tell(FORKED)

    lane = behind(run, named="w (ab12)")
    assert lane is not None
    assert (lane.label, lane.doing) == ("w (ab12)", "left, right at work")
    assert behind(tell(CHAT)[0], named="x") is None


# --- how far it is ------------------------------------------------------------------------------


LINE = flow(
    state("start", "dude", next="middle"),
    state("middle", "dude", next="end"),
    state("end", "dude"),
)


def test_steps_of_a_line_of_states_are_counted() -> None:
    run, _ = tell(LINE, replies("a"))

    assert progress_words(run) == "step 2 of 3"


def test_nothing_is_claimed_where_a_condition_chooses() -> None:
    choosing = state(
        "start", "dude", transitions=(spec.Transition(to="end", when="visits('start') > 2"),)
    )
    run, _ = tell(flow(choosing, state("end", "dude")))

    assert progress_words(run) == ""


def test_nothing_is_claimed_of_a_loop_or_a_chat() -> None:
    loop = flow(state("start", "dude", next="back"), state("back", "dude", next="start"))

    assert progress_words(tell(loop)[0]) == ""
    assert progress_words(tell(CHAT)[0]) == ""


def test_branches_that_ended_are_counted() -> None:
    run, _ = tell(FORKED, within("left", replies("done")))

    assert progress_words(run) == "1 of 2 branches"


def test_items_that_have_not_begun_count_too() -> None:
    each = spec.State(
        name="start", for_each=spec.ForEach(items="input", state="one", max_concurrency=2)
    )
    run, _ = tell(
        flow(each, state("one", "dude")), within("1", replies("a")), input=["a", "b", "c", "d"]
    )

    assert progress_words(run) == "1 of 4 items"


# --- turns --------------------------------------------------------------------------------------


def chat_facts() -> list[e.AnyFact]:
    run, facts = tell(
        CHAT,
        says("tidy the code"),
        replies("On it.", call("look"), usage=USED),
        done("call_1"),
        replies("It is all tidy now.", usage=USED),
        says("thanks"),
    )
    return [*facts, *go(run, says("no, wait", shown="You are"))[1]]


def test_a_turn_is_told_with_words_tools_and_what_it_used() -> None:
    first, second, *_ = history_of(enveloped(chat_facts()))

    assert (first.agent, first.asked, first.end) == ("dude", ("tidy the code",), "")
    assert first.words == 7
    assert first.tools == ("look",)
    assert first.usages == (USED, USED)
    assert second.end == "interrupted"
    assert second.asked == ("thanks",)
    assert second.words == 2


def test_a_turn_under_way_is_going_on() -> None:
    _, facts = tell(CHAT, says("hi"), replies("", call("look")))

    (turn,) = history_of(enveloped(facts))
    assert turn.end == "going on"


def test_branches_have_turns_of_their_own() -> None:
    _, facts = tell(FORKED, within("right", replies("r")), within("left", replies("l")))

    assert [(turn.branch, turn.text) for turn in history_of(enveloped(facts))] == [
        ("right", "r"),
        ("left", "l"),
    ]


@pytest.mark.parametrize("width", [20, 40, 80, 200])
def test_history_fits_the_width(width: int) -> None:
    turns = history_of(enveloped(chat_facts()))

    lines = history_lines(turns, width=width, most=20, now=2000)

    assert max(map(width_of, lines)) <= width


def test_history_says_what_was_used_and_leaves_out_the_oldest() -> None:
    turns = history_of(enveloped(chat_facts()))

    lines = history_lines(turns[:1], width=100, most=20, now=2000)
    assert lines[0] == "  1  › tidy the code"
    assert lines[2].endswith("7 words · look · 2.4k in, 160 out · $0.0200 · 7.0 s")
    assert lines[3] == "1 turn · 2.4k in, 160 out · $0.0200"
    assert "2 earlier turns left out" in history_lines([turns[0]] * 3, width=100, most=1, now=0)[0]


def test_foreign_words_in_the_history_stay_on_their_line() -> None:
    turn = Turned(agent="dude", branch="", state="", at=0, asked=("a\x1b[2J\nb",), text="x\ny")

    lines = history_lines([turn], width=80, most=1, now=0)
    assert not any("\x1b" in line or "\n" in line for line in lines)


# --- the state as a tree --------------------------------------------------------------------------


def drawn(run: Run, width: int = 100) -> str:
    return "\n".join(tree_lines(state_tree(run, title="r  w", now=0.0), width=width))


def test_the_state_is_a_tree_of_states_branches_and_who_is_at_work() -> None:
    run, _ = tell(FORKED, within("left", replies("", call("look"), usage=USED)))

    told = drawn(run)
    assert "├ states  0 of 2 branches · 2 not visited\n" in told
    assert "│ └ ▸ start  left, right at work\n" in told
    assert "│   ├ ▌ left [look]  dude is using look\n" in told
    assert "│   └ ▌ right [look]  critic is thinking\n" in told
    assert "dude in talk  1 request · 1.2k in, 80 out · $0.0100" in told
    assert "critic in talk  not asked yet" in told


def test_a_state_that_a_branch_began_at_is_not_called_not_visited() -> None:
    run, _ = tell(
        flow(
            spec.State(name="start", parallel=("left", "right"), next="end"),
            state("left", "dude"),
            state("right", "dude"),
            state("end", "dude"),
        )
    )

    assert "0 of 2 branches · 2 not visited\n" in drawn(run), "end and stop"


def test_the_state_tells_questions_waiting_words_contexts_and_data() -> None:
    run, _ = tell(
        flow(state("start", "dude")),
        replies("", asks("Which?\nReally?")),
        says("later", policy="queue"),
    )

    told = drawn(run)
    assert "#1 dude  Which? Really?" in told
    assert "waiting\n" in told
    assert "talk  " in told
    assert "about " in told


@pytest.mark.parametrize("width", [12, 40, 200])
def test_the_tree_fits_the_width(width: int) -> None:
    run, _ = tell(FORKED)

    assert max(width_of(line) for line in drawn(run, width).split("\n")) <= width


@pytest.mark.parametrize(
    ("value", "said"),
    [
        (1, "1"),
        (None, "null"),
        ("short", '"short"'),
        ("x" * 50, "text of 50 characters: " + "x" * 50),
        ([1, 2], "list of 2"),
        ({"a": 1, "b": 2}, "object: a, b"),
        ({}, "{}"),
    ],
)
def test_a_value_is_said_by_its_kind_and_size(value: object, said: str) -> None:
    assert kind_words(value) == said


# --- what fills the window ------------------------------------------------------------------------


def test_what_fills_the_window_is_told_by_kind() -> None:
    run, _ = tell(
        CHAT,
        says("tidy " * 20),
        replies("Looking.", call("look"), usage=USED),
        done("call_1", "r" * 400),
    )

    filling = filling_of(run, "dude")
    parts = {part.name: part for part in filling.parts}
    assert parts["tool results"].tokens == 100
    assert parts["tool results"].things == "1 result"
    assert parts["tool calls"].things == "1 call"
    assert parts["your words"].things == "2 messages"
    assert "system message" not in parts
    assert filling.counted == 1200


def test_the_words_of_agents_md_are_counted_apart_and_once() -> None:
    role = spec.Role(systemMessage="Be kind.", agentsFile=True)
    definition = plan.chat_definition(
        "dude",
        role,
        {},
        (
            spec.Guidance(source="environment", text="y" * 400),
            spec.Guidance(source="workspace", text="x" * 4000),
        ),
    )
    run, _ = tell(definition, says("hi"))

    filling = filling_of(run, "dude")
    parts = {part.name: part.tokens for part in filling.parts}
    assert sum(parts.values()) == sum(part.tokens for part in filling.parts)
    assert parts["system message"] == 2
    assert parts["environment"] == 100
    assert 1000 < parts["AGENTS.md, memory, skills"] < 1200


def test_how_much_is_left_is_told_at_any_width() -> None:
    run, _ = tell(CHAT, says("x" * 4000))
    lines = filling_lines(filling_of(run, "dude"), model="m", window=10_000, width=38)

    assert max(map(len, lines)) <= 38
    assert "of 10k: 11% full, 8.9k left" in " ".join(" ".join(lines).split())


def test_the_share_is_of_the_window_where_that_is_known() -> None:
    run, _ = tell(CHAT, says("x" * 4000))
    filling = filling_of(run, "dude")

    known = filling_lines(filling, model="m", window=10_000, width=100)
    unknown = filling_lines(filling, model="m", window=None, width=100)

    assert any("your words" in line and " 10%" in line for line in known)
    assert any("of 10k: 11% full, 8.9k left" in line for line in known)
    assert any("the model's context limit is not known" in line for line in unknown)
    assert known[-1] == "Estimated at 4 characters a token."


@pytest.mark.parametrize("width", [20, 40, 80, 200])
def test_the_filling_fits_the_width(width: int) -> None:
    run, _ = tell(CHAT, says("x" * 4000))

    lines = filling_lines(filling_of(run, "dude"), model="m", window=10_000, width=width)
    assert max(map(width_of, lines)) <= width


def test_the_agent_at_work_comes_first() -> None:
    run, _ = tell(flow(state("start", "critic")))

    assert agents_of(run) == ("critic", "dude", "judge")


# --- a run to be read -----------------------------------------------------------------------------


def test_a_run_is_written_down_as_who_said_what() -> None:
    call = ToolCall(id="c2", name="judge", arguments={"good": True})
    facts: tuple[e.AnyFact, ...] = (
        e.InputReceived(input_id="i", text="go", source="user", handling="interrupt"),
        e.ToolCalled(call_id="c1", name="read_files", arguments={"paths": ["a.py"]}, agent="ada"),
        e.ToolReturned(call_id="c1", name="read_files", outcome="failed", result="no such file"),
        e.Interrupted(epoch=1, text="stop", agent="ada", partial="I was"),
        e.AgentResponded(agent="critic", branch="b", text="", calls=(call,), is_final=True),
        e.RunFinished(),
    )
    told = [Envelope(run="r", at=0.0, event=fact, seq=n) for n, fact in enumerate(facts, 1)]

    assert markdown_of(told, {"a.py +1 -0": "+```"}) == (
        "## You\n\ngo\n\n- ✗ `read_files(a.py)` · no such file\n\n## ada\n\nI was\n\n*[interrupted]*\n\n"
        "## b: critic\n\ngood yes\n\n*finished*\n\n## Files\n\n"
        "<details><summary>a.py +1 -0</summary>\n\n````diff\n+```\n````\n\n</details>\n"
    )
