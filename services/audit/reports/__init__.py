"""What audit prints."""
