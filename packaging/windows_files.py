"""Writes what Windows wants of a program: an icon of several sizes, and what the properties of a file say.

python packaging/windows_files.py FOLDER
"""

import struct
import sys
import tomllib
from collections.abc import Mapping
from pathlib import Path

from PySide6.QtCore import QBuffer, QRectF, Qt
from PySide6.QtGui import QGuiApplication, QImage, QPainter
from PySide6.QtSvg import QSvgRenderer

ROOT = Path(__file__).resolve().parents[1]
SIZES = (16, 20, 24, 32, 40, 48, 64, 256)
PROGRAMS = {"zat-scs": "ZAT-SCS, commands", "zat-scs-tray": "ZAT-SCS"}


def main(folder: Path) -> None:
    """Write them all."""
    QGuiApplication.instance() or QGuiApplication([])
    drawing = ROOT / "resources" / "icons" / "zat-scs.svg"
    (folder / "zat-scs.ico").write_bytes(icon([png(drawing, size) for size in SIZES], SIZES))
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
    for name, title in PROGRAMS.items():
        (folder / f"{name}.version").write_text(version_resource(name, title, project), "utf-8")


def png(drawing: Path, size: int) -> bytes:
    """Draw a square of so many pixels."""
    image = QImage(size, size, QImage.Format.Format_ARGB32)
    image.fill(Qt.GlobalColor.transparent)
    painter = QPainter(image)
    QSvgRenderer(str(drawing)).render(painter, QRectF(0, 0, size, size))
    painter.end()
    buffer = QBuffer()
    image.save(buffer, "PNG")  # type: ignore[call-overload] - the stubs want bytes, the call a str
    return bytes(buffer.data().data())


def icon(pictures: list[bytes], sizes: tuple[int, ...]) -> bytes:
    """Return an .ico: a header, an entry of 16 bytes for each picture, then the pictures; 0 means 256 pixels."""
    offset = 6 + 16 * len(pictures)
    entries = b""
    for picture, size in zip(pictures, sizes, strict=True):
        entries += struct.pack("<BBBBHHII", size % 256, size % 256, 0, 0, 1, 32, len(picture), offset)
        offset += len(picture)
    return struct.pack("<HHH", 0, 1, len(pictures)) + entries + b"".join(pictures)


def version_resource(name: str, title: str, project: Mapping[str, str]) -> str:
    """Return the text that PyInstaller makes a version resource of."""
    numbers = (*map(int, project["version"].split(".")), 0)
    strings = {
        "CompanyName": "ZAT-SCS",
        "FileDescription": title,
        "FileVersion": project["version"],
        "InternalName": name,
        "LegalCopyright": "MIT licence",
        "OriginalFilename": f"{name}.exe",
        "ProductName": "ZAT-SCS",
        "ProductVersion": project["version"],
    }
    said = ", ".join(f"StringStruct({key!r}, {value!r})" for key, value in strings.items())
    return (
        f"VSVersionInfo(ffi=FixedFileInfo(filevers={numbers}, prodvers={numbers}, mask=0x3F, flags=0, OS=0x40004, "
        "fileType=1, subtype=0, date=(0, 0)), kids=["
        f"StringFileInfo([StringTable('040904B0', [{said}])]), "
        "VarFileInfo([VarStruct('Translation', [1033, 1200])])])\n"
    )


if __name__ == "__main__":
    main(Path(sys.argv[1]))
