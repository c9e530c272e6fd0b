"""Wallet: its ledger, its bets, and what other people's wallets got wrong."""
