"""Commands: lines that start with a slash, acting on the session."""
