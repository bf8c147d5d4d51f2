"""The sandbox commands run in: bubblewrap, a seccomp filter, limits, and what was measured of them."""
