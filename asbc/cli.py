"""``python -m asbc.cli``: the public name of the command ``asbc`` for scripts and notebooks."""

from asbc.commands import run as main

if __name__ == "__main__":
    main()
