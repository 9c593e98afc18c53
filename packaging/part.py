"""The first lines of the bundled program, before PyInstaller's own: a part of it needs neither those nor the rest."""

import os
import sys

from engine import itself

itself.tidy(os.environ)
if sys.argv[1:2] == [itself.PART]:
    sys.exit(itself.run(sys.argv[2:]))
