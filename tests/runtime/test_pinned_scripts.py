"""A definition holds its script's text, and runs from it whatever becomes of the file."""

import json
from pathlib import Path

import pytest

from midstream.config.manager import ConfigManager
from midstream.core.run import Run
from midstream.language.errors import NotTrusted
from midstream.runtime.script_outline import source_of, text_of
from midstream.runtime.workflow_library import WorkflowLibrary
from midstream.testing.fakes import FakeTools

FLOW = {
    "workflow_name": "Another name",
    "states": [{"name": "start", "post_handler": "note"}, {"name": "stop"}],
}


@pytest.mark.parametrize(
    "source",
    [
        b"word = 'caf\xc3\xa9'\n",
        b"# -*- coding: latin-1 -*-\nword = 'caf\xe9'\n",
        b"\xef\xbb\xbfword = 'caf\xc3\xa9'\n",
        b"word = 'caf\xc3\xa9'\r\n",
    ],
)
def test_a_script_is_the_same_program_again_whatever_its_encoding(source: bytes) -> None:
    text = text_of(source)
    again: dict[str, object] = {}
    module = compile(source_of(text), "script.py", "exec")
    for constant in module.co_consts:
        again[repr(constant)] = constant

    assert "café" in again.values()
    assert text_of(source_of(text)) == text


def library(home: Path, script: bytes | None) -> WorkflowLibrary:
    """Return a library with one workflow."""
    folder = home / "config" / "workflows"
    (folder / "noting").mkdir(parents=True, exist_ok=True)
    flow = FLOW if script else {**FLOW, "states": [{"name": "start"}, {"name": "stop"}]}
    (folder / "noting.json").write_text(json.dumps(flow), encoding="utf-8")
    if script is not None:
        (folder / "noting" / "script.py").write_bytes(script)
    environ = {"MIDSTREAM_CONFIG_HOME": str(home / "config")}
    return WorkflowLibrary(ConfigManager(home, environ=environ), FakeTools().specs())


async def test_a_loaded_workflow_knows_its_script_and_the_name_it_was_found_by(
    tmp_path: Path,
) -> None:
    definition, _ = await library(tmp_path, b"def note(run): ...\n").load("noting")
    plain, _ = await library(tmp_path / "plain", None).load("noting")

    assert (definition.found_as, definition.script) == ("noting", "def note(run): ...\n")
    assert (plain.found_as, plain.script) == ("noting", None)


async def test_pinned_handlers_come_from_the_text_and_stand_where_the_file_stood(
    tmp_path: Path,
) -> None:
    script = b"def note(run):\n    run.common_data['at'] = note.__code__.co_filename\n"
    found = library(tmp_path, script)
    definition, _ = await found.load("noting")
    file = tmp_path / "config" / "workflows" / "noting" / "script.py"
    file.write_text("def note(run): 1 / 0\n", encoding="utf-8")
    pinned = await found.pinned(definition)
    result = await pinned.call("note", Run(id="one"), print)
    (file.parents[1] / "noting.json").unlink()
    gone = await (await found.pinned(definition)).call("note", Run(id="one"), print)

    assert result.changed == {"at": str(file)}
    assert str(gone.changed["at"]).endswith("workflows/noting/script.py")


async def test_a_pinned_script_is_not_run_in_a_workspace_nobody_trusts_now(tmp_path: Path) -> None:
    mark = tmp_path / "was here"
    found = library(
        tmp_path,
        f"import pathlib\npathlib.Path({str(mark)!r}).touch()\ndef note(run): ...\n".encode(),
    )
    definition, _ = await found.load("noting")
    mark.unlink()
    environ = {"MIDSTREAM_CONFIG_HOME": str(tmp_path / "config")}
    config = ConfigManager(tmp_path, environ=environ)
    config.is_untrusted = True
    with pytest.raises(NotTrusted, match="not trusted"):
        await WorkflowLibrary(config, FakeTools().specs()).pinned(definition)

    assert not mark.exists()
