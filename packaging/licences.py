"""Puts the licences of all parts of the bundle into one folder, with an overview.

python packaging/licences.py CONTENTS FOLDER
"""

import shutil
import sys
from pathlib import Path

import parts

HEAD = """\
ZAT-SCS {version} and what comes with it. Each part's licence lies in the folder of its name.

{table}

Libraries of Debian or Ubuntu are files of that version of their package; its source lies in their archive.
"""


def main(contents: Path, folder: Path) -> int:
    """Write the folder anew; return 0, or 1 with the name of a part whose licence nobody knows."""
    try:
        found = parts.found(contents)
    except parts.Unknown as error:
        print(f"licences: {error}", file=sys.stderr)
        return 1
    shutil.rmtree(folder, ignore_errors=True)
    for part in found:
        copy(part, folder / part.name)
    lines = [f"{part.name:<26} {part.version:<28} {part.licence or 'see the texts'}" for part in found]
    version = next(part.version for part in found if part.name == parts.OWN)
    (folder / "OVERVIEW.txt").write_text(HEAD.format(version=version, table="\n".join(lines)), "utf-8")
    return 0


def copy(part: parts.Part, folder: Path) -> None:
    """Copy the texts; those of one name in different folders of a wheel get a number."""
    folder.mkdir(parents=True)
    for text in part.texts:
        name, number = text.name, 1
        while (folder / name).exists():
            number += 1
            name = f"{text.stem}-{number}{text.suffix}"
        shutil.copyfile(text, folder / name)


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1]), Path(sys.argv[2])))
