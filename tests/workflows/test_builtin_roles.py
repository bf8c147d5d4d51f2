"""The built-in roles: sound files, one role a file, tools that exist, and no more power than needed."""

from pathlib import Path

import pytest
from playing import DEFAULTS, builtin_roles

from midstream.language.lint_roles import lint_roles
from midstream.tools.manager import ToolManager

FILES = sorted((DEFAULTS / "roles").iterdir())
TOOLS = tuple(ToolManager().specs())
READING = {
    *(
        "read_files",
        "read_image",
        "list_directory",
        "find_files",
        "exact_search",
        "explain_codebase",
        "measure_code",
    ),
    "request_users_input",
}


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_a_role_file_holds_the_role_it_is_named_after_and_has_no_problems(path: Path) -> None:
    roles, problems = lint_roles(path.read_text(), file=path.name, tools=TOOLS)

    assert problems == ()
    assert list(roles or {}) == [path.stem]


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_a_role_says_what_it_is_for(path: Path) -> None:
    role = builtin_roles()[path.stem]

    assert 10 < len(role.description) < 80
    assert 100 < len(role.systemMessage) < 4_000


def test_the_roles_people_expect_are_there() -> None:
    assert {"dude", "coder", "reviewer", "architect"} <= set(builtin_roles())


@pytest.mark.parametrize(
    "name", ["reviewer", "architect", "surveyor", "code_reviewer", "finder", "writer", "triager"]
)
def test_a_role_that_judges_cannot_change_anything(name: str) -> None:
    role = builtin_roles()[name]

    assert {tool for tool in TOOLS if role.may_use(tool)} <= READING
