"""Files that other programs read and obey by themselves, written in `auto`: each has to be asked about.

The names are those an attacker would try, not those of the table: what is of a kind is of it, whether or
not somebody thought of its name.
"""

from tables import table

from midstream.safety.capability import Capability
from midstream.safety.policy import Policy, judged
from midstream.safety.protected import classify_path
from midstream.safety.protected_names import ROWS

NAMES = {
    "agents": "AGENTS.md CLAUDE.md GEMINI.md CRUSH.md QWEN.md WARP.md .junie/guidelines.md .rules "
    ".cursor/rules/a.mdc .windsurfrules .clinerules .roomodes .aider.conf.yml .continue/config.json "
    ".goosehints .kiro/steering/a.md .augment-guidelines .github/copilot-instructions.md .trae/x "
    ".claude/settings.json .claude/hooks/x.sh .mcp.json opencode.json crush.json .amazonq/rules/a.md "
    "web/kilo.jsonc web/.kilo/rules/a.md web/.droid.yaml "
    ".openhands/microagents/a.md .codex/config.toml .gemini/settings.json skills/x/SKILL.md",
    "editors": ".vscode/tasks.json .idea/runConfigurations/x.xml .zed/tasks.json .exrc .nvim.lua "
    ".dir-locals.el x.code-workspace .project .settings/x .vimspector.json .helix/languages.toml "
    ".ycm_extra_conf.py .luarc.json .gitpod.yml .replit .fleet/run.json x.sublime-project .clangd",
    "what runs elsewhere": ".drone.yml .drone.yaml .woodpecker/a.yaml .cirrus.star bitbucket-pipelines.yml "
    "Jenkinsfile Jenkinsfile.release .gitlab-ci.yml ci/deploy.gitlab-ci.yml .circleci/config.yml "
    ".buildkite/pipeline.yml .forgejo/workflows/a.yml azure-pipelines.yml azure-pipelines-pr.yml "
    ".readthedocs.yaml .goreleaser.yml renovate.json .releaserc.json netlify.toml .travis.yml",
    "hooks": ".husky/pre-commit lefthook.yml lefthook-local.yml .lefthook-local.toml "
    ".pre-commit-config.yaml .lintstagedrc.js lint-staged.config.mjs .commitlintrc.js "
    ".simple-git-hooks.json .overcommit.yml web/.local-overcommit.yml prek.toml "
    ".githooks/pre-push .gitattributes .gitmodules .hg/hgrc .hgrc .svn/hooks/x .jj/repo/config.toml",
    "containers and versions": ".devcontainer.json .devcontainer/devcontainer.json .rvmrc .tool-versions "
    ".mise.toml mise.toml mise.local.toml mise/config.toml .mise/config.toml .python-version .nvmrc "
    "rust-toolchain.toml .prototools",
    "programs under other names": ".venv/bin/python .venv/bin/activate venv/bin/pip env/bin/python "
    ".venv/Scripts/python.exe node_modules/.bin/git web/node_modules/.bin/eslint vendor/bin/phpunit "
    ".tox/py312/bin/pytest .venv/pyvenv.cfg .direnv/python/bin/x",
    "shells": ".bashrc .bash_aliases .zshenv .profile .inputrc .autoenv .in .xsessionrc .tmux.conf "
    ".screenrc .lessfilter x.desktop Microsoft.PowerShell_profile.ps1 .ripgreprc .curlrc",
    "debuggers and interpreters": ".gdbinit .lldbinit .pdbrc .pdbrc.py .irbrc .pryrc .Rprofile .ghci "
    ".ocamlinit app-gdb.py sitecustomize.py usercustomize.py lib/evil.pth .pythonrc.py .iex.exs",
    "linters": ".eslintrc.json .eslintrc.cjs eslint.config.js .prettierrc prettier.config.mjs .pylintrc "
    ".stylelintrc.json .rubocop.yml .golangci.yml .flake8 .mocharc.cjs .babelrc tslint.json .luacheckrc",
    "packages": ".yarnrc.yml .pnp.cjs .pnp.loader.mjs .pnpmfile.cjs bunfig.toml .cargo/config.toml "
    ".mvn/extensions.xml .bazelrc gradle/wrapper/gradle-wrapper.properties pip.conf .bundle/config "
    "web/.rspec web/.rspec-local",
    "hidden names nobody knows": ".newagent .newagent/rules.md .newagentrules .zzrc .zz.toml .a/b/c",
}
PLAIN = (
    *(
        "src/a.py",
        "README.md",
        "Makefile",
        "package.json",
        "pyproject.toml",
        "go.mod",
        "Dockerfile",
    ),
    *(
        "docker-compose.yml",
        "tsconfig.json",
        "vite.config.ts",
        "jest.config.js",
        "tox.ini",
        "setup.cfg",
    ),
    *(
        "conftest.py",
        "setup.py",
        "Cargo.toml",
        "build.gradle",
        "pom.xml",
        "requirements.txt",
        "run.sh",
    ),
    *(
        ".gitignore",
        "web/.gitignore",
        ".dockerignore",
        ".prettierignore",
        ".eslintignore",
        ".npmignore",
    ),
    *(".editorconfig", ".clang-format", ".mailmap", ".env.example", ".gitkeep", "docs/.keep"),
    *(
        ".mypy_cache/x",
        ".coverage",
        ".zz_cache/x",
        "src/login.py",
        "src/config.yml",
        "docs/agents.txt",
    ),
    *(
        "src/rules/a.py",
        "src/mise/a.py",
        "app/bin/run",
        "ci/run.sh",
        "hooks/use_x.ts",
        "web/.storybook/a",
    ),
    *(
        "src/editor/vim.rs",
        "env/settings.py",
        "venv.py",
        "src/claude.py",
        "profile.py",
        "tests/run/a.py",
    ),
)


@table("kind", NAMES)
def test_none_is_written_unasked(kind: str) -> None:
    names = NAMES[kind].split()
    is_hidden = kind.startswith("hidden")
    at = [name for each in names for name in (each, f"pkg/deep/{each}")[: 1 if is_hidden else 2]]
    policy = Policy(mode="full", sandbox="full", allow=("write: **", "write_protected: **"))

    written = [
        name
        for name in at
        if judged([Capability(kind="write", target=name)], policy).kind == "allow"
    ]

    assert written == []


def test_everyday_files_are() -> None:
    policy = Policy(mode="auto", sandbox="full")
    asked = {
        name: verdict.reason
        for name in PLAIN
        if (verdict := judged([Capability(kind="write", target=name)], policy)).kind != "allow"
    }

    assert asked == {}


def test_each_row_of_the_table_says_where_it_is_documented_and_holds_at_any_depth() -> None:
    lost = [
        (row.source, pattern)
        for row in ROWS
        for pattern in row.patterns
        for place in ("", "pkg/deep/")
        for below in ("", "/x")
        if pattern != pattern.lower()
        or not row.source.startswith("https://")
        or classify_path(f"{place}{pattern.replace('*', 'zz')}{below}", "write").standing == "plain"
    ]

    assert lost == []
