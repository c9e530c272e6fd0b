"""The seamless mode: the protocol, an operator's wallet, its certification, and wallet calling it."""
