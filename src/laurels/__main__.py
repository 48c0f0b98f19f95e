"""`python -m laurels`: the command line."""

import sys

from laurels.cli.program import main

sys.exit(main())
