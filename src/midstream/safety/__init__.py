"""What may happen without asking: capabilities, rules and the verdict, all pure."""
