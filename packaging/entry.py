"""What the bundled program runs: the command line. Its parts never come this far; part.py takes them before."""

import multiprocessing
import sys

from app import cli

multiprocessing.freeze_support()  # where the pool of `replay --suggest` has to start programs, they are this one
sys.exit(cli.main())
