"""What the services stand on: inbox, writer, calendar, migrations."""
