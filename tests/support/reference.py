"""Reference workflows: small runs that meet everything a run can meet, to be broken on purpose.

How they are played is in `support.stage`; those of states that need no script are in
`support.reference_states`, those of runs within a run in `support.reference_branches`.
"""

from typing import Final

from midstream.core.summaries import SUMMARY_STATE
from midstream.runtime.handler_run import HandlerRun
from midstream.runtime.ports import ModelRequest
from midstream.testing.fakes import call
from support.reference_branches import of_branches
from support.reference_states import of_states
from support.stage import (
    INPUT,
    LOOK,
    RECORD,
    TOUCH,
    Move,
    Reference,
    Reply,
    StageTool,
    State,
    asking,
    desk,
    says,
    script,
    unmade,
    works,
)


def references() -> tuple[Reference, ...]:
    """Return every reference, made anew."""
    return (
        _line(),
        _loop(),
        _parallel(),
        _question(),
        _approval(),
        _refusal(),
        _into_resume(),
        _into_start(),
        _late_reply(),
        _retry(),
        _fork(),
        _two_questions(),
        _burst(),
        _steer(),
        _soft_stop(),
        _checked(),
        _chat(),
        _compacted(),
        *of_states(),
        *of_branches(),
    )


def reference(name: str) -> Reference:
    """Return the reference of a name.

    Raises:
        KeyError: there is none.
    """
    return {known.name: known for known in references()}[name]


def _line() -> Reference:
    """Three states in a row: an agent with a tool, a handler, an agent."""

    def note(run: HandlerRun) -> None:
        run.common_data["noted"] = run.last_response.text
        run.log("noted")

    def model(request: ModelRequest) -> Reply:
        if request.state == "start":
            return works(request, call("record", key="line-1"), then="First done.")
        return says("All ", "done.")

    states: list[State] = [
        {"name": "start", "agent": "worker", "next": "note"},
        {"name": "note", "pre_handler": "note", "next": "end"},
        {"name": "end", "agent": "worker"},
    ]
    return Reference(
        name="line",
        definition=desk(states, (RECORD,)),
        handlers=script(note=note),
        model=model,
        tools=(RECORD,),
        input="write a line",
        path=("start", "note", "end", "stop"),
        ledger=("line-1",),
    )


def _loop() -> Reference:
    """One state three times over, with all its handlers."""

    def count(run: HandlerRun) -> None:
        run.common_data["rounds"] = run.common_data.get("rounds", 0) + 1

    def keep(run: HandlerRun) -> None:
        run.contexts["desk"].add_message("user", f"Round {run.common_data['rounds']}.")

    def again(run: HandlerRun) -> str:
        return "stop" if run.common_data["rounds"] >= 3 else "start"

    def model(request: ModelRequest) -> Reply:
        done = f"Round of visit {request.visit} done."
        return works(request, call("record", key=f"loop-{request.visit}"), then=done)

    states: list[State] = [
        {
            "name": "start",
            "agent": "worker",
            "pre_handler": "count",
            "post_handler": "keep",
            "transition_handler": "again",
        }
    ]
    return Reference(
        name="loop",
        definition=desk(states, (RECORD,)),
        handlers=script(count=count, keep=keep, again=again),
        model=model,
        tools=(RECORD,),
        path=("start", "start", "start", "stop"),
        ledger=("loop-1", "loop-2", "loop-3"),
    )


def _parallel() -> Reference:
    """One reply with a call of each effect, made in its order."""
    tools = (LOOK, TOUCH, RECORD)

    def model(request: ModelRequest) -> Reply:
        wanted = [call(tool.name, key=f"parallel-{tool.name}") for tool in tools]
        return works(request, *wanted, call("record", key="parallel-2"), then="All four done.")

    return Reference(
        name="parallel tool calls",
        definition=desk([{"name": "start", "agent": "worker"}], tools),
        handlers=script(),
        model=model,
        tools=tools,
        path=("start", "stop"),
        ledger=("parallel-2", "parallel-record"),
    )


def _question() -> Reference:
    """An agent asks the person."""

    def model(request: ModelRequest) -> Reply:
        return works(request, asking("Which colour?", "red", "blue"), then="Painted.")

    return Reference(
        name="question",
        definition=desk([{"name": "start", "agent": "worker"}], ()),
        handlers=script(),
        model=model,
        moves=(Move(cue="Which colour?", text="blue"),),
        path=("start", "stop"),
    )


DEPLOY: Final = StageTool(name="deploy", effect="once", needs_approval=True)


def _deploys(request: ModelRequest) -> Reply:
    return works(request, call("deploy", key="deploy-1"), then="Told.")


def _approval() -> Reference:
    """A call that needs a yes, and gets it."""
    return Reference(
        name="approval",
        definition=desk([{"name": "start", "agent": "worker"}], (DEPLOY,)),
        handlers=script(),
        model=_deploys,
        tools=(DEPLOY,),
        path=("start", "stop"),
        ledger=("deploy-1",),
    )


def _refusal() -> Reference:
    """A call that needs a yes, and gets a no."""
    return Reference(
        name="refusal",
        definition=desk([{"name": "start", "agent": "worker"}], (DEPLOY,)),
        handlers=script(),
        model=_deploys,
        tools=(DEPLOY,),
        moves=(Move(cue="deploy", kind="refuse"),),
        path=("start", "stop"),
    )


def _into_resume() -> Reference:
    """Unasked words in the middle of a reply lead to `resume`, and from there back."""

    def fold(run: HandlerRun) -> None:
        run.common_data["heard"] = run.resume_input
        run.contexts["desk"].add_message("user", f"They say: {run.resume_input}")

    def model(request: ModelRequest) -> Reply:
        if request.state == "resume":
            return says("I take that ", "up.")
        if unmade(request, call("record", key="resume-1")):
            return Reply(pieces=("Begun. ",), calls=(call("record", key="resume-1"),))
        if "heard" in request.common_data:
            return says("A short essay.")
        return says("A long ", "essay.", cue="writing")

    states: list[State] = [
        {"name": "start", "agent": "worker"},
        {"name": "resume", "agent": "worker", "pre_handler": "fold", "next": "$interrupted"},
    ]
    return Reference(
        name="steering into resume",
        definition=desk(states, (RECORD,)),
        handlers=script(fold=fold),
        model=model,
        tools=(RECORD,),
        moves=(Move(cue="writing", text="no, a short one"),),
        path=("start", "resume", "start", "stop"),
        ledger=("resume-1",),
    )


def _into_start() -> Reference:
    """Unasked words in the middle of a reply, and no `resume`: back to `start`, contexts kept."""

    def model(request: ModelRequest) -> Reply:
        if request.state == "start":
            return says("Begun.")
        if request.visit == 1:
            return says("A long ", "essay.", cue="writing")
        return says("A short essay.")

    states: list[State] = [
        {"name": "start", "agent": "worker", "next": "write"},
        {"name": "write", "agent": "worker"},
    ]
    return Reference(
        name="steering into start",
        definition=desk(states, ()),
        handlers=script(),
        model=model,
        moves=(Move(cue="writing", text="no, a short one"),),
        path=("start", "write", "start", "write", "stop"),
    )


def _late_reply() -> Reference:
    """A model that replies although it was cut off: nobody hears it."""

    def model(request: ModelRequest) -> Reply:
        if request.visit == 1:
            return says("Early ", "and late.", cue="writing", is_stubborn=True)
        return says("In time.")

    return Reference(
        name="late reply",
        definition=desk([{"name": "start", "agent": "worker"}], ()),
        handlers=script(),
        model=model,
        moves=(Move(cue="writing", text="stop that"),),
        path=("start", "start", "stop"),
    )


def _retry() -> Reference:
    """The agent fails, and the workflow has a way out: try again, at most twice."""

    def count(run: HandlerRun) -> str:
        run.common_data["tries"] = run.common_data.get("tries", 0) + 1
        return "start" if run.common_data["tries"] < 3 else "stop"

    def model(request: ModelRequest) -> Reply:
        if request.common_data.get("tries", 0) < 2:
            return Reply(pieces=("I am ",), error="The line went dead.")
        return says("It worked.")

    states: list[State] = [
        {"name": "start", "agent": "worker", "on_failure": "again"},
        {"name": "again", "transition_handler": "count"},
    ]
    return Reference(
        name="retry",
        definition=desk(states, ()),
        handlers=script(count=count),
        model=model,
        path=("start", "again", "start", "again", "start", "stop"),
    )


def _fork() -> Reference:
    """Two turns with a `once` call each; the run is forked between them."""

    def model(request: ModelRequest) -> Reply:
        key = "fork-1" if request.state == "start" else "fork-2"
        return works(request, call("record", key=key), then=f"{key} done.")

    states: list[State] = [
        {"name": "start", "agent": "worker", "next": "second"},
        {"name": "second", "agent": "worker"},
    ]
    return Reference(
        name="fork",
        definition=desk(states, (RECORD,)),
        handlers=script(),
        model=model,
        tools=(RECORD,),
        path=("start", "second", "stop"),
        ledger=("fork-1", "fork-2"),
        forks_in="second",
    )


def _two_questions() -> Reference:
    """Two questions open at once, beside a call that runs."""

    def model(request: ModelRequest) -> Reply:
        wanted = (asking("First?"), call("record", key="two-1"), asking("Second?", "a", "b"))
        return works(request, *wanted, then="Both heard.")

    return Reference(
        name="two questions",
        definition=desk([{"name": "start", "agent": "worker"}], (RECORD,)),
        handlers=script(),
        model=model,
        tools=(RECORD,),
        moves=(Move(cue="First?", text="one"), Move(cue="Second?", text="b")),
        path=("start", "stop"),
        ledger=("two-1",),
    )


def _burst() -> Reference:
    """Five lines in a row, of every policy."""

    def fold(run: HandlerRun) -> None:
        heard = run.common_data.get("heard", [])
        run.common_data["heard"] = [*heard, run.resume_input]

    def model(request: ModelRequest) -> Reply:
        if request.state == "start" and "heard" not in request.common_data:
            return says("Once ", "upon a time.", cue="telling")
        return says(f"Heard in {request.state}.")

    states: list[State] = [
        {"name": "start", "agent": "worker", "next": "close"},
        {"name": "close", "agent": "worker"},
        {"name": "resume", "agent": "worker", "pre_handler": "fold", "next": "start"},
    ]
    return Reference(
        name="input burst",
        definition=desk(states, ()),
        handlers=script(fold=fold),
        model=model,
        moves=(
            Move(cue="telling", text="one"),
            Move(cue="telling", text="two"),
            Move(cue="telling", text="three", policy="queue"),
            Move(cue="telling", text="four", policy="steer"),
            Move(cue="telling", text="five", policy="reject"),
        ),
        path=("start", "resume", "resume", "resume", "start", "close", "stop"),
    )


def _steer() -> Reference:
    """Words that join the running turn: they cut a reply in words, and no state."""

    def model(request: ModelRequest) -> Reply:
        if request.request == 1:
            return says("In metres: ", "four.", cue="measuring")
        return says("In feet: thirteen.")

    return Reference(
        name="steer",
        definition=desk([{"name": "start", "agent": "worker"}], (), on_input="steer"),
        handlers=script(),
        model=model,
        moves=(Move(cue="measuring", text="in feet"),),
        path=("start", "stop"),
    )


def _soft_stop() -> Reference:
    """Words while a `once` tool runs: it is stopped softly, and says how it ended."""
    dig = StageTool(name="dig", effect="once", cue="digging")

    def model(request: ModelRequest) -> Reply:
        return works(request, call("dig", key="dig-1"), then="As far as it got.")

    return Reference(
        name="soft stop",
        definition=desk([{"name": "start", "agent": "worker"}], (dig,)),
        handlers=script(),
        model=model,
        tools=(dig,),
        moves=(Move(cue="digging", text="mind the cable"),),
        path=("start", "start", "stop"),
        ledger=("dig-1",),
    )


def _checked() -> Reference:
    """Words while a `once` tool that has done its work is being checked: it stands as done."""
    edit = StageTool(name="edit", effect="once", cue="checking", is_checked=True)

    def model(request: ModelRequest) -> Reply:
        return works(request, call("edit", key="edit-1"), then="It is in there.")

    return Reference(
        name="checked",
        definition=desk([{"name": "start", "agent": "worker"}], (edit,)),
        handlers=script(),
        model=model,
        tools=(edit,),
        moves=(Move(cue="checking", text="no, rename it"),),
        path=("start", "start", "stop"),
        ledger=("edit-1",),
    )


def _chat() -> Reference:
    """A state that waits for the person's words, twice; then they leave."""

    def model(request: ModelRequest) -> Reply:
        return works(request, call("record", key=f"chat-{request.visit}"), then="I see.")

    states: list[State] = [
        {"name": "start", "agent": "worker", "awaits_input": True, "next": "start"}
    ]
    return Reference(
        name="chat",
        definition=desk(states, (RECORD,)),
        handlers=script(),
        model=model,
        tools=(RECORD,),
        moves=(Move(cue=INPUT, text="hello"), Move(cue=INPUT, text="goodbye")),
        path=("start", "start", "start"),
        ledger=("chat-1", "chat-2"),
    )


def _compacted() -> Reference:
    """A chat whose older turns give way to a summary, made of words and of calls; then it goes on."""

    def model(request: ModelRequest) -> Reply:
        if request.state == SUMMARY_STATE:
            return says("They talked, ", "and twice something was recorded.")
        then = f"I see, this is number {request.visit}. " + "It takes a while to tell. " * 20
        return works(request, call("record", key=f"compacted-{request.visit}"), then=then)

    states: list[State] = [
        {"name": "start", "agent": "worker", "awaits_input": True, "next": "start"}
    ]
    return Reference(
        name="compacted",
        definition=desk(states, (RECORD,)),
        handlers=script(),
        model=model,
        tools=(RECORD,),
        moves=(
            Move(cue=INPUT, text="hello"),
            Move(cue=INPUT, text="and"),
            Move(cue=INPUT, text="again"),
            Move(cue=INPUT, kind="compact"),
            Move(cue=INPUT, text="goodbye"),
        ),
        path=("start", "start", "start", "start", "start"),
        ledger=("compacted-1", "compacted-2", "compacted-3", "compacted-4"),
    )
