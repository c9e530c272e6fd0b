"""What an operator runs against a wallet before it goes live: ``sabot certify``."""
