"""What a run looks like to a person: where it stands, what it cost, what was said."""
