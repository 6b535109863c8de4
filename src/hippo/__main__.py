"""``python -m hippo`` is the command ``hippo``."""

import sys

from hippo.cli import main

sys.exit(main())
