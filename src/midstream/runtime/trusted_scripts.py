"""Python files of a person's own, run from the very bytes that were read and trusted.

A cached `.pyc` is neither read nor written: what was trusted is the source, and a cache file put
beside it would run in its place.
"""

import importlib.abc
import importlib.util
import sys
import traceback
from hashlib import sha256
from pathlib import Path
from types import ModuleType


class _Source(importlib.abc.SourceLoader):
    """Loads a module from bytes. Without a time for the source, no cache is looked for."""

    def __init__(self, path: Path, source: bytes) -> None:
        self._path = path
        self._source = source

    def get_filename(self, fullname: str) -> str:
        return str(self._path)

    def get_data(self, path: str | bytes) -> bytes:
        return self._source


def module_from(path: Path, source: bytes) -> ModuleType:
    """Return the module of a file's source, run at once in this thread.

    Args:
        path: the file, for tracebacks; it is not read.
        source: its bytes, as read and trusted.

    Raises:
        BaseException: whatever the file raises, or a SyntaxError; `failed_at` finds the line.
    """
    name = f"midstream_own_{sha256(str(path).encode()).hexdigest()[:12]}_{path.stem}"
    spec = importlib.util.spec_from_loader(name, _Source(path, source), origin=str(path))
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    # Type hints written as text, and dataclasses, are looked up through sys.modules.
    sys.modules[name] = module
    try:
        spec.loader.exec_module(module)
    except BaseException:
        sys.modules.pop(name, None)
        raise
    return module


def failed_at(error: BaseException, path: Path) -> int:
    """Return the line of the file an error came from, 0 where it came from elsewhere."""
    if isinstance(error, SyntaxError) and error.filename == str(path):
        return error.lineno or 0
    frames = traceback.extract_tb(error.__traceback__)
    lines = [frame.lineno for frame in frames if frame.filename == str(path)]
    return (lines[-1] or 0) if lines else 0
