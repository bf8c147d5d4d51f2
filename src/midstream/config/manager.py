"""ConfigManager: every setting, role and workflow, and which layer each comes from.

Layers, the later winning: built-in, user, workspace, environment, command line, and what was set
while the console runs. A workspace takes part only with a `Grant` (see `trust`), and may choose a
mode, roles and workflows, never models, endpoints, keys or permissions: those it cannot even name.

Only application.json is read at the start, so that the prompt comes up at once. Roles and workflows
are read when asked for, and again when their files change. What is wrong with any file becomes a
notice, and the layer below counts: no file of settings can keep midstream from starting.
"""

import ast
import json
import os
from collections.abc import Callable, Container, Iterator, Mapping
from contextlib import suppress
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, TypeAlias, TypeVar, cast

import msgspec

from midstream.config.directories import (
    ADDRESS_MARK,
    BUILT_IN,
    CONFIG_HOME,
    OTHERS_FOLDER,
    PLUGIN_PARTS,
    PLUGINS,
    SETTINGS,
    WORKSPACE_FOLDER,
    blobs_place,
    database_place,
    journal_database,
    journal_file,
    shown_address,
    user_config_dir,
    user_state_dir,
)
from midstream.config.private_files import (
    CHECK_NAME,
    FileMissing,
    read_capped,
    require_private,
    shown_path,
    write_whole,
)
from midstream.config.settings import (
    BUDGET,
    BUDGET_PARTS,
    CURRENT_MODE,
    DIAGNOSTICS,
    EDITING,
    FRACTIONAL,
    KEYS,
    LEVELS,
    MODELS,
    NOTIFICATIONS,
    OWN_KEYS,
    PATIENCE,
    PATIENCE_PARTS,
    PERMISSION_MODE,
    RATES,
    RULE_KEYS,
    STATUS_LINE,
    THEME,
    Editing,
    Notifications,
    Theme,
    for_every_level,
    read_settings,
    with_mode,
)
from midstream.config.trust import WORDS_FOLDERS, Grant, TrustStore
from midstream.language.errors import (
    MidstreamError,
    NotTrusted,
    OurBug,
    UserMistake,
    WorldTrouble,
    did_you_mean,
)
from midstream.language.json_text import parse
from midstream.language.names import Json, Mode, python_file
from midstream.language.problem import Problem
from midstream.language.role_text import SUFFIXES
from midstream.language.spec import Budget, Role
from midstream.safety.capability import PermissionMode

if TYPE_CHECKING:
    from midstream.safety.policy import Policy

Layer: TypeAlias = Literal[
    "built-in", "user", "workspace", "environment", "command line", "this session", "plugin"
]
"""Whose something is. Of a plugin are files alone: none has settings."""
LAYERS: tuple[Layer, ...] = (
    "built-in",
    "user",
    "workspace",
    "environment",
    "command line",
    "this session",
)

WORKFLOW_SUFFIXES = (".json", ".py")

T = TypeVar("T")


class Setting(msgspec.Struct, frozen=True, kw_only=True):
    """A setting as it counts, and who said so: the layer, and the file or variable in it.

    `hidden` are the layers below that say something else, the strongest first, with what they say.
    """

    key: str
    value: str
    layer: Layer
    source: str
    hidden: tuple[tuple[Layer, str], ...] = ()


class RoleFile(msgspec.Struct, frozen=True, kw_only=True):
    """A role and where it comes from."""

    name: str
    role: Role
    path: Path
    layer: Layer


class WorkflowFile(msgspec.Struct, frozen=True, kw_only=True):
    """A workflow's file. `problem` says in one line why it cannot be read as JSON, "" when it can."""

    name: str
    path: Path
    description: str
    layer: Layer
    problem: str = ""


class ConfigManager:
    """The settings, roles and workflows that count in one workspace.

    Args:
        workspace: the folder midstream works in.
        mode: what the command line said; None where it said nothing.
        model: the same.
        environ: the environment; the process's own by default.

    `is_untrusted`: the workspace has files of its own, and nobody has said yes to them. `journal` is the
    file that keeps the runs; where a database does (`database`, its address with the password) it only
    stands for the place of this machine's sockets.

    Raises:
        UserMistake: `mode` is not of the form `type:name`, or other users can change the user's own
            settings. No file's content raises.
    """

    def __init__(
        self,
        workspace: Path,
        *,
        mode: str | None = None,
        model: str | None = None,
        environ: Mapping[str, str] | None = None,
    ) -> None:
        env = os.environ if environ is None else environ
        self.workspace = Path(os.path.realpath(workspace))
        self.grant: Grant | None = None
        self.is_untrusted = False
        self.user_dir = user_config_dir(env)
        self.state_dir = user_state_dir(env)
        self.journal = journal_file(env, self.state_dir)
        self.database = journal_database(env)
        self.blobs = blobs_place(env)
        for place in (self.user_dir, self.user_file):
            require_private(place, CONFIG_HOME)
        self._notices: dict[str, None] = {}
        self._cache: dict[Path, tuple[object, Any]] = {}
        self._plugins: dict[str, Grant] | None = None
        self._plugins_folder = Path(os.path.realpath(self.user_dir / PLUGINS))
        self._said: dict[Layer, tuple[str, dict[str, str]]] = {}
        self._read_layer("built-in", BUILT_IN / SETTINGS)
        self._read_layer("user", self.user_file)
        if env.get("MIDSTREAM_MODEL", "").strip():
            chosen = env["MIDSTREAM_MODEL"].strip()
            self._said["environment"] = ("MIDSTREAM_MODEL", dict(for_every_level(chosen)))
        said: dict[str, str] = {} if model is None else dict(for_every_level(model))
        if mode is not None:
            said[CURRENT_MODE] = str(Mode.parse(mode))
        self._said["command line"] = ("--mode, --model", said)
        self._said["this session"] = ("/mode, /model", {})

    def trust(self, grant: Grant, *, notice: str = "") -> None:
        """Let the workspace's files take part from now on, as they stand in the grant.

        `notice` is what the person should hear of it, such as that it will not be remembered.

        Raises:
            OurBug: the grant is for another workspace.
        """
        if grant.workspace != str(self.workspace):
            raise OurBug(f"The grant is for {grant.workspace}, not for {self.workspace}.")
        self.grant = grant
        if notice:
            self.notice(notice)
        self._said.pop("workspace", None)
        if SETTINGS in grant.files:
            self._read_layer("workspace", grant.folder / SETTINGS)

    # --- settings ---

    def keep_runs_in(self, place: str | Path) -> None:
        """Keep the runs in another file, or in a database: then it is an address."""
        self.database = str(place) if ADDRESS_MARK in str(place) else ""
        self.journal = database_place(self.state_dir) if self.database else Path(place).absolute()

    @property
    def journal_shown(self) -> str:
        """Return where the runs are kept, as a person is told: an address has no password."""
        return shown_address(self.database) if self.database else str(self.journal)

    @property
    def blobs_folder(self) -> Path | None:
        """Return the folder of large contents, None where a database, a bucket or the journal has them."""
        is_folder = self.database and self.blobs and ADDRESS_MARK not in self.blobs
        return Path(self.blobs) if is_folder else None

    @property
    def user_file(self) -> Path:
        """Return the user's own application.json. It may not exist."""
        return self.user_dir / SETTINGS

    @property
    def notices(self) -> tuple[str, ...]:
        """Return what is wrong with the files read so far, one line each, each once."""
        return tuple(self._notices)

    @property
    def mode(self) -> Mode:
        """Return the mode that counts. Whether its role or workflow exists is not looked at."""
        return Mode.parse(self.value(CURRENT_MODE))

    @property
    def is_mode_asked_for(self) -> bool:
        """Return whether the command line named the mode, instead of one that was saved."""
        return self._setting(CURRENT_MODE).layer == "command line"

    def is_on(self, key: str) -> bool:
        """Return whether a setting that is true or false is true."""
        return self.value(key) == "true"

    @property
    def diagnostics(self) -> dict[str, list[str]] | bool:
        """Return the commands that check changes, by patterns; True: those the project's files name.

        Once a layer says false, none does: a workspace cannot turn on what a person has turned off.
        """
        said = [values[DIAGNOSTICS] for _, values in self._said.values() if DIAGNOSTICS in values]
        if "false" in said:
            return False
        commands: dict[str, list[str]] | bool = json.loads(self.value(DIAGNOSTICS))
        return commands

    @property
    def editing(self) -> Editing:
        """Return whose keys the line is edited with."""
        return cast(Editing, self.value(EDITING))

    @property
    def notifications(self) -> Notifications:
        """Return how the terminal calls a person who looks elsewhere."""
        return cast(Notifications, self.value(NOTIFICATIONS))

    @property
    def theme(self) -> Theme:
        """Return in which colours the console is drawn."""
        return cast(Theme, self.value(THEME))

    def own(self, group: str) -> dict[str, str]:
        """Return what the user's own file says of a group such as `webSearch`, by part; "" is the group."""
        _, said = self._said.get("user", ("", {}))
        start = f"{group}."
        return {
            key.removeprefix(group).removeprefix("."): value
            for key, value in said.items()
            if key == group or key.startswith(start)
        }

    @property
    def keys(self) -> dict[str, list[str]]:
        """Return the names of the keys the user gives actions of the console (`views.key_table`)."""
        return {action: json.loads(names) for action, names in self.own(OWN_KEYS).items()}

    @property
    def status_line(self) -> dict[str, str]:
        """Return the parts of the user's own `statusLine`, {} where there is none."""
        return {part: value for part, value in self.own(STATUS_LINE).items() if value}

    @property
    def budget(self) -> Budget | None:
        """Return what each run may use at most; None: as much as its workflow says.

        Of every part the smallest of all layers counts: a workspace may lower it, never raise it.
        """
        limits: dict[str, Json] = {}
        for part, name in BUDGET_PARTS.items():
            key = f"{BUDGET}.{part}"
            values = [float(said[key]) for _, said in self._said.values() if key in said]
            if values:
                limits[name] = min(values) if part in FRACTIONAL else int(min(values))
        return msgspec.convert(limits, Budget) if limits else None

    @property
    def permissions(self) -> "Policy":
        """Return what may happen without asking, by the files that count; no sandbox is assumed.

        Every layer's rules count beside each other. Those of the workspace only narrow.
        """
        from midstream.safety.policy import Policy  # asked for once the prompt is there

        own = [self._rules(layer) for layer in ("built-in", "user")]
        allow, ask, deny = (tuple(chain(*lists)) for lists in zip(*own, strict=True))
        _, narrowing_ask, narrowing_deny = self._rules("workspace")
        return Policy(
            mode=cast(PermissionMode, self.value(PERMISSION_MODE)),
            allow=allow,
            ask=ask,
            deny=deny,
            narrowing_ask=narrowing_ask,
            narrowing_deny=narrowing_deny,
        )

    def _rules(self, layer: Layer) -> tuple[tuple[str, ...], ...]:
        """Return the lists of rules of a layer, in the order of `RULE_KEYS`."""
        _, said = self._said.get(layer, ("", {}))
        return tuple(tuple(json.loads(said.get(key, "[]"))) for key in RULE_KEYS)

    @property
    def models(self) -> dict[str, str]:
        """Return the model behind each level (base, smart, fast)."""
        return {level: self.value(f"{MODELS}.{level}") for level in LEVELS}

    @property
    def rates(self) -> dict[str, float]:
        """Return the requests a minute of a model, for a key (`$VARIABLE`), for each `user`."""
        return dict(json.loads(self.own(RATES).get("", "{}")))

    @property
    def patience(self) -> dict[str, float]:
        """Return how long to wait for a model, in seconds, and how many attempts a request gets."""
        return {part: float(self.value(f"{PATIENCE}.{part}")) for part in PATIENCE_PARTS}

    def value(self, key: str) -> str:
        """Return the setting that counts for a key such as `currentMode` or `models.base`.

        Raises:
            UserMistake: there is no such setting.
        """
        return self._setting(key).value

    def explain(self) -> tuple[Setting, ...]:
        """Return every setting with the layer it comes from, for `/config`."""
        # What layers say beside each other, none hiding another's.
        beside = [
            Setting(key=key, value=value, layer=layer, source=source)
            for layer, (source, said) in self._said.items()
            for key, value in said.items()
            if key not in KEYS and value not in ("", "[]")  # an empty status line is none
        ]
        return (*(self._setting(key) for key in KEYS), *beside)

    @property
    def saved_mode(self) -> Mode | None:
        """Return the mode the user's application.json names, None where it names none."""
        mode = self._said.get("user", ("", {}))[1].get(CURRENT_MODE)
        return None if mode is None else Mode.parse(mode)

    def set_mode(self, mode: Mode) -> None:
        """Change the mode in this session."""
        self._said["this session"][1][CURRENT_MODE] = str(mode)

    def use_model(self, model: str | None, level: str | None = None) -> None:
        """Use one model for every level, or for one, in this session; None: what the layers below say."""
        said = self._said["this session"][1]
        if level is not None:
            key = f"{MODELS}.{level}"
            own = {each: value for each, value in said.items() if each != key}
            said.clear()
            said.update(own if model is None else own | {key: model})
        elif model is None:
            for level in LEVELS:
                said.pop(f"{MODELS}.{level}", None)
        else:
            said.update(for_every_level(model))

    def check_mode(self, mode: Mode) -> None:
        """Return if the mode's role or workflow exists.

        Raises:
            UserMistake: it does not; the hint names the nearest one.
        """
        if mode.kind == "workflow" and python_file(mode.name) is not None:
            path = self.workflow_path(mode.name)
            if not path.is_file():
                raise FileMissing(f"There is no file {shown_path(path)}.", hint=CHECK_NAME)
            return
        known = self.roles() if mode.kind == "role" else self.workflows()
        if mode.name not in known:
            # Who types a file's path means what the file is called.
            stem = mode.name.rpartition("/")[2].removesuffix(".json")
            if mode.kind == "workflow" and stem in self.untrusted_workflows():
                raise NotTrusted(
                    f"The workflow {stem} is there, but its current version is not trusted.",
                    hint="/trust in the console, or midstream trust, shows it and lets you trust it.",
                )
            raise UserMistake(
                f"There is no {mode.kind} {mode.name!r}.", hint=did_you_mean(stem, known)
            )

    def _setting(self, key: str) -> Setting:
        if key not in KEYS:
            raise UserMistake(f"There is no setting {key!r}.", hint=did_you_mean(key, KEYS))
        said = [
            (layer, *self._said[layer])
            for layer in reversed(LAYERS)
            if layer in self._said and key in self._said[layer][1]
        ]
        layer, source, settings = said[0]
        hidden = tuple((lower, values[key]) for lower, _, values in said[1:])
        return Setting(key=key, value=settings[key], layer=layer, source=source, hidden=hidden)

    def save_mode(self, mode: Mode | None) -> str:
        """Write a mode to the user's file, or take out the one there (None); return a notice, or "".

        The mode of this session stays as it is. What could not be written, or will not count at the next
        start, the notice says; the file is then as it was. Comments and other keys of the file stay. Waits
        for the disk: call it off the loop.
        """
        file = shown_path(self.user_file)
        stays = "" if mode is None else f"The mode is {mode} until you leave: "
        try:
            text = read_capped(self.user_file).decode("utf-8")
        except FileMissing:
            text = ""
        except (WorldTrouble, UnicodeDecodeError):
            return f"{stays}{file} cannot be read, so it stays as it is."
        edited = with_mode(text, mode)
        if edited is None:
            return f"{stays}{file} has problems, so it stays as it is."
        if edited != text:
            try:
                write_whole(self.user_file, edited.encode("utf-8"))
            except WorldTrouble as trouble:
                return f"{stays}{trouble.what}"
        if mode is None:
            return ""
        source, settings = self._said.get("workspace", ("", {}))
        fixed = settings.get(CURRENT_MODE, str(mode))
        return "" if fixed == str(mode) else f"At the next start here, {source} sets {fixed} again."

    def _read_layer(self, layer: Layer, path: Path) -> None:
        file = shown_path(path)
        try:
            text = self.read(path).decode("utf-8-sig")
        except FileMissing:
            return
        except (UnicodeDecodeError, MidstreamError) as error:
            self.notice_unread(path, error)
            return
        settings, problems = read_settings(text, file=file, is_workspace=layer == "workspace")
        for problem in problems:
            self.notice(str(problem))
        self._said[layer] = (file, settings)

    def reread(self) -> None:
        """Read the user's application.json again, which was written. What was said of it stays said."""
        self._said.pop("user", None)
        self._read_layer("user", self.user_file)

    def notice(self, text: str) -> None:
        """Add to the notices what else a person should hear of the files; again changes nothing."""
        self._notices[" ".join(text.split("\n"))] = None

    def notice_unread(self, path: Path, error: Exception, *, so: str = "ignored") -> None:
        """Add to the notices why a file could not be read, and what it is so."""
        is_text = not isinstance(error, UnicodeDecodeError)
        why = f"{error} It" if is_text else f"{shown_path(path)}: not UTF-8 text; it"
        self.notice(f"{why} is {so}.")

    # --- files ---

    def read(self, path: Path) -> bytes:
        """Return a file's bytes; one of the workspace's `.midstream` only as it was trusted.

        Raises:
            NotTrusted: the workspace is not trusted, or the file changed since.
            FileMissing, WorldTrouble: as in `read_capped`.
        """
        folder = self.workspace / WORKSPACE_FOLDER
        others = self.workspace / OTHERS_FOLDER
        named = Path(os.path.abspath(path))
        # A link is caught as what it is (it stands in the folder) and as what it leads to.
        placed = Path(os.path.realpath(named.parent)) / named.name
        for candidate in (named, placed, Path(os.path.realpath(path))):
            if candidate.is_relative_to(self._plugins_folder):
                return self._read_of_plugin(candidate)
            if candidate.is_relative_to(folder):
                if self.grant is None:
                    raise NotTrusted(
                        f"{shown_path(path)} was not read: the workspace is not trusted.",
                        hint="Trust it with --trust-workspace, once you have looked at it.",
                    )
                return self.grant.read(candidate.relative_to(folder).as_posix())
            if any(candidate.is_relative_to(others / each) for each in WORDS_FOLDERS):
                name = candidate.relative_to(self.workspace).as_posix()
                if self.grant is None:
                    raise NotTrusted(
                        f"{shown_path(path)} was not read: the workspace is not trusted.",
                        hint="/trust in the console, or midstream trust, shows it.",
                    )
                return self.grant.read(f"../{name}")
        return read_capped(path)

    def settings_files(self) -> Iterator[tuple[Literal["user", "workspace"], Path, str]]:
        """Yield the user's application.json and a trusted workspace's, with their texts.

        One that cannot be read is left out: it was told when its settings were read.
        """
        layers: list[tuple[Literal["user", "workspace"], Path]] = [("user", self.user_file)]
        if self.grant is not None and SETTINGS in self.grant.files:
            layers.append(("workspace", self.grant.folder / SETTINGS))
        for layer, path in layers:
            with suppress(MidstreamError, UnicodeDecodeError):
                yield layer, path, self.read(path).decode("utf-8-sig")

    def plugins(self) -> dict[str, Grant]:
        """Return the rights to the files of the plugins that are trusted, by name. Hashes them, once."""
        if self._plugins is None:
            from midstream.config.plugins import (
                grants,
            )  # there may be none: the prompt waits for it

            self._plugins, notices = grants(self.user_dir, TrustStore(self.state_dir))
            for notice in notices:
                self.notice(notice)
        return self._plugins

    def _read_of_plugin(self, path: Path) -> bytes:
        for grant in self.plugins().values():
            if path.is_relative_to(grant.folder):
                try:
                    return grant.read(path.relative_to(grant.folder).as_posix())
                except NotTrusted as error:
                    folder = shown_path(grant.folder.parent)
                    raise NotTrusted(
                        f"{shown_path(path)} has changed since you trusted its plugin; it was not read.",
                        hint=f"midstream plugin add {folder} shows the change.",
                    ) from error
        raise NotTrusted(
            f"{shown_path(path)} was not read: its plugin is not trusted.",
            hint="midstream plugin list says how each stands.",
        )

    def plugin_of(self, path: Path) -> str:
        """Return the plugin a file is of, "" for any other file."""
        found = (name for name, each in self.plugins().items() if path.is_relative_to(each.folder))
        return next(found, "")

    def free_name(self, name: str, path: Path, taken: Container[str]) -> str:
        """Return what something in a file is called: of a plugin with that before it, if it is taken."""
        plugin = self.plugin_of(path) if name in taken else ""
        return f"{plugin}:{name}" if plugin else name

    def files(self, folder: str, *suffixes: str) -> Iterator[tuple[Layer, Path]]:
        """Yield the files right in a folder of every layer, the lowest layer first, sorted.

        Those of plugins come last: they replace nothing, see `free_name`.
        """
        own: tuple[tuple[Layer, Path], ...] = (("built-in", BUILT_IN), ("user", self.user_dir))
        for layer, place in own:
            try:
                paths = sorted((place / folder).iterdir())
            except OSError:
                continue
            yield from ((layer, path) for path in paths if _is_plain(path.name, *suffixes))
        granted: list[tuple[Layer, Grant, str, Path]] = []
        if self.grant is not None:
            others = self.workspace / OTHERS_FOLDER
            granted.append(("workspace", self.grant, f"../{OTHERS_FOLDER}/", others))
            granted.append(("workspace", self.grant, "", self.grant.folder))
        if folder in PLUGIN_PARTS:
            granted += [("plugin", each, "", each.folder) for each in self.plugins().values()]
        for layer, grant, beside, place in granted:
            for name in grant.names(f"{beside}{folder}"):
                file = name.removeprefix(f"{beside}{folder}/")
                if "/" not in file and _is_plain(file, *suffixes):
                    yield layer, place / folder / file

    def parsed(self, path: Path, reading: Callable[[str, str], T]) -> T | None:
        """Return what `reading(text, file)` makes of a file, again only when the file changed.

        None: the file cannot be read; a notice says why.
        """
        try:
            status = path.stat()
            stamp = (status.st_mtime_ns, status.st_size, status.st_ino, reading)
            known = self._cache.get(path)
            if known is None or known[0] != stamp:
                text = self.read(path).decode("utf-8-sig")
                self._cache[path] = known = (stamp, reading(text, shown_path(path)))
        except (UnicodeDecodeError, MidstreamError, OSError) as error:
            self.notice_unread(path, error)
            return None
        value: T = known[1]
        return value

    # --- roles, workflows, tools ---

    def roles(self) -> dict[str, Role]:
        """Return every role by name; a later layer's role replaces an earlier one's of its name."""
        return {name: found.role for name, found in self.role_files().items()}

    def role_files(self) -> dict[str, RoleFile]:
        """Return every role by name with where it comes from."""
        found: dict[str, RoleFile] = {}
        for layer, path in self.files("roles", *SUFFIXES):
            parsed = self.parsed(path, _roles_in)
            if parsed is None:
                continue
            roles, problems = parsed
            for problem in problems:
                self.notice(str(problem))
            for own_name, role in roles.items():
                name = self.free_name(own_name, path, found)
                if layer == "plugin":
                    role = msgspec.structs.replace(
                        role, description=self._of(path, role.description)
                    )
                twin = found.get(name)
                if twin is not None and twin.layer == layer:
                    both = f"{shown_path(twin.path)} and {shown_path(path)}"
                    self.notice(f"The role {name!r} stands in {both}; the second one is used.")
                if twin is not None and (twin.layer, layer) == ("user", "workspace"):
                    # Whoever left a tool out of a role of their own left it out for every folder.
                    if role.within(twin.role) != role:
                        self.notice(
                            f"The role {name!r} of this workspace has no tools that yours in "
                            f"{shown_path(twin.path)} leaves out."
                        )
                    role = role.within(twin.role)
                found[name] = RoleFile(name=name, role=role, path=path, layer=layer)
        return found

    def workflows(self) -> dict[str, WorkflowFile]:
        """Return every workflow by name, the name of its file without `.json` or `.py`; later layers win.

        Only the description is looked at; loading one says what is wrong with it.
        """
        found: dict[str, WorkflowFile] = {}
        for layer, path in self.files("workflows", *WORKFLOW_SUFFIXES):
            reading = _docstring_in if path.suffix == ".py" else _description_in
            described = self.parsed(path, reading)
            if described is not None:
                description, problem = described
                name = self.free_name(path.stem, path, found)
                if layer == "plugin":
                    description = self._of(path, description)
                twin = found.get(name)
                if twin is not None and twin.layer == layer:
                    both = f"{shown_path(twin.path)} and {shown_path(path)}"
                    self.notice(f"The workflow {path.stem!r} stands in {both}; the first is used.")
                    continue
                found[name] = WorkflowFile(
                    name=name,
                    path=path,
                    description=description,
                    layer=layer,
                    problem=problem,
                )
        return found

    def _of(self, path: Path, description: str) -> str:
        return f"{description} (plugin {self.plugin_of(path)})".lstrip()

    def untrusted_workflows(self) -> tuple[str, ...]:
        """Return the names of the workspace's workflows that nobody has trusted as they stand."""
        try:
            paths = sorted((self.workspace / WORKSPACE_FOLDER / "workflows").iterdir())
        except OSError:
            return ()
        known = {
            found.path.name for found in self.workflows().values() if found.layer == "workspace"
        }
        return tuple(
            dict.fromkeys(
                path.stem
                for path in paths
                if _is_plain(path.name, *WORKFLOW_SUFFIXES) and path.name not in known
            )
        )

    def workflow_path(self, name: str) -> Path:
        """Return the file of a workflow; of `FILE.py:NAME`, whether it is there or not.

        Raises:
            UserMistake: there is none of that name; the hint names the nearest one.
        """
        file = python_file(name)
        if file is not None:
            return Path(os.path.abspath(self.workspace / file[0]))
        known = self.workflows()
        self.check_mode(Mode("workflow", name))
        return known[name].path

    def tool_files(self) -> tuple[Path, ...]:
        """Return the `tools/*.py` of the user and of a trusted workspace. Read them with `read`."""
        return tuple(path for _, path in self.files("tools", ".py"))


def _is_plain(name: str, *suffixes: str) -> bool:
    """Return whether a file is one of ours: not an editor's, its name fit for a screen."""
    return name.endswith(suffixes) and not name.startswith(".") and name.isprintable()


def _roles_in(text: str, file: str) -> tuple[dict[str, Role], tuple[Problem, ...]]:
    from midstream.language.lint_roles import (
        lint_roles,  # not needed before the prompt is on screen
    )

    return lint_roles(text, file=file)


def _docstring_in(text: str, file: str) -> tuple[str, str]:
    """Return the first line of a module's docstring; nothing of the module is run."""
    try:
        words = ast.get_docstring(ast.parse(text)) or ""
    except SyntaxError as error:
        return "", f"{file}:{error.lineno or 1} this is not Python: {error.msg}."
    except (ValueError, RecursionError, MemoryError) as error:
        return "", f"{file} this is not Python: {error}."
    return words.partition("\n")[0], ""


def _description_in(text: str, file: str) -> tuple[str, str]:
    parsed = parse(text)
    description = None if parsed.root is None else parsed.root.get("description")
    problem = ""
    if parsed.flaws:
        flaw = parsed.flaws[0]
        problem = f"{file}:{flaw.line}:{flaw.column} {flaw.message}"
    shown = description.value if description is not None and description.kind == "string" else ""
    return shown, problem
