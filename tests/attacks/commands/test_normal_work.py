"""An ordinary day in `auto`, with a sandbox, asks next to nothing: safety in the way is switched off."""

from tables import table

from midstream.safety.capability import Capability
from midstream.safety.command_line import outside, read_command
from midstream.safety.policy import Policy, judged
from midstream.safety.rules import covers

AUTO = Policy(mode="auto", sandbox="full")

COMMANDS = [
    *("pytest -x -q tests/test_a.py", "python -m pytest tests -k 'a and b'", "make check", "make"),
    *("ruff check src && ruff format src", "mypy src | tail -20", "npm test -- --watch=false"),
    *("npm run build 2>&1 | tail -50", "cargo test --lib", "go test ./...", "tsc --noEmit"),
    *("python -c 'print(1)'", "for f in *.py; do wc -l $f; done", "find . -name '*.py' | head"),
    *("sed -i s/a/b/ src/a.py", "mkdir -p src/new && touch src/new/a.py", "rm -r build dist"),
    *("grep -rn needle src | wc -l", "git add -A && git commit -m 'a change'", "git stash"),
    *("cd web && npx eslint .", "cat src/*.py | sort | uniq -c", "FOO=1 ./run.sh > log.txt"),
    *("docker ps", "./gradlew test", "git checkout -b feature", "diff -u a b", "echo done"),
]
FILES = [
    *(
        "src/a.py",
        "README.md",
        "docs/guide/start.md",
        "tests/test_a.py",
        "package.json",
        "Makefile",
    ),
    *("src/app/[id]/page.tsx", ".gitignore", ".env.example", "CHANGELOG.md", "data/größe.txt"),
    *("Dockerfile", "pyproject.toml", "go.mod", ".editorconfig", "scripts/deploy.sh"),
]


@table("line", COMMANDS)
def test_commands_run_unasked_in_the_sandbox(line: str) -> None:
    assert judged([read_command(line)], AUTO).kind == "allow"


@table("path", FILES)
def test_plain_files_are_read_and_changed_unasked(path: str) -> None:
    requests = [Capability(kind=kind, target=path) for kind in ("read", "write")]

    assert judged(requests, AUTO).kind == "allow"


@table(
    "request_",
    [
        Capability(kind="write_protected", target=".github/workflows/ci.yml"),
        Capability(kind="write_protected", target="AGENTS.md"),
        Capability(kind="net", target="pypi.org"),
        Capability(kind="tool", target="mcp.github.create_issue"),
        outside(read_command("npm install left-pad")),
        outside(read_command("git push origin feature && gh pr create")),
    ],
    ids=str,
)
def test_what_is_asked_is_asked_once_and_then_granted_for_the_run(request_: Capability) -> None:
    verdict = judged([request_], AUTO)
    granted = [str(each) for each in verdict.asked]

    assert verdict.kind == "ask"
    assert all(covers(granted, each) for each in judged([request_], AUTO).asked)


def test_a_few_rules_of_a_persons_own_do_away_with_the_rest() -> None:
    policy = Policy(
        mode="ask",
        allow=(
            "exec: make *",
            "exec: npm *",
            "write: src/**",
            "net: *.pypi.org",
            "tool: mcp.github.*",
        ),
        deny=("exec: git push --force *",),
    )

    for request in (
        read_command("make check"),
        read_command("npm run build"),
        Capability(kind="write", target="src/a/b.py"),
        Capability(kind="net", target="files.pypi.org"),
        Capability(kind="tool", target="mcp.github.get_issue"),
    ):
        assert judged([request], policy).kind == "allow"
