"""A rule with a `*`, and flags that write, execute or load behind it: none is covered.

The rules are those people write. What may stand behind them is in the second table, and so is the day:
a seat belt in the way is taken off.
"""

from tables import table

from midstream.safety.capability import Kind
from midstream.safety.command_line import outside, read_command
from midstream.safety.flags import TABLE
from midstream.safety.policy import Policy, judged
from midstream.safety.rules import covers

NOT_COVERED: dict[str, tuple[str, ...]] = {
    "git log *": (
        *("git log --output=x", "git log --output x", "git log --outp=x", "git log --o=x"),
        *(
            "git log -p --ext-diff",
            "git log --textconv",
            "git log --ext -p",
            "git log -5 --output=x",
        ),
        *("git log -Oorder", "git log --show-signature", "git log -p -- --output=x/../y a=b"),
    ),
    "git diff *": ("git diff --no-index /a /b", "git diff --output=x", "git diff -w --ext-diff"),
    "git *": (
        *(
            "git -c core.pager=x log",
            "git config core.fsmonitor x",
            "git bisect run sh x",
            "git -C .. log",
        ),
        *("git --exec-path=. log", "git submodule foreach x", "git difftool -x x", "git p4 x"),
        *("git rebase -x x", "git hook run x", "git push --receive-pack=x", "git clone -u x y"),
        *(
            "git push ext::x main",
            "git fetch --upload-pack=x",
            "git filter-branch x",
            "git push +main",
        ),
        *(
            "git commit -F x",
            "git commit -S",
            "git commit --template=x",
            "git grep -Ox y",
            "git apply x",
        ),
    ),
    "git ** push **": ("git --exec-path=. push", "git push --exec=x"),
    "sed *": (
        *("sed -i s/a/b/ x", "sed -ni p x", "sed -i.bak p x", "sed --in-place p x", "sed --in p x"),
        *("sed 'w x' y", "sed 'e x' y", "sed '1e x' y", "sed s/a/b/e x", "sed 's/a/b/w x' y"),
        *("sed -e 'w x' y", "sed -f x y", "sed -n 's/a/x/pe' y", "sed '1r x' y", "sed 'p;w x' y"),
        *("sed --expression='w x' y", "gsed 'w x' y", "/usr/bin/sed 'w x' y", "sed 's/x/y/;e' z"),
        *("sed -nf x y", "sed -s -i p x", "sed 'p\\nw x' y", "sed 1e./x y", "sed w.git/hooks/x y"),
    ),
    "sed -n *": ("sed -n 'w x' y", "sed -n -i p y", "sed -n 1e./x y", "sed -n -- 'w x' y"),
    "awk *": (
        *("awk 'BEGIN{system(\"x\")}'", "awk '{print > \"x\"}' y", "awk '{print | \"sh\"}' y"),
        *("awk -f x y", "awk -fx y", "awk -F : -f x y", "gawk -i inplace 1 x", "awk -l x 1 y"),
        *(
            "awk 'BEGIN{\"x\" | getline}'",
            "awk '@load \"x\"' y",
            "awk -v a=b 1 x",
            "awk -F: 'BEGIN{system(1)}'",
        ),
        *("awk --file=x y", "awk '{ getline < \"x\" }' y", "awk -- 'BEGIN{system(1)}'"),
    ),
    "sort *": (
        *("sort -o x y", "sort -ox y", "sort y -o x", "sort --output=x y", "sort --outp x y"),
        *("sort --compress-program=x y", "sort --comp x y", "sort -no x y", "sort -T x y"),
        *("sort --files0-from=x", "sort -uox y", "sort -k 1 -o x y"),
    ),
    "tar *": (
        *(
            "tar xf a.tar --to-command=x",
            "tar cf a.tar --checkpoint-action=exec=x .",
            "tar -I x -xf a.tar",
        ),
        *("tar --use-compress-program=x -xf a.tar", "tar -Ix -xf a.tar", "tar xIf x a.tar"),
        *("tar cf a.tar -F x .", "tar --to-c=x -xf a.tar", "tar --info-script=x -xf a.tar"),
        *(
            "tar -xPf a.tar",
            "tar -T x -cf a.tar",
            "tar xf host:a.tar",
            "tar --rsh-command=x -xf a.tar",
        ),
        *("tar -cf a.tar . --remove-files", "tar --checkpoint=1 -cf a.tar .", "gtar -Ix -xf a.tar"),
    ),
    "find *": (
        *("find . -exec rm x", "find . -delete", "find . -fprintf x %p", "find . -fprint x"),
        *("find . -execdir x y", "find . -ok x y", "find . -fls x", "find . -name a -delete"),
        *("find -files0-from x", "find . -okdir x y", "gfind . -delete"),
    ),
    "rg *": ("rg --pre x y", "rg --pre=x y", "rg --hostname-bin=x y", "rg -f x y", "rg -z x y"),
    "grep *": ("grep -f x y", "grep --file=x y"),
    "xargs *": ("xargs rm", "xargs -I y rm y", "xargs -a x sh"),
    "env *": ("env sh x", "env -S 'sh x'", "env A=b sh x"),
    "timeout *": ("timeout 5 sh x", "timeout -s KILL 5 sh x", "timeout 5"),
    "timeout 5 make *": (
        "timeout 5 make SHELL=x",
        "timeout 5 make -f x",
        "timeout 5 make --eval=x",
    ),
    "make *": (
        *(
            "make -f x",
            "make -fx",
            "make --file=x",
            "make --makefile x",
            "make --mak=x",
            "make -C x",
        ),
        *(
            "make SHELL=x",
            "make test SHELL=x",
            "make --eval=x",
            "make -I x",
            "make -e",
            "make CC=x all",
        ),
        *("make -- SHELL=x", "make -kf x", "make -j4 -f x", "make -Cx", "gmake SHELL=x"),
    ),
    "python *": (
        "python -c x",
        "python -m x",
        "python -cx",
        "python -Im x",
        "python -W x y",
        "python -",
    ),
    "python3 x.py *": ("python3 x.py --load=y", "python3 x.py @args"),
    "python -m pytest *": (
        "python -m pytest -p x",
        "python -m pytest -c x",
        "python -m pytest --basetemp=x",
    ),
    "pytest *": (
        *("pytest -p x", "pytest -px", "pytest -c x", "pytest --rootdir=x", "pytest -o a=b"),
        *(
            "pytest --basetemp=x",
            "pytest --junitxml=x",
            "pytest --junit-xml x",
            "pytest --log-file=x",
        ),
        *(
            "pytest --pdbcls=a:b",
            "pytest --confcutdir=x",
            "pytest -xp y",
            "pytest --override-ini=a=b",
        ),
        *("pytest --cov-config=x", "pytest -W x", "pytest @x", "pytest -qc x", "pytest --debug=x"),
    ),
    "npm run *": (
        *("npm run x --script-shell=y", "npm run x --script-shell y", "npm run x --script-s=y"),
        *("npm run x --prefix y", "npm run x -C y", "npm run x --userconfig=y", "npm run x -g"),
        *(
            "npm run x --node-options=--require=y",
            "npm run --globalconfig y x",
            "npm run x --shell=y",
        ),
    ),
    "npm *": (
        "npm exec x",
        "npm x y",
        "npm config set x y",
        "npm pkg set x=y",
        "npm init x",
        "npm explore x",
    ),
    "npx *": ("npx x", "npx -c x", "npx --yes x"),
    "npx eslint *": (
        "npx eslint --fix .",
        "npx eslint --rulesdir x .",
        "npx eslint -c x .",
        "npx eslint -o x .",
    ),
    "cargo *": (
        *("cargo --config x test", "cargo test --config x", "cargo -Z x test", "cargo install x"),
        *(
            "cargo test --manifest-path x",
            "cargo test --target-dir x",
            "cargo +x test",
            "cargo fix",
        ),
    ),
    "go *": (
        *(
            "go test -exec x",
            "go test -exec=x",
            "go build -toolexec x",
            "go test -o x",
            "go generate",
        ),
        *(
            "go test -coverprofile=x",
            "go vet -vettool=x",
            "go env -w x=y",
            "go test --exec x",
            "go tool x",
        ),
        *("go build -ldflags=x", "go test -c", "go build -overlay=x", "go -C x test"),
    ),
    "pip install *": (
        *("pip install -r x", "pip install -e x", "pip install --target=x y", "pip install -tx y"),
        *(
            "pip install -i x y",
            "pip install --index-url x y",
            "pip install --prefix x y",
            "pip install -c x y",
        ),
        *("pip install --global-option=x y", "pip install --src x y", "pip install --ind x y"),
    ),
    "curl *": (
        *(
            "curl -o x y",
            "curl -ox y",
            "curl -sSLo x y",
            "curl -O y",
            "curl --output x y",
            "curl -K x",
        ),
        *(
            "curl -d @x y",
            "curl -T x y",
            "curl -F a=@x y",
            "curl --config x",
            "curl -xhttp://z y",
            "curl -D x y",
        ),
    ),
    "ssh *": ("ssh -o ProxyCommand=x y", "ssh y sh", "ssh -F x y"),
    "docker *": (
        "docker run x",
        "docker exec x y",
        "docker -H x ps",
        "docker build -f x .",
        "docker cp a b",
    ),
    "ruff check *": (
        "ruff check --fix .",
        "ruff check --config x .",
        "ruff check -o x .",
        "ruff check --add-noqa",
    ),
    "mypy *": (
        "mypy --python-executable x y",
        "mypy --config-file=x y",
        "mypy --install-types",
        "mypy -c x",
    ),
    "uv run *": ("uv run x", "uv run --with x y", "uv run python -c x"),
    "tree *": ("tree -o x", "tree -ao x", "tree --output x"),
    "jq *": ("jq -f x y", "jq -L x y z", "jq --from-file x y"),
    "uniq *": ("uniq a b",),
    "sqlite3 *": ("sqlite3 x '.shell y'",),
    "dd *": ("dd of=x", "dd if=a of=b"),
    "unknown *": (
        "unknown -x",
        "unknown --x=y",
        "unknown +x",
        "unknown @x",
        "unknown A=b",
        "unknown -- -x",
    ),
    "unknown * last": ("unknown -x last", "unknown a b last"),
    "./make *": ("./make -j4", "./make SHELL=x"),
    "** log": ("git log", "rm log"),
}
COVERED: dict[str, tuple[str, ...]] = {
    "git log *": (
        "git log",
        "git log -5 --oneline",
        "git log main..x -- src/a.py",
        "git log -p -n 3",
        "git log -S needle",
    ),
    "git diff *": ("git diff --stat HEAD~1", "git diff --cached -- a.py"),
    "git *": (
        "git push origin main",
        "git commit -m 'a change'",
        "git add -A",
        "git stash",
        "git checkout x",
    ),
    "git commit *": ("git commit -am 'x y'", "git commit --amend --no-edit", "git commit -q -m x"),
    "sed *": ("sed -n 1,5p a.py", "sed s/a/b/g a.py", "sed -E 's#a+#b#' a.py", "sed '$d' a"),
    "awk *": ("awk '{print $1}' a", "awk -F: '{ print $1, $3 }' a b", "awk -F : 'NR==1' a"),
    "sort *": ("sort a b", "sort -u a", "sort -t: -k2,3n a", "sort -k 2 a", "sort --reverse a"),
    "tar *": ("tar xzf a.tgz", "tar -czf out.tgz src", "tar tf a.tar", "tar -xf a.tar -C out"),
    "find *": ("find . -name '*.py' -type f", "find src -maxdepth 2 -print", "find . -mtime -7"),
    "rg *": ("rg -n needle src", "rg -i -t py x", "rg -g src x", "rg --hidden x", "rg --files"),
    "grep *": ("grep -rn needle src", "grep -rIl --include=a.py x .", "grep -e a -e b x"),
    "make *": ("make", "make check", "make -j4 test", "make -j 4", "make -k -s all"),
    "timeout 5 make *": ("timeout 5 make check", "timeout 5 make -j2"),
    "pytest *": (
        *(
            "pytest",
            "pytest -x -q tests/test_a.py",
            "pytest tests/a.py::test_b",
            "pytest -k 'a and b'",
        ),
        *("pytest --exitfirst --tb=short -ra", "pytest -vv --lf", "pytest -n 4", "pytest -sxv"),
    ),
    "python -m pytest *": ("python -m pytest -x tests", "python -m pytest"),
    "python *": ("python x.py", "python manage.py migrate"),
    "uv run pytest *": ("uv run pytest -x tests",),
    "npm run *": ("npm run build", "npm run test -- --watch=false", "npm run lint --silent"),
    "npm *": (
        "npm test",
        "npm run build",
        "npm ci",
        "npm install left-pad",
        "npm install @scope/pkg",
    ),
    "npx eslint *": ("npx eslint .", "npx eslint --ext .ts src"),
    "cargo *": (
        "cargo test",
        "cargo build --release",
        "cargo test -p x -- --nocapture",
        "cargo clippy",
    ),
    "go *": (
        "go test ./...",
        "go test -run TestX -v ./a",
        "go build ./cmd/x",
        "go test -count=1 ./...",
    ),
    "pip install *": ("pip install requests", "pip install -U pip", "pip install 'a>=1'"),
    "curl *": ("curl https://example.org", "curl -sSL https://example.org/a"),
    "docker *": ("docker ps -a", "docker logs -f web"),
    "ruff check *": ("ruff check src", "ruff check --select=E src"),
    "unknown *": ("unknown", "unknown a b/c d.txt", "unknown 'a b'", "unknown https://x/a"),
    "unknown --strict *": ("unknown --strict a",),
    "*": ("git -c x log", "anything --at all"),
    "**": ("sh -c x",),
}


@table("pattern", NOT_COVERED)
def test_a_wildcard_covers_no_flag_that_writes_executes_or_loads(pattern: str) -> None:
    assert [line for line in NOT_COVERED[pattern] if is_allowed(pattern, line)] == []


@table("pattern", COVERED)
def test_a_wildcard_covers_the_everyday(pattern: str) -> None:
    assert [line for line in COVERED[pattern] if not is_allowed(pattern, line)] == []


def is_allowed(pattern: str, line: str) -> bool:
    """Return whether a rule lets a command run in `ask`, and outside; both have to say the same."""
    command = read_command(line)
    assert command.kind == "exec", line
    kinds: tuple[Kind, ...] = ("exec", "outside")
    inside, leaving = (
        covers([f"{kind}: {pattern}"], each)
        for kind, each in zip(kinds, (command, outside(command)), strict=True)
    )
    assert inside == leaving
    verdict = judged([command], Policy(allow=(f"exec: {pattern}",)))
    assert inside or verdict.kind != "allow" or "allow rule" not in verdict.reason
    return inside


DANGEROUS = (
    *(
        "--output=x",
        "--output",
        "--outp=x",
        "--exec=x",
        "--exec",
        "--config=x",
        "--config",
        "--eval=x",
    ),
    *(
        "--plugin=x",
        "--load=x",
        "--require=x",
        "--script-shell=x",
        "--fix",
        "--in-place",
        "--rcfile=x",
    ),
    *("--to-command=x", "--checkpoint-action=exec=x", "--use-compress-program=x", "--ext-diff"),
    *("--textconv", "--receive-pack=x", "--upload-pack=x", "--init-file=x", "--exec-path=x", "-"),
)


def test_no_program_of_the_table_has_a_flag_that_is_dangerous_elsewhere_covered() -> None:
    covered = [
        f"{name} {flag}"
        for name in TABLE
        for flag in DANGEROUS
        if is_allowed(f"{name} *", f"{name} {flag}")
    ]

    assert covered == []
