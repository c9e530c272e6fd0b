"""Wallet: accounts, bets and money. It never sees a card, only outcomes and tiers."""
