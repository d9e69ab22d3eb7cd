"""`python -m rase_cli` is `rase`."""

from rase_cli.main import main

if __name__ == "__main__":
    main()
