"""The three states as nodes of pydantic-graph, which versions 1 and 2 both take."""

from dataclasses import dataclass, field

from pydantic_graph import BaseNode, End, GraphRunContext

from benchmarks.programs.durable import message


@dataclass
class Data:
    """What the run keeps."""

    count: int
    done: int = 0
    messages: list[str] = field(default_factory=list)

    def work(self) -> None:
        """Do what each state does: append a message, drop the oldest; in an empty state, nothing."""
        self.done += 1
        if self.messages:
            self.messages.append(message(self.done))
            del self.messages[0]


@dataclass
class First(BaseNode[Data, None, int]):
    """Goes to the second."""

    async def run(self, ctx: GraphRunContext[Data, None]) -> "Second":
        """Work."""
        ctx.state.work()
        return Second()


@dataclass
class Second(BaseNode[Data, None, int]):
    """Goes to the third."""

    async def run(self, ctx: GraphRunContext[Data, None]) -> "Third":
        """Work."""
        ctx.state.work()
        return Third()


@dataclass
class Third(BaseNode[Data, None, int]):
    """Goes to the first, or ends."""

    async def run(self, ctx: GraphRunContext[Data, None]) -> First | End[int]:
        """Work."""
        ctx.state.work()
        return End(0) if ctx.state.done >= ctx.state.count else First()
