"""``python -m asbc.cli``: the public name of the command ``asbc`` for scripts and notebooks."""

from asbc.runs.command import main

if __name__ == "__main__":
    main()
