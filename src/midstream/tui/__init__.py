"""The faces of the console: the interactive terminal, plain lines and JSON lines."""
