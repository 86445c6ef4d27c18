"""`python -m duetime` is the command `duetime`."""

from __future__ import annotations

from duetime.server.cli.main import main

if __name__ == "__main__":
    main()
