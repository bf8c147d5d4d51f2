"""Settings, roles and workflows in layers, where they live, and whom to trust."""
