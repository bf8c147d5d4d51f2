"""Commands about the console itself: its model, tools, settings, and leaving it."""

from midstream.command.command import Command
from midstream.ports import Operator


async def _exit(operator: Operator, argument: str) -> None:
    operator.leave()


async def _clear(operator: Operator, argument: str) -> None:
    await operator.clear()


async def _model(operator: Operator, argument: str) -> None:
    if argument:
        operator.models.use(None if argument == "default" else argument)
        operator.tell(f"From the next request on: {operator.models.describe()}.")
        return
    known = "\n".join(f"  {level}: {name}" for level, name in operator.models.known())
    operator.tell(f"{operator.models.describe()} answers now. To choose from:\n{known}")


async def _tools(operator: Operator, argument: str) -> None:
    specs = operator.tools()
    width = max(map(len, specs), default=0)
    operator.tell(
        "\n".join(
            f"{name.ljust(width)}  {'asks first' if spec.needs_approval else spec.effect:<10}  "
            f"{spec.description.splitlines()[0] if spec.description else ''}"
            for name, spec in sorted(specs.items())
        )
    )


async def _config(operator: Operator, argument: str) -> None:
    rows = operator.settings()
    operator.tell("\n".join(f"{key} = {value}  ({where})" for key, value, where in rows))


def _models(operator: Operator) -> list[tuple[str, str]]:
    names = [(name, level) for level, name in operator.models.known()]
    return [*names, ("default", "what the settings name")]


SESSION_COMMANDS = (
    Command(name="exit", summary="leave; runs are kept", action=_exit, aliases=("quit",)),
    Command(name="clear", summary="forget this chat and begin anew", action=_clear),
    Command(
        name="model",
        arguments="[NAME | default]",
        summary="show or change the model",
        action=_model,
        complete=_models,
    ),
    Command(name="tools", summary="list the tools agents may use", action=_tools),
    Command(name="config", summary="show the settings and where they come from", action=_config),
)
