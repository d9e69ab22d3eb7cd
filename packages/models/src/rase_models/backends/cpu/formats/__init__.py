"""The packed weight types, a file for each family."""
