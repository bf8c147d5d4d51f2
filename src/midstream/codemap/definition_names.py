"""What the files of a map define, each read as its language is best read."""

from pathlib import Path, PurePosixPath

from midstream.codemap.code_file import FILE_S, MAX_FILE_BYTES, at_most
from midstream.codemap.ctags import Ctags, found_ctags
from midstream.codemap.definition import Definitions
from midstream.codemap.language_patterns import by_patterns
from midstream.codemap.map_sources import Seen
from midstream.codemap.python_source import of_python
from midstream.codemap.source_files import read_regular


class Reader:
    """Says what a file is about and what it defines: of a file that is asked of twice only once."""

    def __init__(self, root: Path) -> None:
        self._root = root
        self._ctags: Ctags | None = None
        self._has_looked = False
        self._known: dict[str, tuple[str, Definitions]] = {}

    def __call__(self, seen: Seen) -> tuple[str, Definitions]:
        """Return what a file is about ("": nobody says) and what it defines."""
        if seen.path not in self._known:
            self._known[seen.path] = self._read(seen)
        return self._known[seen.path]

    def _read(self, seen: Seen) -> tuple[str, Definitions]:
        if seen.is_plain:
            return "", ()
        data = read_regular(self._root, seen.path, max_bytes=MAX_FILE_BYTES)
        if data is None:
            return "", ()
        source = data.decode(errors="replace").replace("\r\n", "\n")
        try:
            with at_most(FILE_S):
                return self._defined(seen, source, data)
        except TimeoutError:
            # Whatever it was about to answer is not waited for any more.
            self.close()
            return "", ()

    def _defined(self, seen: Seen, source: str, data: bytes) -> tuple[str, Definitions]:
        if seen.language == "Python":
            found = of_python(source.removeprefix("\ufeff"))
            if found is not None:
                return " ".join(found[0].split()), found[1]
        elif (ctags := self._found()) is not None:
            tags = ctags.definitions(PurePosixPath(seen.path).name, data)
            if tags:
                return "", tags
        return "", by_patterns(source, seen.language)

    def _found(self) -> Ctags | None:
        if not self._has_looked:
            self._has_looked = True
            self._ctags = found_ctags(self._root)
        return self._ctags

    def close(self) -> None:
        """End what was started; without it, definitions are found by patterns."""
        if self._ctags is not None:
            self._ctags.close()
