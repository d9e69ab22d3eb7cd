"""What goes back, one file for each API."""
