"""Game's rules and decisions: pure, importing nothing but ``schemas`` and the standard library."""
