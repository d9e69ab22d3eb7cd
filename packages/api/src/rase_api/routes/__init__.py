"""The routes, one file for each noun of the API."""
