"""``python -m versioned.cli`` is ``versioned``."""

from __future__ import annotations

from versioned.cli.app import main

if __name__ == "__main__":
    main()
