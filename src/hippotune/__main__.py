"""``python -m hippotune`` is the command ``hippo``."""

import sys

from hippotune.cli import main

sys.exit(main())
