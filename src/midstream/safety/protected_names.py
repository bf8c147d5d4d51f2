"""The names of what other programs read and obey without being told to: a table, with who says so.

The line is drawn by what happens by itself. A shell that starts, an editor that opens a folder, an agent
that is asked something, a commit, a push: each reads files nobody named, and does what they say. What
a person runs by its name (a Makefile, a script, the tests) is source like any other, and so are the
manifests work changes every day (`package.json`, `pyproject.toml`, `Dockerfile`).

A row is where that is documented, and patterns: names in small letters, as `protected.folded` makes
them. A pattern is about what is called so at any depth, and all below it; `a/b` is b in a, a `*` any
characters of a name. What stands behind a `=` is why a change of those below it is asked about.
"""

from collections.abc import Iterator
from typing import Final, NamedTuple

_TABLE: Final = """
= version control does what it says
https://git-scm.com/docs/gitattributes .gitattributes .gitmodules .gitconfig
https://www.mercurial-scm.org/help/topics/config .hg .hgrc .hgsub
https://jj-vcs.github.io/jj/latest/config/ .jj
https://svnbook.red-bean.com/en/1.7/svn.advanced.confarea.html .svn .bzr .pijul _darcs
    .fossil-settings
https://secure.phabricator.com/book/phabricator/ .arcconfig .arclint
https://www.reviewboard.org/docs/rbtools/latest/rbt/configuration/ .reviewboardrc

= it tells agents what to do
https://agents.md agents.md agents.*.md agent.md .agents .agent .ai skill.md
https://docs.claude.com/en/docs/claude-code/settings .claude .claude.json claude.md claude.*.md
    .claude-plugin
https://modelcontextprotocol.io/docs .mcp.json mcp.json .mcp
https://developers.openai.com/codex/config-reference .codex
https://google-gemini.github.io/gemini-cli/docs/get-started/configuration.html .gemini gemini.md
    .geminiignore
https://qwenlm.github.io/qwen-code-docs/ .qwen qwen.md .qwenignore
https://github.com/charmbracelet/crush .crush crush.md crush.*.md crush.json .crush.json
    .crushignore
https://opencode.ai/docs/config/ .opencode opencode.json opencode.jsonc
https://docs.cursor.com/context/rules .cursor .cursorrules .cursorignore .cursorindexingignore
https://docs.windsurf.com/windsurf/cascade/memories .windsurf .windsurfrules .codeium .codeiumignore
https://docs.cline.bot/features/cline-rules .cline .clinerules .clineignore
https://docs.roocode.com/features/custom-modes .roo .roorules* .roomodes .rooignore
https://kilo.ai/docs/customize/custom-rules .kilo kilo.json kilo.jsonc .kilocode .kilocodemodes
    .kilocoderules .kilocodeignore
https://docs.continue.dev/reference .continue .continuerules .continuerc.json .continueignore
https://aider.chat/docs/config/aider_conf.html .aider*
https://block.github.io/goose/docs/guides/using-goosehints .goose .goosehints .gooseignore
https://www.jetbrains.com/help/junie/customize-guidelines.html .junie .aiassistant .aiignore .noai
https://zed.dev/docs/ai/rules .rules
https://docs.warp.dev/knowledge-and-collaboration/rules .warp warp.md
https://kiro.dev/docs/steering/ .kiro .amazonq
https://docs.augmentcode.com/setup-augment/guidelines .augment .augment-guidelines .augmentignore
https://docs.factory.ai/cli/configuration/settings .factory .droid .droid.yaml
https://ampcode.com/manual .amp
https://docs.trae.ai/ide/rules .trae .qoder .codebuddy .lingma
https://docs.all-hands.dev/usage/prompting/repository .openhands .openhands_instructions
https://docs.github.com/en/copilot copilot-instructions.md .copilot
https://code.visualstudio.com/docs/copilot *.instructions.md *.chatmode.md *.prompt.md
https://iflow.cn/docs .iflow iflow.md
https://docs.plandex.ai .plandex .plandex-v2 .plandexignore
https://github.com/intellectronica/ruler .ruler .rulesync .taskmaster .specify
https://github.com/oraios/serena .serena .devin .zencoder .tabnine .cody .bolt
https://docs.coderabbit.ai .coderabbit.* .pr_agent.toml sweep.yaml

= it decides what an editor runs
https://code.visualstudio.com/docs/editor/workspaces .vscode .vscode-server .vscode-test*
    *.code-workspace
https://www.jetbrains.com/help/idea/run-debug-configuration.html .idea .run .fleet *.iml *.ipr *.iws
https://zed.dev/docs/tasks .zed
https://learn.microsoft.com/visualstudio/ide .vs .omnisharp omnisharp.json
https://vimhelp.org/options.txt.html#%27exrc%27 .vim .vimrc _vimrc .gvimrc .exrc _exrc .nvimrc .nvim
    .nvim.lua .lvimrc .local.vimrc
https://github.com/folke/neoconf.nvim .neoconf.json .vimspector.json .projections.json
https://www.gnu.org/software/emacs/manual/html_node/emacs/Directory-Variables.html .emacs .emacs.d
    .dir-locals.el .dir-locals-2.el .projectile
https://docs.helix-editor.com/languages.html .helix
https://www.sublimetext.com/docs/projects.html *.sublime-project *.sublime-build *.sublime-settings
https://help.eclipse.org/latest/topic/org.eclipse.platform.doc.isv/guide/resAdv_builders.htm
    .project .classpath .factorypath .settings .externaltoolbuilders nbproject
https://clangd.llvm.org/config .clangd .ccls .ycm_extra_conf.py
https://luals.github.io/wiki/configuration/ .luarc.json .luarc.jsonc
https://scalameta.org/metals/docs .bsp .bloop
https://www.gitpod.io/docs/references/gitpod-yml .gitpod.yml .gitpod .gitpod.dockerfile .ona
https://docs.replit.com/replit-app/configuration .replit replit.nix .idx
https://developer.stackblitz.com .stackblitzrc .codesandbox .theia .nova
https://microsoft.github.io/language-server-protocol rust-analyzer.toml

= it decides what runs elsewhere, when code is pushed
https://docs.github.com/actions .github
https://docs.gitlab.com/ci/yaml/ .gitlab *.gitlab-ci.yml *.gitlab-ci.yaml
https://docs.gitea.com/usage/actions .gitea .forgejo
https://circleci.com/docs/configuration-reference/ .circleci
https://buildkite.com/docs/pipelines .buildkite .buildkite.yml buildkite.yml
https://woodpecker-ci.org/docs/usage/intro .woodpecker .woodpecker.*
https://docs.drone.io/pipeline/configuration/ .drone.* .drone
https://docs.travis-ci.com .travis.yml .travis
https://cirrus-ci.org/guide/writing-tasks/ .cirrus.*
https://www.appveyor.com/docs/appveyor-yml/ appveyor.yml .appveyor.yml
https://www.jenkins.io/doc/book/pipeline/jenkinsfile/ jenkinsfile jenkinsfile.*
https://learn.microsoft.com/azure/devops/pipelines azure-pipelines*.yml azure-pipelines*.yaml
    .azure-pipelines .pipelines
https://support.atlassian.com/bitbucket-cloud/docs bitbucket-pipelines.yml
https://www.jetbrains.com/help/teamcity/kotlin-dsl.html .teamcity .space.kts
https://docs.semaphoreci.com .semaphore codeship-*.yml wercker.yml
https://man.sr.ht/builds.sr.ht/manifest.md .build.yml .builds
https://tekton.dev/docs/ .tekton .onedev-buildspec.yml .earthly
https://docs.aws.amazon.com/codebuild/latest/userguide buildspec.yml buildspec.yaml
https://cloud.google.com/build/docs cloudbuild.yaml cloudbuild.yml
https://docs.netlify.com/configure-builds netlify.toml vercel.json
https://docs.readthedocs.com/platform/stable/config-file .readthedocs.*
https://docs.renovatebot.com/configuration-options/ .renovaterc* renovate.json*
https://docs.mergify.com/configuration .mergify.yml .mergify
https://goreleaser.com/customization .goreleaser.*
https://semantic-release.gitbook.io .releaserc* release.config.* .release-it.*

= it decides what runs when git does something
https://git-scm.com/docs/githooks .githooks .git-hooks .hooks
https://typicode.github.io/husky/ .husky .huskyrc*
https://lefthook.dev/configuration/ lefthook.* .lefthook.* lefthook-local.* .lefthook-local.*
    .lefthook .lefthook-local
https://pre-commit.com .pre-commit-config.* .pre-commit-hooks.*
https://prek.j178.dev/configuration/ prek.toml
https://github.com/lint-staged/lint-staged .lintstagedrc* lint-staged.config.* .lint-staged*
https://commitlint.js.org/reference/configuration.html .commitlintrc* commitlint.config.* .czrc
    .cz.* .cz-config.*
https://github.com/toplenboren/simple-git-hooks .simple-git-hooks.* simple-git-hooks.*
https://github.com/sds/overcommit .overcommit.yml .local-overcommit.yml .overcommit
https://jorisroovers.com/gitlint .gitlint captainhook.json grumphp.yml*
https://facebook.github.io/watchman/docs/config .watchmanconfig

= it decides what a container or a machine for development runs
https://containers.dev/implementors/spec/ .devcontainer .devcontainer.json
https://docs.docker.com/build .docker .dockercfg .vagrant .lando.* .ddev
https://developer.hashicorp.com/terraform/cli/config .terraform .terraformrc

= it decides which program runs under a name
https://mise.jdx.dev/configuration.html mise.toml mise.*.toml .mise.toml .mise.*.toml .mise
    mise/config.toml mise/config.*.toml mise/conf.d mise/tasks .mise-tasks
https://asdf-vm.com/manage/configuration.html .tool-versions .asdfrc .rtx*
https://rvm.io/workflow/rvmrc .rvmrc .versions.conf .ruby-gemset
https://github.com/pyenv/pyenv/security/advisories/GHSA-cqfh-jqf8-2h87 .python-version
    .python-versions .ruby-version .node-version .java-version .go-version .terraform-version
    .perl-version .php-version .lua-version .swift-version .crystal-version .bazelversion .nvmrc
    .rbenv-* .pyenv* .sdkmanrc .jabbarc .phpenv*
https://rust-lang.github.io/rustup/overrides.html rust-toolchain rust-toolchain.toml
https://hermit.run/docs .hermit .prototools .proto .volta .flox .devenv*
https://docs.python.org/3/library/venv.html .venv/bin .venv/scripts venv/bin venv/scripts env/bin
    env/scripts pyvenv.cfg .virtualenv .tox/*/bin .nox/*/bin .direnv
https://docs.npmjs.com/cli/configuring-npm/folders#executables node_modules/.bin vendor/bin
    .bundle/bin .bin .pixi .conda

= a shell or program runs it when it starts
https://www.gnu.org/software/bash/manual/html_node/Bash-Startup-Files.html .bashrc .bash_* .bash-*
    .profile .inputrc .hushlogin .shrc .shinit
https://zsh.sourceforge.io/Doc/Release/Files.html .zshrc .zshenv .zprofile .zlogin .zlogout .zsh
    .oh-my-zsh .zimrc .zpreztorc
https://man.freebsd.org/cgi/man.cgi?query=tcsh .kshrc .mkshrc .cshrc .tcshrc .login .logout .yashrc
    .xonshrc .elvish
https://github.com/hyperupcall/autoenv .autoenv* .direnvrc .shadowenv.d .in .out
https://learn.microsoft.com/powershell/module/microsoft.powershell.core/about/about_profiles
    profile.ps1 *_profile.ps1
https://www.x.org/releases/current/doc/man/man1/xinit.1.xhtml .xinitrc .xprofile .xsession*
    .xserverrc .pam_environment .dmrc
https://specifications.freedesktop.org/autostart-spec/latest/ *.desktop .config .local
https://man.openbsd.org/tmux.1 .screenrc .tmux.conf .tmux .tmuxinator* .tmuxp.* .byobu .wezterm.lua
    .lessfilter .lesskey
https://github.com/BurntSushi/ripgrep/blob/master/GUIDE.md .ripgreprc .ackrc .fdrc .curlrc .wgetrc
    .mailrc .nanorc .digrc

= a debugger or console runs it when it starts
https://sourceware.org/gdb/current/onlinedocs/gdb.html/Auto_002dloading.html .gdbinit .gdbinit.*
    .gdbearlyinit *-gdb.gdb *-gdb.py *-gdb.scm .cgdb
https://lldb.llvm.org/man/lldb.html .lldbinit .lldbinit-* .lldb
https://docs.python.org/3/library/pdb.html .pdbrc .pdbrc.* .ipdb
https://docs.ruby-lang.org/en/master/IRB.html .irbrc .irbrc.* .pryrc .rdbgrc* .byebugrc .railsrc
https://perldoc.perl.org/perldebug .perldb .dbxrc .ocamlinit .ghci .radare2rc .iex.exs .rprofile
    .rprofile.site .renviron .octaverc .juliarc.jl .psqlrc .sqliterc .my.cnf .noderc
    .node_repl_history
https://www.mintlify.com/bobthecow/psysh/advanced/project-trust .psysh.php

= it decides what a linter or formatter loads and runs
https://eslint.org/docs/latest/use/configure/ .eslintrc* eslint.config.*
https://prettier.io/docs/plugins .prettierrc* prettier.config.*
https://stylelint.io/user-guide/configure .stylelintrc* stylelint.config.*
https://babeljs.io/docs/config-files .babelrc* .swcrc .postcssrc*
https://github.com/textlint/textlint/blob/master/docs/configuring.md .textlintrc* .remarkrc*
    .markdownlint-cli2.* .jscsrc .htmllintrc tslint.json .solhint.json
https://pylint.readthedocs.io/en/stable/user_guide/configuration/all-options.html .pylintrc*
    pylintrc .flake8 .mypy.ini mypy.ini .coveragerc .sqlfluff .ansible-lint*
https://docs.rubocop.org/rubocop/extensions.html .rubocop* .standard.yml .reek*
https://golangci-lint.run/docs/configuration/ .golangci.*
https://phpstan.org/config-reference phpstan.neon* .php-cs-fixer* .php_cs* .phpcs.xml* psalm.xml*
    rector.php
https://luacheck.readthedocs.io/en/stable/config.html .luacheckrc .credo.exs .formatter.exs
    .dialyzer_ignore.exs .clj-kondo .lsp .tflint.hcl
https://mochajs.org/#configuring-mocha-nodejs .mocharc* .nycrc* .c8rc* .taprc
https://docs.trunk.io/code-quality .trunk .mega-linter.yml .qlty

= it decides what build tools and package managers run
https://doc.rust-lang.org/cargo/reference/config.html .cargo
https://maven.apache.org/configure.html .mvn gradle/wrapper .gradle/init.d .sbtopts .jvmopts .sdkman
https://yarnpkg.com/configuration/yarnrc .yarn .yarnrc .yarnrc.yml .pnp.*
https://pnpm.io/pnpmfile .pnpmfile.* pnpmfile.* .pnpm-store
https://bun.sh/docs/runtime/bunfig bunfig.toml .bunfig.toml
https://pip.pypa.io/en/stable/topics/configuration/ pip.conf pip.ini .pip uv.toml poetry.toml
    .pydistutils.cfg .condarc .mambarc .pdm-python
https://bundler.io/man/bundle-config.1.html .bundle .gemrc .gem
https://rspec.info/features/3-13/rspec-core/configuration/read-options-from-file .rspec .rspec-local
https://bazel.build/run/bazelrc .bazelrc *.bazelrc .buckconfig .bazelproject
https://learn.microsoft.com/nuget/reference/nuget-config-file nuget.config .nuget

= an interpreter runs it when it starts, or in a program's stead
https://docs.python.org/3/library/site.html sitecustomize.py usercustomize.py *.pth .pythonrc
    .pythonrc.py .pythonstartup .ipython .jupyter
https://nodejs.org/api/modules.html .node_modules .node_libraries .noderequire
https://www.php.net/manual/en/configuration.file.per-user.php .user.ini .htaccess
https://perldoc.perl.org/prove .proverc
https://flask.palletsprojects.com/cli/ .flaskenv
https://github.com/toddbluhm/env-cmd .env-cmdrc*
https://dotenvx.com/docs .dotenv .env.keys
"""

UNKNOWN: Final = "it is a hidden name in the workspace's root, and nobody here knows what obeys it"


class Row(NamedTuple):
    """Names of one kind, and where it is documented what reads them."""

    kind: str
    source: str
    patterns: tuple[str, ...]


def _read(table: str) -> Iterator[Row]:
    kind = ""
    for line in table.replace("\n    ", " ").splitlines():
        if line.startswith("= "):
            kind = line.removeprefix("= ")
        elif line:
            source, *patterns = line.split()
            yield Row(kind, source, tuple(patterns))


ROWS: Final = tuple(_read(_TABLE))

_PLAIN: Final = """
.editorconfig .browserslistrc .gitkeep .keep .nojekyll .mailmap .git-blame-ignore-revs
.clang-format .clang-tidy .stylua.toml .rustfmt.toml .scalafmt.conf .swiftformat
.swiftlint.yml .yamllint .yamllint.yml .yamllint.yaml .hadolint.yaml .hadolint.yml
.shellcheckrc .ruff.toml .isort.cfg .style.yapf .pydocstyle .bandit .jshintrc .htmlhintrc
.markdownlint.json .markdownlint.yaml .markdownlint.yml .markdownlint.jsonc .codecov.yml
.codecov.yaml .all-contributorsrc .codespellrc .typos.toml .cspell.json .taplo.toml
.zenodo.json .terraform.lock.hcl .secrets.baseline

.mypy_cache .pytest_cache .ruff_cache .hypothesis .tox .nox .eggs .cache .coverage
.nyc_output .eslintcache .stylelintcache .next .nuxt .output .svelte-kit .turbo
.parcel-cache .angular .astro .vite .docusaurus .expo .gradle .dart_tool .stack-work
.zig-cache .build .ipynb_checkpoints .jekyll-cache .sass-cache .ccache .benchmarks
.import-linter .ds_store .tmp .temp .trash .venv .pytype .pyre .ninja_log .ninja_deps
"""
"""The second part is what tools keep for themselves."""

PLAIN_AT_ROOT: Final = frozenset(_PLAIN.split())
"""Hidden names nothing obeys: what they say is how text looks, or what is left out. See also
`protected._IGNORES`.
"""
