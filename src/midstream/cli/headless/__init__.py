"""Work without a person at the keyboard."""
