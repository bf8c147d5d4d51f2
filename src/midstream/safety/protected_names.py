"""The names of what other programs read and obey without being told to: a table, with who says so.

The line is drawn by what happens by itself. A shell that starts, an editor that opens a folder, an agent
that is asked something, a commit, a push: each reads files nobody named, and does what they say. What
a person runs by its name (a Makefile, a script, the tests) is source like any other, and so are the
manifests work changes every day (`package.json`, `pyproject.toml`, `Dockerfile`).

A row is a kind, where that is documented, and patterns: names in small letters, as `protected.folded`
makes them. A pattern is about what is called so at any depth, and all below it; `a/b` is b in a, a `*`
any characters of a name.
"""

from typing import Final, NamedTuple

VERSION_CONTROL: Final = "version control does what it says"
AGENT: Final = "it tells agents what to do"
EDITOR: Final = "it decides what an editor runs"
CI: Final = "it decides what runs elsewhere, when code is pushed"
HOOK: Final = "it decides what runs when git does something"
CONTAINER: Final = "it decides what a container or a machine for development runs"
VERSIONS: Final = "it decides which program runs under a name"
SHELL: Final = "a shell or program runs it when it starts"
DEBUGGER: Final = "a debugger or console runs it when it starts"
LINTER: Final = "it decides what a linter or formatter loads and runs"
PACKAGES: Final = "it decides what build tools and package managers run"
INTERPRETER: Final = "an interpreter runs it when it starts, or in a program's stead"
UNKNOWN: Final = "it is a hidden name in the workspace's root, and nobody here knows what obeys it"


class Row(NamedTuple):
    """Names of one kind, and where it is documented what reads them."""

    kind: str
    source: str
    patterns: str


ROWS: Final = (
    # --- version control
    Row(
        VERSION_CONTROL,
        "https://git-scm.com/docs/gitattributes",
        ".gitattributes .gitmodules .gitconfig",
    ),
    Row(VERSION_CONTROL, "https://www.mercurial-scm.org/help/topics/config", ".hg .hgrc .hgsub"),
    Row(VERSION_CONTROL, "https://jj-vcs.github.io/jj/latest/config/", ".jj"),
    Row(
        VERSION_CONTROL,
        "https://svnbook.red-bean.com/en/1.7/svn.advanced.confarea.html",
        ".svn .bzr .pijul _darcs .fossil-settings",
    ),
    Row(VERSION_CONTROL, "https://secure.phabricator.com/book/phabricator/", ".arcconfig .arclint"),
    Row(
        VERSION_CONTROL,
        "https://www.reviewboard.org/docs/rbtools/latest/rbt/configuration/",
        ".reviewboardrc",
    ),
    # --- agents
    Row(AGENT, "https://agents.md", "agents.md agents.*.md agent.md .agents .agent .ai skill.md"),
    Row(
        AGENT,
        "https://docs.claude.com/en/docs/claude-code/settings",
        ".claude .claude.json claude.md claude.*.md .claude-plugin",
    ),
    Row(AGENT, "https://modelcontextprotocol.io/docs", ".mcp.json mcp.json .mcp"),
    Row(AGENT, "https://developers.openai.com/codex/config-reference", ".codex"),
    Row(
        AGENT,
        "https://google-gemini.github.io/gemini-cli/docs/get-started/configuration.html",
        ".gemini gemini.md .geminiignore",
    ),
    Row(AGENT, "https://qwenlm.github.io/qwen-code-docs/", ".qwen qwen.md .qwenignore"),
    Row(
        AGENT,
        "https://github.com/charmbracelet/crush",
        ".crush crush.md crush.*.md crush.json .crush.json .crushignore",
    ),
    Row(AGENT, "https://opencode.ai/docs/config/", ".opencode opencode.json opencode.jsonc"),
    Row(
        AGENT,
        "https://docs.cursor.com/context/rules",
        ".cursor .cursorrules .cursorignore .cursorindexingignore",
    ),
    Row(
        AGENT,
        "https://docs.windsurf.com/windsurf/cascade/memories",
        ".windsurf .windsurfrules .codeium .codeiumignore",
    ),
    Row(AGENT, "https://docs.cline.bot/features/cline-rules", ".cline .clinerules .clineignore"),
    Row(
        AGENT,
        "https://docs.roocode.com/features/custom-modes",
        ".roo .roorules* .roomodes .rooignore",
    ),
    Row(
        AGENT,
        "https://kilo.ai/docs/customize/custom-rules",
        ".kilo kilo.json kilo.jsonc .kilocode .kilocodemodes .kilocoderules .kilocodeignore",
    ),
    Row(
        AGENT,
        "https://docs.continue.dev/reference",
        ".continue .continuerules .continuerc.json .continueignore",
    ),
    Row(AGENT, "https://aider.chat/docs/config/aider_conf.html", ".aider*"),
    Row(
        AGENT,
        "https://block.github.io/goose/docs/guides/using-goosehints",
        ".goose .goosehints .gooseignore",
    ),
    Row(
        AGENT,
        "https://www.jetbrains.com/help/junie/customize-guidelines.html",
        ".junie .aiassistant .aiignore .noai",
    ),
    Row(AGENT, "https://zed.dev/docs/ai/rules", ".rules"),
    Row(AGENT, "https://docs.warp.dev/knowledge-and-collaboration/rules", ".warp warp.md"),
    Row(AGENT, "https://kiro.dev/docs/steering/", ".kiro .amazonq"),
    Row(
        AGENT,
        "https://docs.augmentcode.com/setup-augment/guidelines",
        ".augment .augment-guidelines .augmentignore",
    ),
    Row(AGENT, "https://docs.factory.ai/cli/configuration/settings", ".factory .droid .droid.yaml"),
    Row(AGENT, "https://ampcode.com/manual", ".amp"),
    Row(AGENT, "https://docs.trae.ai/ide/rules", ".trae .qoder .codebuddy .lingma"),
    Row(
        AGENT,
        "https://docs.all-hands.dev/usage/prompting/repository",
        ".openhands .openhands_instructions",
    ),
    Row(AGENT, "https://docs.github.com/en/copilot", "copilot-instructions.md .copilot"),
    Row(
        AGENT,
        "https://code.visualstudio.com/docs/copilot",
        "*.instructions.md *.chatmode.md *.prompt.md",
    ),
    Row(AGENT, "https://iflow.cn/docs", ".iflow iflow.md"),
    Row(AGENT, "https://docs.plandex.ai", ".plandex .plandex-v2 .plandexignore"),
    Row(AGENT, "https://github.com/intellectronica/ruler", ".ruler .rulesync .taskmaster .specify"),
    Row(AGENT, "https://github.com/oraios/serena", ".serena .devin .zencoder .tabnine .cody .bolt"),
    Row(AGENT, "https://docs.coderabbit.ai", ".coderabbit.* .pr_agent.toml sweep.yaml"),
    # --- editors
    Row(
        EDITOR,
        "https://code.visualstudio.com/docs/editor/workspaces",
        ".vscode .vscode-server .vscode-test* *.code-workspace",
    ),
    Row(
        EDITOR,
        "https://www.jetbrains.com/help/idea/run-debug-configuration.html",
        ".idea .run .fleet *.iml *.ipr *.iws",
    ),
    Row(EDITOR, "https://zed.dev/docs/tasks", ".zed"),
    Row(EDITOR, "https://learn.microsoft.com/visualstudio/ide", ".vs .omnisharp omnisharp.json"),
    Row(
        EDITOR,
        "https://vimhelp.org/options.txt.html#%27exrc%27",
        ".vim .vimrc _vimrc .gvimrc .exrc _exrc .nvimrc .nvim .nvim.lua .lvimrc .local.vimrc",
    ),
    Row(
        EDITOR,
        "https://github.com/folke/neoconf.nvim",
        ".neoconf.json .vimspector.json .projections.json",
    ),
    Row(
        EDITOR,
        "https://www.gnu.org/software/emacs/manual/html_node/emacs/Directory-Variables.html",
        ".emacs .emacs.d .dir-locals.el .dir-locals-2.el .projectile",
    ),
    Row(EDITOR, "https://docs.helix-editor.com/languages.html", ".helix"),
    Row(
        EDITOR,
        "https://www.sublimetext.com/docs/projects.html",
        "*.sublime-project *.sublime-build *.sublime-settings",
    ),
    Row(
        EDITOR,
        "https://help.eclipse.org/latest/topic/org.eclipse.platform.doc.isv/guide/resAdv_builders.htm",
        ".project .classpath .factorypath .settings .externaltoolbuilders nbproject",
    ),
    Row(EDITOR, "https://clangd.llvm.org/config", ".clangd .ccls .ycm_extra_conf.py"),
    Row(EDITOR, "https://luals.github.io/wiki/configuration/", ".luarc.json .luarc.jsonc"),
    Row(EDITOR, "https://scalameta.org/metals/docs", ".bsp .bloop"),
    Row(
        EDITOR,
        "https://www.gitpod.io/docs/references/gitpod-yml",
        ".gitpod.yml .gitpod .gitpod.dockerfile .ona",
    ),
    Row(EDITOR, "https://docs.replit.com/replit-app/configuration", ".replit replit.nix .idx"),
    Row(EDITOR, "https://developer.stackblitz.com", ".stackblitzrc .codesandbox .theia .nova"),
    Row(EDITOR, "https://microsoft.github.io/language-server-protocol", "rust-analyzer.toml"),
    # --- what runs elsewhere
    Row(CI, "https://docs.github.com/actions", ".github"),
    Row(CI, "https://docs.gitlab.com/ci/yaml/", ".gitlab *.gitlab-ci.yml *.gitlab-ci.yaml"),
    Row(CI, "https://docs.gitea.com/usage/actions", ".gitea .forgejo"),
    Row(CI, "https://circleci.com/docs/configuration-reference/", ".circleci"),
    Row(CI, "https://buildkite.com/docs/pipelines", ".buildkite .buildkite.yml buildkite.yml"),
    Row(CI, "https://woodpecker-ci.org/docs/usage/intro", ".woodpecker .woodpecker.*"),
    Row(CI, "https://docs.drone.io/pipeline/configuration/", ".drone.* .drone"),
    Row(CI, "https://docs.travis-ci.com", ".travis.yml .travis"),
    Row(CI, "https://cirrus-ci.org/guide/writing-tasks/", ".cirrus.*"),
    Row(CI, "https://www.appveyor.com/docs/appveyor-yml/", "appveyor.yml .appveyor.yml"),
    Row(CI, "https://www.jenkins.io/doc/book/pipeline/jenkinsfile/", "jenkinsfile jenkinsfile.*"),
    Row(
        CI,
        "https://learn.microsoft.com/azure/devops/pipelines",
        "azure-pipelines*.yml azure-pipelines*.yaml .azure-pipelines .pipelines",
    ),
    Row(CI, "https://support.atlassian.com/bitbucket-cloud/docs", "bitbucket-pipelines.yml"),
    Row(CI, "https://www.jetbrains.com/help/teamcity/kotlin-dsl.html", ".teamcity .space.kts"),
    Row(CI, "https://docs.semaphoreci.com", ".semaphore codeship-*.yml wercker.yml"),
    Row(CI, "https://man.sr.ht/builds.sr.ht/manifest.md", ".build.yml .builds"),
    Row(CI, "https://tekton.dev/docs/", ".tekton .onedev-buildspec.yml .earthly"),
    Row(
        CI, "https://docs.aws.amazon.com/codebuild/latest/userguide", "buildspec.yml buildspec.yaml"
    ),
    Row(CI, "https://cloud.google.com/build/docs", "cloudbuild.yaml cloudbuild.yml"),
    Row(CI, "https://docs.netlify.com/configure-builds", "netlify.toml vercel.json"),
    Row(CI, "https://docs.readthedocs.com/platform/stable/config-file", ".readthedocs.*"),
    Row(CI, "https://docs.renovatebot.com/configuration-options/", ".renovaterc* renovate.json*"),
    Row(CI, "https://docs.mergify.com/configuration", ".mergify.yml .mergify"),
    Row(CI, "https://goreleaser.com/customization", ".goreleaser.*"),
    Row(CI, "https://semantic-release.gitbook.io", ".releaserc* release.config.* .release-it.*"),
    # --- hooks
    Row(HOOK, "https://git-scm.com/docs/githooks", ".githooks .git-hooks .hooks"),
    Row(HOOK, "https://typicode.github.io/husky/", ".husky .huskyrc*"),
    Row(
        HOOK,
        "https://lefthook.dev/configuration/",
        "lefthook.* .lefthook.* lefthook-local.* .lefthook-local.* .lefthook .lefthook-local",
    ),
    Row(HOOK, "https://pre-commit.com", ".pre-commit-config.* .pre-commit-hooks.*"),
    Row(HOOK, "https://prek.j178.dev/configuration/", "prek.toml"),
    Row(
        HOOK,
        "https://github.com/lint-staged/lint-staged",
        ".lintstagedrc* lint-staged.config.* .lint-staged*",
    ),
    Row(
        HOOK,
        "https://commitlint.js.org/reference/configuration.html",
        ".commitlintrc* commitlint.config.* .czrc .cz.* .cz-config.*",
    ),
    Row(
        HOOK,
        "https://github.com/toplenboren/simple-git-hooks",
        ".simple-git-hooks.* simple-git-hooks.*",
    ),
    Row(
        HOOK,
        "https://github.com/sds/overcommit",
        ".overcommit.yml .local-overcommit.yml .overcommit",
    ),
    Row(HOOK, "https://jorisroovers.com/gitlint", ".gitlint captainhook.json grumphp.yml*"),
    Row(HOOK, "https://facebook.github.io/watchman/docs/config", ".watchmanconfig"),
    # --- containers and machines for development
    Row(CONTAINER, "https://containers.dev/implementors/spec/", ".devcontainer .devcontainer.json"),
    Row(CONTAINER, "https://docs.docker.com/build", ".docker .dockercfg .vagrant .lando.* .ddev"),
    Row(
        CONTAINER, "https://developer.hashicorp.com/terraform/cli/config", ".terraform .terraformrc"
    ),
    # --- versions of programs
    Row(
        VERSIONS,
        "https://mise.jdx.dev/configuration.html",
        "mise.toml mise.*.toml .mise.toml .mise.*.toml .mise mise/config.toml "
        "mise/config.*.toml mise/conf.d mise/tasks .mise-tasks",
    ),
    Row(VERSIONS, "https://asdf-vm.com/manage/configuration.html", ".tool-versions .asdfrc .rtx*"),
    Row(VERSIONS, "https://rvm.io/workflow/rvmrc", ".rvmrc .versions.conf .ruby-gemset"),
    Row(
        VERSIONS,
        "https://github.com/pyenv/pyenv/security/advisories/GHSA-cqfh-jqf8-2h87",
        ".python-version .python-versions .ruby-version .node-version .java-version "
        ".go-version .terraform-version .perl-version .php-version .lua-version .swift-version "
        ".crystal-version .bazelversion .nvmrc .rbenv-* .pyenv* .sdkmanrc .jabbarc .phpenv*",
    ),
    Row(
        VERSIONS,
        "https://rust-lang.github.io/rustup/overrides.html",
        "rust-toolchain rust-toolchain.toml",
    ),
    Row(VERSIONS, "https://hermit.run/docs", ".hermit .prototools .proto .volta .flox .devenv*"),
    Row(
        VERSIONS,
        "https://docs.python.org/3/library/venv.html",
        ".venv/bin .venv/scripts venv/bin venv/scripts env/bin env/scripts pyvenv.cfg "
        ".virtualenv .tox/*/bin .nox/*/bin .direnv",
    ),
    Row(
        VERSIONS,
        "https://docs.npmjs.com/cli/configuring-npm/folders#executables",
        "node_modules/.bin vendor/bin .bundle/bin .bin .pixi .conda",
    ),
    # --- shells, and what starts with a session
    Row(
        SHELL,
        "https://www.gnu.org/software/bash/manual/html_node/Bash-Startup-Files.html",
        ".bashrc .bash_* .bash-* .profile .inputrc .hushlogin .shrc .shinit",
    ),
    Row(
        SHELL,
        "https://zsh.sourceforge.io/Doc/Release/Files.html",
        ".zshrc .zshenv .zprofile .zlogin .zlogout .zsh .oh-my-zsh .zimrc .zpreztorc",
    ),
    Row(
        SHELL,
        "https://man.freebsd.org/cgi/man.cgi?query=tcsh",
        ".kshrc .mkshrc .cshrc .tcshrc .login .logout .yashrc .xonshrc .elvish",
    ),
    Row(
        SHELL, "https://github.com/hyperupcall/autoenv", ".autoenv* .direnvrc .shadowenv.d .in .out"
    ),
    Row(
        SHELL,
        "https://learn.microsoft.com/powershell/module/microsoft.powershell.core/about/about_profiles",
        "profile.ps1 *_profile.ps1",
    ),
    Row(
        SHELL,
        "https://www.x.org/releases/current/doc/man/man1/xinit.1.xhtml",
        ".xinitrc .xprofile .xsession* .xserverrc .pam_environment .dmrc",
    ),
    Row(
        SHELL,
        "https://specifications.freedesktop.org/autostart-spec/latest/",
        "*.desktop .config .local",
    ),
    Row(
        SHELL,
        "https://man.openbsd.org/tmux.1",
        ".screenrc .tmux.conf .tmux .tmuxinator* .tmuxp.* .byobu .wezterm.lua .lessfilter .lesskey",
    ),
    Row(
        SHELL,
        "https://github.com/BurntSushi/ripgrep/blob/master/GUIDE.md",
        ".ripgreprc .ackrc .fdrc .curlrc .wgetrc .mailrc .nanorc .digrc",
    ),
    # --- debuggers and consoles
    Row(
        DEBUGGER,
        "https://sourceware.org/gdb/current/onlinedocs/gdb.html/Auto_002dloading.html",
        ".gdbinit .gdbinit.* .gdbearlyinit *-gdb.gdb *-gdb.py *-gdb.scm .cgdb",
    ),
    Row(DEBUGGER, "https://lldb.llvm.org/man/lldb.html", ".lldbinit .lldbinit-* .lldb"),
    Row(DEBUGGER, "https://docs.python.org/3/library/pdb.html", ".pdbrc .pdbrc.* .ipdb"),
    Row(
        DEBUGGER,
        "https://docs.ruby-lang.org/en/master/IRB.html",
        ".irbrc .irbrc.* .pryrc .rdbgrc* .byebugrc .railsrc",
    ),
    Row(
        DEBUGGER,
        "https://perldoc.perl.org/perldebug",
        ".perldb .dbxrc .ocamlinit .ghci .radare2rc .iex.exs .rprofile .rprofile.site .renviron "
        ".octaverc .juliarc.jl .psqlrc .sqliterc .my.cnf .noderc .node_repl_history",
    ),
    Row(DEBUGGER, "https://www.mintlify.com/bobthecow/psysh/advanced/project-trust", ".psysh.php"),
    # --- linters and formatters that load plugins
    Row(LINTER, "https://eslint.org/docs/latest/use/configure/", ".eslintrc* eslint.config.*"),
    Row(
        LINTER,
        "https://prettier.io/docs/plugins",
        ".prettierrc* prettier.config.*",
    ),
    Row(LINTER, "https://stylelint.io/user-guide/configure", ".stylelintrc* stylelint.config.*"),
    Row(LINTER, "https://babeljs.io/docs/config-files", ".babelrc* .swcrc .postcssrc*"),
    Row(
        LINTER,
        "https://github.com/textlint/textlint/blob/master/docs/configuring.md",
        ".textlintrc* .remarkrc* .markdownlint-cli2.* .jscsrc .htmllintrc tslint.json .solhint.json",
    ),
    Row(
        LINTER,
        "https://pylint.readthedocs.io/en/stable/user_guide/configuration/all-options.html",
        ".pylintrc* pylintrc .flake8 .mypy.ini mypy.ini .coveragerc .sqlfluff .ansible-lint*",
    ),
    Row(
        LINTER, "https://docs.rubocop.org/rubocop/extensions.html", ".rubocop* .standard.yml .reek*"
    ),
    Row(LINTER, "https://golangci-lint.run/docs/configuration/", ".golangci.*"),
    Row(
        LINTER,
        "https://phpstan.org/config-reference",
        "phpstan.neon* .php-cs-fixer* .php_cs* .phpcs.xml* psalm.xml* rector.php",
    ),
    Row(
        LINTER,
        "https://luacheck.readthedocs.io/en/stable/config.html",
        ".luacheckrc .credo.exs .formatter.exs .dialyzer_ignore.exs .clj-kondo .lsp .tflint.hcl",
    ),
    Row(LINTER, "https://mochajs.org/#configuring-mocha-nodejs", ".mocharc* .nycrc* .c8rc* .taprc"),
    Row(LINTER, "https://docs.trunk.io/code-quality", ".trunk .mega-linter.yml .qlty"),
    # --- builds and packages
    Row(PACKAGES, "https://doc.rust-lang.org/cargo/reference/config.html", ".cargo"),
    Row(
        PACKAGES,
        "https://maven.apache.org/configure.html",
        ".mvn gradle/wrapper .gradle/init.d .sbtopts .jvmopts .sdkman",
    ),
    Row(PACKAGES, "https://yarnpkg.com/configuration/yarnrc", ".yarn .yarnrc .yarnrc.yml .pnp.*"),
    Row(PACKAGES, "https://pnpm.io/pnpmfile", ".pnpmfile.* pnpmfile.* .pnpm-store"),
    Row(PACKAGES, "https://bun.sh/docs/runtime/bunfig", "bunfig.toml .bunfig.toml"),
    Row(
        PACKAGES,
        "https://pip.pypa.io/en/stable/topics/configuration/",
        "pip.conf pip.ini .pip uv.toml poetry.toml .pydistutils.cfg .condarc .mambarc .pdm-python",
    ),
    Row(PACKAGES, "https://bundler.io/man/bundle-config.1.html", ".bundle .gemrc .gem"),
    Row(
        PACKAGES,
        "https://rspec.info/features/3-13/rspec-core/configuration/read-options-from-file",
        ".rspec .rspec-local",
    ),
    Row(
        PACKAGES, "https://bazel.build/run/bazelrc", ".bazelrc *.bazelrc .buckconfig .bazelproject"
    ),
    Row(
        PACKAGES,
        "https://learn.microsoft.com/nuget/reference/nuget-config-file",
        "nuget.config .nuget",
    ),
    # --- interpreters
    Row(
        INTERPRETER,
        "https://docs.python.org/3/library/site.html",
        "sitecustomize.py usercustomize.py *.pth .pythonrc .pythonrc.py .pythonstartup .ipython "
        ".jupyter",
    ),
    Row(
        INTERPRETER,
        "https://nodejs.org/api/modules.html",
        ".node_modules .node_libraries .noderequire",
    ),
    Row(
        INTERPRETER,
        "https://www.php.net/manual/en/configuration.file.per-user.php",
        ".user.ini .htaccess",
    ),
    Row(INTERPRETER, "https://perldoc.perl.org/prove", ".proverc"),
    Row(INTERPRETER, "https://flask.palletsprojects.com/cli/", ".flaskenv"),
    Row(INTERPRETER, "https://github.com/toddbluhm/env-cmd", ".env-cmdrc*"),
    Row(INTERPRETER, "https://dotenvx.com/docs", ".dotenv .env.keys"),
)

PLAIN_AT_ROOT: Final = frozenset(
    {
        *(
            ".editorconfig",
            ".browserslistrc",
            ".gitkeep",
            ".keep",
            ".nojekyll",
            ".mailmap",
            ".git-blame-ignore-revs",
        ),
        *(".clang-format", ".clang-tidy", ".stylua.toml", ".rustfmt.toml"),
        *(".scalafmt.conf", ".swiftformat", ".swiftlint.yml", ".yamllint", ".yamllint.yml"),
        *(".yamllint.yaml", ".hadolint.yaml", ".hadolint.yml", ".shellcheckrc", ".ruff.toml"),
        *(".isort.cfg", ".style.yapf", ".pydocstyle", ".bandit", ".jshintrc", ".htmlhintrc"),
        *(".markdownlint.json", ".markdownlint.yaml", ".markdownlint.yml", ".markdownlint.jsonc"),
        *(".codecov.yml", ".codecov.yaml", ".all-contributorsrc", ".codespellrc", ".typos.toml"),
        *(
            ".cspell.json",
            ".taplo.toml",
            ".zenodo.json",
            ".terraform.lock.hcl",
            ".secrets.baseline",
        ),
        # What tools keep for themselves.
        *(".mypy_cache", ".pytest_cache", ".ruff_cache", ".hypothesis", ".tox", ".nox", ".eggs"),
        *(
            ".cache",
            ".coverage",
            ".nyc_output",
            ".eslintcache",
            ".stylelintcache",
            ".next",
            ".nuxt",
        ),
        *(".output", ".svelte-kit", ".turbo", ".parcel-cache", ".angular", ".astro", ".vite"),
        *(".docusaurus", ".expo", ".gradle", ".dart_tool", ".stack-work", ".zig-cache", ".build"),
        *(
            ".ipynb_checkpoints",
            ".jekyll-cache",
            ".sass-cache",
            ".ccache",
            ".benchmarks",
            ".import-linter",
        ),
        *(
            ".ds_store",
            ".tmp",
            ".temp",
            ".trash",
            ".venv",
            ".pytype",
            ".pyre",
            ".ninja_log",
            ".ninja_deps",
        ),
    }
)
"""Hidden names nothing obeys: what they say is how text looks, or what is left out. See `is_ignores`."""
