"""What is done to midstream to see whether its promise holds: kills, power losses, flipped bits."""
