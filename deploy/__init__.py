"""What it takes to run Sabot somewhere. Python only where a shell script would be the longer way."""
