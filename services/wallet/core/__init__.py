"""The pure core of wallet: ledger, paytable, betting. No clock, no randomness, no I/O."""
