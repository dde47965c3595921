"""`python -m solfa` is the `solfa` command."""

import sys

if __name__ == "__main__":
    # `python -m` puts the folder that one is in first, the command does not: it may hold somebody else's yaml.py.
    if not sys.flags.safe_path:
        del sys.path[0]
    from solfa.cli.main import main

    main()
