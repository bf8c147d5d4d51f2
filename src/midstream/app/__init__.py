"""The parts of the console: where its lines go, and the runs out of sight."""
