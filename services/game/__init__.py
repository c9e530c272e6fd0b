"""Game: tables, shoes and coups. It draws, announces the outcome, and never sees a balance."""
