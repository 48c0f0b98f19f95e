"""`python -m laurels.cli`: the command line without its installed script."""

import sys

from .program import main

sys.exit(main())
