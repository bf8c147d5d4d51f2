"""The sandbox commands run in, on Linux: bubblewrap, a filter of system calls, limits.

Begin with `sandbox` (`Sandbox`): measured once, then one command line after the other. How much may happen
unasked depends on the level `probes` measured, which runs `init` inside and tries to get out.

What a command sees is built up from nothing: `mounts` (the machine), `landlock` (what of the workspace it
may not change), `masks` (what it may not read), `seccomp` (system calls), `rlimits`. `launch` starts it by
`bwrap` and clears up; `proxy` is its only way to the hosts it named.
"""
