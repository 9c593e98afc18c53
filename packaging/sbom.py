"""Writes the list of the bundle's parts that programs read: CycloneDX 1.6, with versions, licences and hashes.

python packaging/sbom.py CONTENTS FILE         writes it, and checks it
python packaging/sbom.py --check FILE          checks it alone
"""

import hashlib
import json
import sys
import uuid
from datetime import UTC, datetime
from pathlib import Path

import parts
from cyclonedx.contrib.license.factories import LicenseFactory
from cyclonedx.model import HashAlgorithm, HashType
from cyclonedx.model.bom import Bom
from cyclonedx.model.component import Component, ComponentType
from cyclonedx.output.json import JsonV1Dot6
from cyclonedx.schema import SchemaVersion
from cyclonedx.validation.json import JsonStrictValidator
from packageurl import PackageURL

BUNDLE = parts.ROOT / "dist" / parts.OWN
REPORT = parts.ROOT / "build" / "bundle-venv" / "report.json"  # pip's, of what it installed


def main(words: list[str]) -> int:
    """Write or check; return 0, or 1 with what is wrong."""
    path = Path(words[1])
    if words[0] != "--check":
        path.write_text(as_json(parts.found(Path(words[0]))), "utf-8")
    fault = JsonStrictValidator(SchemaVersion.V1_6).validate_str(path.read_text("utf-8"))
    if fault is not None:
        print(f"sbom: {path.name}: {fault.data.message}", file=sys.stderr)
        return 1
    return 0


def as_json(found: list[parts.Part]) -> str:
    """Return the list. The same bundle gives the same text."""
    wheels, files = hashes_of_wheels(), files_in_bundle()
    components = {part.name: component(part, wheels.get(part.name)) for part in found}
    for part in found:
        components[part.name].components = [file(files.pop(name), name) for name in part.files if name in files]
    ours = components.pop(parts.OWN)
    ours.type = ComponentType.APPLICATION
    ours.components = [*ours.components, *(file(path, name) for name, path in files.items())]
    bom = Bom(components=components.values())
    bom.metadata.component = ours
    bom.metadata.timestamp = datetime(1980, 1, 1, tzinfo=UTC)  # as of all files in it
    bom.register_dependency(ours, components.values())
    bom.serial_number = uuid.uuid5(uuid.NAMESPACE_URL, " ".join(f"{part.purl} {part.files}" for part in found))
    return JsonV1Dot6(bom).output_as_string(indent=2) + "\n"


def component(part: parts.Part, wheel: str | None) -> Component:
    """Describe a part; `wheel`: the hash of the archive that it came in."""
    licences = [LicenseFactory().make_from_string(part.licence)] if part.licence else []
    return Component(
        name=part.name,
        version=part.version,
        purl=PackageURL.from_string(part.purl),
        bom_ref=part.purl,
        licenses=licences,
        hashes=[HashType(alg=HashAlgorithm.SHA_256, content=wheel)] if wheel else [],
    )


def file(path: Path, name: str) -> Component:
    """Describe a file as it lies in the bundle."""
    digest = hashlib.sha256(path.read_bytes()).hexdigest()
    hashes = [HashType(alg=HashAlgorithm.SHA_256, content=digest)]
    return Component(type=ComponentType.FILE, name=name, bom_ref=f"file:{name}", hashes=hashes)


def files_in_bundle() -> dict[str, Path]:
    """Return what lies in the bundle, by the names that PyInstaller uses: the program, and what is in its folder."""
    inner = BUNDLE / "_internal"
    found = sorted(path for path in BUNDLE.rglob("*") if path.is_file() and not path.is_symlink())
    found = [path for path in found if not path.is_relative_to(BUNDLE / "licences")]
    return {path.relative_to(inner if path.is_relative_to(inner) else BUNDLE).as_posix(): path for path in found}


def hashes_of_wheels() -> dict[str, str]:
    """Return by name the SHA-256 of each wheel that was installed, which is the one that the lock allows."""
    installed = json.loads(REPORT.read_text("utf-8"))["install"]
    return {
        one["metadata"]["name"].replace("_", "-").replace(".", "-").lower(): one["download_info"]["archive_info"][
            "hashes"
        ]["sha256"]
        for one in installed
    }


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
