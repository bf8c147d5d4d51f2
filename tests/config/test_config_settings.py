"""application.json: what it may say, and that changing the mode changes nothing else."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from midstream.config.settings import KEYS, RULE_KEYS, read_settings, with_mode
from midstream.language.json_text import parse
from midstream.language.names import Mode

CODER = Mode("role", "coder")


def read(text: str, *, is_workspace: bool = False) -> tuple[dict[str, str], list[str]]:
    settings, problems = read_settings(text, file="a.json", is_workspace=is_workspace)
    return settings, [str(problem) for problem in problems]


def test_mode_and_models_are_read() -> None:
    text = '{"currentMode": "workflow:x", "models": {"base": "openai:a", "fast": " b "}} // fine'

    assert read(text) == (
        {"currentMode": "workflow:x", "models.base": "openai:a", "models.fast": "b"},
        [],
    )


def test_patience_with_models_is_read_within_bounds() -> None:
    settings, said = read(
        '{"modelPatience": {"firstByteSeconds": 0.5, "totalSeconds": 0, "attempts": 1.5,\n'
        '"silence": 1, "silenceSeconds": 9}}'
    )

    assert settings == {
        "modelPatience.firstByteSeconds": "0.5",
        "modelPatience.silenceSeconds": "9",
    }
    assert said == [
        "a.json:1:61 $.modelPatience.totalSeconds: expected a number from 0.01 to 86400, found 0.",
        "a.json:1:76 $.modelPatience.attempts: expected a whole number, found 1.5.",
        'a.json:2:1 $.modelPatience.silence: there is no "silence" here; ignored. '
        'Did you mean "silenceSeconds"?',
    ]


def test_a_workspace_may_not_shorten_patience() -> None:
    settings, said = read('{"modelPatience": {"totalSeconds": 1}}', is_workspace=True)

    assert settings == {}
    assert "a workspace may not choose models" in said[0]


def test_the_older_key_is_read_with_a_notice() -> None:
    assert read('{"defaultRole": "coder"}') == (
        {"currentMode": "role:coder"},
        [
            'a.json:1:17 $.defaultRole: warning: "defaultRole" is the older name of '
            '"currentMode": read as "role:coder".'
        ],
    )


def test_the_newer_key_wins_over_the_older_wherever_it_stands() -> None:
    assert read('{"defaultRole": "a", "currentMode": "role:b"}')[0] == {"currentMode": "role:b"}
    assert read('{"currentMode": "role:b", "defaultRole": "a"}')[0] == {"currentMode": "role:b"}


def test_a_wrong_setting_is_told_and_left_out_and_the_others_count() -> None:
    settings, said = read(
        '{"currentMode": "dude", "modles": 1,\n'
        '"models": {"base": 5, "smart": "", "fasst": "x", "fast": "ok"}}'
    )

    assert settings == {"models.fast": "ok"}
    assert said == [
        "a.json:1:17 $.currentMode: 'dude' is not a mode. "
        "Did you mean 'role:dude' or 'workflow:dude'?",
        'a.json:1:35 $.modles: warning: unknown key "modles" is ignored. Did you mean "models"?',
        "a.json:2:20 $.models.base: expected text, found 5.",
        'a.json:2:32 $.models.smart: expected a model such as "openai:gpt-5", found "".',
        'a.json:2:36 $.models.fasst: there is no level "fasst"; ignored. Did you mean "fast"?',
    ]


@pytest.mark.parametrize(
    ("text", "settings", "said"),
    [
        ("true", {"autoResume": "true"}, []),
        ("false", {"autoResume": "false"}, []),
        ('"yes"', {}, ['a.json:1:16 $.autoResume: expected true or false, found "yes".']),
    ],
)
def test_auto_resume_is_a_yes_or_no(text: str, settings: dict[str, str], said: list[str]) -> None:
    assert read(f'{{"autoResume": {text}}}') == (settings, said)


@pytest.mark.parametrize(
    ("text", "settings", "said"),
    [
        ('"bell"', {"notifications": "bell"}, []),
        ('"desktop"', {"notifications": "desktop"}, []),
        (
            '"bel"',
            {},
            [
                "a.json:1:19 $.notifications: expected one of off, bell, desktop, "
                'found "bel". Did you mean "bell"?'
            ],
        ),
        (
            "true",
            {},
            ["a.json:1:19 $.notifications: expected text, found true."],
        ),
    ],
)
def test_how_a_person_is_called_is_one_of_three(
    text: str, settings: dict[str, str], said: list[str]
) -> None:
    assert read(f'{{"notifications": {text}}}') == (settings, said)


def test_a_workspace_calls_nobody() -> None:
    settings, said = read('{"notifications": "bell"}', is_workspace=True)

    assert settings == {}
    assert "a workspace may not set notifications" in said[0]


def test_a_workspace_lets_no_run_go_on_by_itself() -> None:
    settings, said = read('{"autoResume": true}', is_workspace=True)

    assert settings == {}
    assert said == [
        "a.json:1:16 $.autoResume: a workspace may not make runs resume by themselves; ignored. "
        "Set it in your own application.json."
    ]


@pytest.mark.parametrize(
    ("text", "settings", "said"),
    [
        ('"vi"', {"editing": "vi"}, []),
        ('"emacs"', {"editing": "emacs"}, []),
        ("true", {}, ["a.json:1:13 $.editing: expected text, found true."]),
        (
            '"vim"',
            {},
            ['a.json:1:13 $.editing: expected emacs or vi, found "vim". Did you mean "vi"?'],
        ),
    ],
)
def test_whose_keys_edit_the_line(text: str, settings: dict[str, str], said: list[str]) -> None:
    assert read(f'{{"editing": {text}}}') == (settings, said)


def test_a_workspace_does_not_change_the_keys() -> None:
    settings, said = read('{"editing": "vi"}', is_workspace=True)

    assert settings == {}
    assert "a workspace may not change the keys" in said[0]


def test_a_workspace_may_set_the_mode_and_nothing_that_loosens() -> None:
    settings, said = read(
        '{"currentMode": "role:coder", "models": {"base": "evil:m"}, "baseUrl": "http://x"}',
        is_workspace=True,
    )

    assert settings == {"currentMode": "role:coder"}
    assert len(said) == 2
    assert "a workspace may not choose models" in said[0]
    assert 'unknown key "baseUrl" is ignored' in said[1]


@given(
    st.text()
    | st.recursive(
        st.none() | st.integers() | st.text(max_size=4) | st.sampled_from(["role:a", "x:"]),
        lambda inner: (
            st.lists(inner, max_size=3)
            | st.dictionaries(
                st.sampled_from(["currentMode", "defaultRole", "models", "base", "fast", "x"]),
                inner,
            )
        ),
        max_leaves=10,
    ).map(json.dumps)
)
def test_no_text_makes_reading_or_editing_raise(text: str) -> None:
    settings, _ = read_settings(text, file="a.json")
    assert settings.keys() <= {*KEYS, *RULE_KEYS}

    edited = with_mode(text, CODER)
    if edited is not None:
        assert read_settings(edited, file="a.json")[0] == {**settings, "currentMode": "role:coder"}


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("", '{\n  "currentMode": "role:coder"\n}\n'),
        ("{}", '{\n  "currentMode": "role:coder"\n}'),
        ("{ // mine\n}\n", '{\n  "currentMode": "role:coder" // mine\n}\n'),
        (
            '// top\n{\n  // about it\n  "currentMode": "role:dude", // why\n  "x": [1,]\n}',
            '// top\n{\n  // about it\n  "currentMode": "role:coder", // why\n  "x": [1,]\n}',
        ),
        ('{\n  "x": 1\n}', '{\n  "currentMode": "role:coder",\n  "x": 1\n}'),
        ('{"defaultRole": "dude"}', '{"currentMode": "role:coder"}'),
        ('{"currentMode": ["broken"]}', '{"currentMode": "role:coder"}'),
    ],
)
def test_the_mode_is_changed_and_everything_else_stays(before: str, after: str) -> None:
    assert with_mode(before, CODER) == after


@pytest.mark.parametrize("text", ["[]", "{", '{"a": 1 "b": 2}', '{"a": 1, "a": 2}'])
def test_a_file_that_could_lose_something_is_not_edited(text: str) -> None:
    assert with_mode(text, CODER) is None


@given(
    st.dictionaries(
        st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0")),
        st.integers(0, 9),
    )
)
def test_unknown_keys_survive_an_edit(settings: dict[str, Any]) -> None:
    edited = with_mode(json.dumps(settings), CODER)

    assert edited is not None
    root = parse(edited).root
    assert root is not None
    kept = {
        key: value for key, value in settings.items() if key not in ("currentMode", "defaultRole")
    }
    assert {key: root.value[key] for key in kept} == kept
    assert root.value["currentMode"] == "role:coder"


def test_rates_are_read_by_what_they_are_of() -> None:
    settings, said = read(
        '{"requestsPerMinute": {"openai:a": 60, "$K": 0.5, "user": 3, "gpt": 1, "x:y": 0, "z:y": "1"}}'
    )
    assert settings == {"requestsPerMinute": '{"openai:a": 60, "$K": 0.5, "user": 3}'}
    assert [line.partition(": ")[2] for line in said] == [
        '"gpt" is no model, no $VARIABLE of a key and not "user".',
        "expected a number above 0, found 0.",
        'expected a number, found "1".',
    ]
    assert read('{"requestsPerMinute": {"user": 1}}', is_workspace=True)[0] == {}
