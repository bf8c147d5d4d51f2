"""Setting one value of one's own application.json: checked by its reader, everything else kept."""

from collections.abc import Sequence
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from midstream.config.manager import ConfigManager
from midstream.config.setting_text import with_value, without_value
from midstream.config.settings import FEW_VALUES, TOP
from midstream.config.user_settings import (
    SETTABLE,
    effect,
    explained,
    own_problems,
    set_own,
    template,
    unset_own,
)
from midstream.language.errors import UserMistake
from midstream.language.json_text import parse

COMMENTED = """\
{
  // Mine.
  "currentMode": "role:coder", // whom I like
  "models": {"base": "openai:a", /* quick */ "fast": "openai:b"},
  "modelPatience": {
    // slow here
    "attempts": 3
  }
}
"""


@pytest.fixture
def config(tmp_path: Path) -> ConfigManager:
    home = {
        "MIDSTREAM_CONFIG_HOME": str(tmp_path / "c"),
        "MIDSTREAM_STATE_HOME": str(tmp_path / "s"),
    }
    return ConfigManager(tmp_path, environ=home)


def wrote(config: ConfigManager, text: str) -> None:
    config.user_dir.mkdir(exist_ok=True)
    config.user_file.write_text(text, encoding="utf-8")
    config.reread()


def test_a_value_is_replaced_and_nothing_else() -> None:
    edited = with_value(COMMENTED, ("models", "fast"), "offline")

    assert edited == COMMENTED.replace('"openai:b"', '"offline"')


@pytest.mark.parametrize(
    ("path", "value", "line"),
    [
        (("editing",), "vi", '  "editing": "vi",\n  // Mine.'),
        (("models", "smart"), "x:y", '"models": {"smart": "x:y", "base"'),
        (("modelPatience", "totalSeconds"), 9, '{\n    "totalSeconds": 9,\n    // slow here'),
        (("budget", "usd"), 5, '{\n  "budget": {"usd": 5},\n'),
    ],
)
def test_a_new_value_stands_before_the_comments_of_others(
    path: Sequence[str], value: object, line: str
) -> None:
    edited = with_value(COMMENTED, path, value)

    assert edited is not None
    assert line in edited
    assert [each for each in COMMENTED.splitlines() if "//" in each and each not in edited] == []


@pytest.mark.parametrize(
    ("path", "gone", "left"),
    [
        (("currentMode",), '"currentMode": "role:coder",', "// whom I like"),
        (("models", "base"), '"base": "openai:a",', "/* quick */"),
        (("models", "fast"), ' "fast": "openai:b"', "/* quick */"),
        (("modelPatience", "attempts"), '    "attempts": 3\n', "// slow here"),
    ],
)
def test_what_is_taken_out_leaves_its_comments(path: Sequence[str], gone: str, left: str) -> None:
    edited = without_value(COMMENTED, path)

    assert edited is not None
    assert gone not in edited
    assert left in edited
    assert parse(edited).flaws == ()


def test_taking_out_what_is_not_there_changes_nothing() -> None:
    assert without_value(COMMENTED, ("budget", "usd")) == COMMENTED
    assert without_value("", ("budget", "usd")) == ""


CHARS = st.characters(exclude_categories=["Cs"], exclude_characters="\0")
KEYS = st.sampled_from(SETTABLE).map(lambda key: tuple(key.split(".")))
VALUES = st.one_of(
    st.text(CHARS, max_size=8),
    st.integers(0, 9),
    st.booleans(),
    st.lists(st.text(CHARS, max_size=3)),
)
SPACE = st.sampled_from(["", " ", "\n", "\r\n", " // c\n", "/* , */", "\n\t// {\n"])


@given(st.lists(st.tuples(KEYS, VALUES), max_size=6), SPACE, KEYS, VALUES)
def test_what_is_set_is_read_and_what_is_taken_out_is_gone(
    before: list[tuple[tuple[str, ...], object]], space: str, path: tuple[str, ...], value: object
) -> None:
    text = f"{space}{{{space}}}{space}"
    for each in before:
        text = with_value(text, *each) or text
    if all("," not in str(each[1]) for each in before) and "," not in space:
        text = text.replace(",", f"{space},{space}")
    edited = with_value(text, path, value)

    assert edited is not None
    found = parse(edited)
    assert not found.flaws
    node = found.root
    for key in path:
        node = None if node is None else node.get(key)
    assert node is not None
    assert node.value == value
    rest = without_value(edited, path)
    assert rest is not None
    root = parse(rest).root
    assert root is not None
    inner = root if len(path) == 1 else root.get(path[0])
    assert inner is not None
    assert inner.get(path[-1]) is None


def test_a_setting_counts_and_says_what_it_hides(config: ConfigManager) -> None:
    set_own(config, "notifications", "bell")

    assert config.user_file.read_text() == '{\n  "notifications": "bell"\n}\n'
    assert explained(config, "notifications").splitlines() == [
        f"notifications = bell  (user: {config.user_file})",
        "  hides off (built-in)",
    ]
    assert effect(config, "notifications") == "It takes effect at the next start."


def test_every_setting_a_file_may_have_can_be_set_but_what_has_commands_of_its_own() -> None:
    settable = {key.partition(".")[0] for key in SETTABLE}

    assert settable == set(TOP) - {"defaultRole", "mcpServers", "hooks"}


def test_a_group_is_set_shown_and_taken_out_as_a_whole(config: ConfigManager) -> None:
    set_own(config, "webSearch", '{"provider": "searxng", "url": "http://localhost:8888"}')

    yours = f"  (user: {config.user_file})"
    assert explained(config, "webSearch").splitlines() == [
        f"webSearch.provider = searxng{yours}",
        f"webSearch.url = http://localhost:8888{yours}",
    ]
    set_own(config, "webSearch.provider", "brave")
    assert (
        explained(config, "webSearch.keyVariable")
        == f"webSearch.keyVariable = BRAVE_API_KEY{yours}"
    )
    unset_own(config, "webSearch")
    assert explained(config, "webSearch") == "webSearch is not set."


def test_a_setting_that_was_a_word_becomes_an_object_for_its_part(config: ConfigManager) -> None:
    set_own(config, "traces", "true")
    set_own(config, "traces.endpoint", "http://localhost:4318")

    assert config.own("traces") == {"": "true", "endpoint": "http://localhost:4318"}


def test_models_stands_for_every_level(config: ConfigManager) -> None:
    set_own(config, "models", "ollama:qwen3:8b")

    assert set(config.models.values()) == {"ollama:qwen3:8b"}
    unset_own(config, "models")
    assert "ollama:qwen3:8b" not in config.models.values()


@pytest.mark.parametrize(
    ("key", "value", "said"),
    [
        ("autoResume", "yes", '$.autoResume: expected true or false, found "yes".'),
        ("editing", "vim", 'expected emacs or vi, found "vim". Did you mean "vi"?'),
        ("modelPatience.attempts", "0", "2:33 $.modelPatience.attempts: expected a number from 1"),
        ("budget.usd", "-1", "$.budget.usd: expected a number above 0, found -1."),
        ("permissions.deny", '["exce: rm"]', "$.permissions.deny[0]"),
        ("permissions.allow", "exec: make", 'Write a list of rules as ["exec: make test", '),
        ("permissionMode", "full", "full is for one session"),
        ("models.base", "", "expected a model"),
        ("editting", "vi", "Did you mean 'editing'?"),
        ("base", "a:b", "Did you mean 'models.base'?"),
        ("modelPatience", "3", 'expected an object {"firstByteSeconds": ...'),
        ("OPENAI_API_KEY", "x", "API keys are not settings"),
        ("models.base", f"sk-proj-{'a1B2' * 12}", "looks like a secret"),
        ("mcpServers.x", "y", "midstream config edit"),
    ],
)
def test_what_does_not_fit_is_said_as_its_reader_would_and_not_written(
    config: ConfigManager, key: str, value: str, said: str
) -> None:
    with pytest.raises(UserMistake) as refused:
        set_own(config, key, value)

    assert said in str(refused.value)
    assert value not in str(refused.value) or not value.startswith("sk-")
    assert not config.user_file.exists()


@pytest.mark.parametrize("key", [*FEW_VALUES])
def test_the_few_values_of_a_setting_are_all_taken_and_no_other(
    config: ConfigManager, key: str
) -> None:
    for value in FEW_VALUES[key]:
        assert set_own(config, key, value)[0].value == value
    with pytest.raises(UserMistake):
        set_own(config, key, "another")


@pytest.mark.parametrize("sign", ["\0", "\ud800"])
def test_a_sign_that_cannot_stand_in_a_file_is_not_blamed_on_the_file(
    config: ConfigManager, sign: str
) -> None:
    wrote(config, '{"editing": "vi"}')

    with pytest.raises(UserMistake, match="cannot be written into"):
        set_own(config, "models.base", f"a:{sign}")


def test_a_broken_file_stays_as_it_is_and_its_place_is_named(config: ConfigManager) -> None:
    wrote(config, '{"editing": "vi",, }')

    with pytest.raises(UserMistake, match=r"application\.json:1:18 .*midstream config edit"):
        set_own(config, "editing", "emacs")
    with pytest.raises(UserMistake, match="midstream config edit"):
        unset_own(config, "editing")
    assert config.user_file.read_text() == '{"editing": "vi",, }'


def test_an_older_problem_elsewhere_does_not_keep_a_setting_from_being_set(
    config: ConfigManager,
) -> None:
    wrote(config, '{"editing": "vim"}')

    set_own(config, "autoResume", "true")

    assert config.is_on("autoResume")


def test_a_setting_that_another_layer_beats_says_so(tmp_path: Path) -> None:
    home = {"MIDSTREAM_CONFIG_HOME": str(tmp_path), "MIDSTREAM_MODEL": "offline"}
    config = ConfigManager(tmp_path, environ=home)

    set_own(config, "models.base", "openai:x")

    assert effect(config, "models.base") == (
        "It has no effect yet: offline of the environment: MIDSTREAM_MODEL wins."
    )


def test_a_value_that_is_not_set_cannot_be_taken_out(config: ConfigManager) -> None:
    with pytest.raises(UserMistake, match=r"editing is not set in .*config get editing"):
        unset_own(config, "editing")


def test_what_an_editor_begins_with_is_fine_and_sets_nothing(config: ConfigManager) -> None:
    assert own_problems(config, template()) == ()
    root = parse(template()).root
    assert root is not None
    assert root.members == {}
    assert '// "editing": "emacs"' in template()
