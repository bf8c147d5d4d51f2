"""Which files are secret, protected or plain, however their names are spelled."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from midstream.safety.protected import PLAIN, classify, classify_path

SECRET = [
    *(".env", ".env.local", ".env.production", "deploy/prod.env", ".env-old", ".env_test"),
    *(
        ".ssh",
        ".ssh/config",
        "home/.ssh/known_hosts",
        ".aws/credentials",
        ".gnupg/x",
        ".kube/config",
    ),
    *(".netrc", ".pgpass", ".pypirc", ".npmrc", ".git-credentials", ".envrc", ".htpasswd"),
    *("id_rsa", "keys/id_ed25519", "server.pem", "tls/server.key", "a.p12", "a.kdbx", "x.jks"),
    *(".git/config", ".git/modules/sub/config", ".git/config.worktree", ".docker/config.json"),
    *(".config/gh/hosts.yml", ".config/midstream/application.json", ".bash_history"),
    *(
        ".local/state/midstream/trust.json",
        ".local/share/keyrings/login",
        ".cargo/credentials.toml",
    ),
]
PROTECTED = [
    *(".git", ".git/HEAD", ".git/hooks/pre-commit", "vendor/lib/.git/hooks/x", ".gitmodules"),
    *(".midstream", ".midstream/application.json", "sub/.midstream/tools/x.py", ".gitattributes"),
    *("AGENTS.md", "docs/AGENTS.md", "CLAUDE.md", ".cursorrules", ".mcp.json", ".claude/x.json"),
    *(".vscode/tasks.json", ".idea/workspace.xml", "a.code-workspace", ".vimrc", ".dir-locals.el"),
    *(".github/workflows/ci.yml", ".gitlab-ci.yml", "Jenkinsfile", ".circleci/config.yml"),
    *(".husky/pre-commit", ".pre-commit-config.yaml", "lefthook.yml", ".githooks/pre-push"),
    *(".bashrc", ".zshenv", ".profile", ".gdbinit", "sitecustomize.py", "site-packages/evil.pth"),
    *(".cargo/config.toml", ".yarnrc.yml", ".devcontainer/devcontainer.json"),
]
PLAIN_FILES = [
    *("src/a.py", "README.md", ".gitignore", "docs/environment.md", "env.py", "config.json"),
    *(".env.example", ".env.sample", "example.env", "keys.py", "tests/test_ssh.py", "Makefile"),
    *("github/workflows.md", "agents.py", "src/git/config", "state/midstream.py", "public.keys"),
    *(".editorconfig", "sub/.unknown", "src/keyrings/a.py", "a~1.txt", "CHANGELOG.md"),
]


@pytest.mark.parametrize("path", SECRET)
def test_a_secret_file_is_secret_to_read_and_to_write(path: str) -> None:
    assert classify_path(path, "read").standing == "secret"
    assert classify_path(path, "write").standing == "secret"
    assert classify_path(path).reason


@pytest.mark.parametrize("path", PROTECTED)
def test_a_protected_file_may_be_read_but_not_changed_unasked(path: str) -> None:
    assert classify_path(path, "read") == PLAIN
    assert classify_path(path, "write").standing == "protected"


@pytest.mark.parametrize("path", PLAIN_FILES)
def test_an_everyday_file_is_plain(path: str) -> None:
    assert classify_path(path, "read") == PLAIN
    assert classify_path(path, "write") == PLAIN


def test_the_workspace_itself_is_plain() -> None:
    assert classify((), "write") == PLAIN
    assert classify((".", ""), "write") == PLAIN


@pytest.mark.parametrize(
    "spelled",
    [
        *(".GIT/hooks/x", ".Git/hooks/x", ".git./hooks/x", ".git /hooks/x", ".git. . /hooks/x"),
        *(".git::$INDEX_ALLOCATION/hooks/x", ".git:x/hooks/x", "GIT~1/hooks/x", "git~2/hooks/x"),
        *(".g\u200cit/hooks/x", ".git\ufeff/hooks/x", "\u200d.git/hooks/x", ".gi\u206ft/hooks/x"),
        *("．git/hooks/x", ".ｇｉｔ/hooks/x", ".gıt/hooks/x", ".gİt/hooks/x", ".\U0001d420it/x"),
        *(".git\\hooks\\x", "a\\.git\\x", ".git//hooks/x", "./.git/hooks/x", ".gi\u00adt/x"),
        *("AGENTS.MD", "agents.md.", "AGENT\u017f.md", "AGENTS.md::$DATA", "A\u200bGENTS.md"),
        *(".GitHub/workflows/x", "GITHUB~1/workflows/x", "VSCODE~1/tasks.json", "MIDSTR~1/x"),
    ],
)
def test_no_other_spelling_gets_at_a_protected_file(spelled: str) -> None:
    assert classify_path(spelled, "write").standing == "protected"


@pytest.mark.parametrize(
    "spelled",
    [
        *(".ENV", ".env.", ".env ", ".env::$DATA", ".env~", ".env.bak", "#.env#", "..env.swp"),
        *(".e\u200bnv", "．env", ".ENV.Local", "ENV~1", ".ſsh/id", ".SSH/config", "SSH~1/config"),
        *("id_rsa.bak", "ID_RSA", "server.KEY", "server.key.", "server.pem~", ".NETRC"),
        *(".git\\config", ".GIT/CONFIG", ".git./config", "git~1/x/.git/config", ".env.orig~"),
    ],
)
def test_no_other_spelling_gets_at_a_secret_file(spelled: str) -> None:
    assert classify_path(spelled, "read").standing == "secret"


def test_a_part_with_slashes_is_several_parts() -> None:
    assert classify(("a/.git/hooks",), "write") == classify(("a", ".git", "hooks"), "write")


@given(st.lists(st.text(max_size=12), max_size=5), st.sampled_from(["read", "write"]))
def test_no_name_raises_and_reading_is_never_protected(parts: list[str], purpose: str) -> None:
    reading, writing = classify(parts, "read"), classify(parts, "write")

    assert reading.standing != "protected"
    assert (reading.standing == "secret") == (writing.standing == "secret")


@given(
    st.sampled_from([*SECRET, *PROTECTED]),
    st.lists(st.sampled_from("\u200b\u200c\u200d\ufeff\u2060\u00ad\ufe0f"), max_size=3),
    st.data(),
)
def test_invisible_characters_and_case_change_nothing(
    path: str, invisible: list[str], data: st.DataObject
) -> None:
    disguised = path.swapcase() if data.draw(st.booleans()) else path
    for char in invisible:
        at = data.draw(st.integers(0, len(disguised)))
        disguised = disguised[:at] + char + disguised[at:]

    assert classify_path(disguised, "write") == classify_path(path, "write")
