"""The sandbox commands run in: built up from nothing on Linux, a profile for `sandbox-exec` on macOS.

Begin with `sandbox` (`Sandbox`): measured once, then one command line after the other. How much may
happen unasked depends on the level `probes` measured, which runs `inside_probes` there and tries to get
out.

On Linux `mounts` says what a command sees of the machine, `guarded_files` what of the workspace it may
not change, `masks` what it may not read; `seccomp` filters system calls, `rlimits` bounds what it takes.
`launch` starts it by `bwrap` and clears up; `proxy` is its only way to the hosts it named. On macOS
`seatbelt` writes the profile.
"""
