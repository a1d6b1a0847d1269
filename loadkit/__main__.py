"""`python -m loadkit` and the `loadkit` command."""

from loadkit.cli import main

if __name__ == "__main__":
    main()
