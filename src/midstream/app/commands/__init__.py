"""Commands: lines that start with a slash, acting through the port `Operator`."""
