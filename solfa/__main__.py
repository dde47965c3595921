"""`python -m solfa` is the `solfa` command."""

from solfa.cli.main import main

if __name__ == "__main__":
    main()
