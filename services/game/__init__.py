"""Game: tables, shoes and coups. It applies the draw rules, announces the outcome, and never sees a balance."""
