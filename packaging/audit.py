"""Asks the database of open-source vulnerabilities whether faults are known of what goes into the bundle.

    python packaging/audit.py

Where it cannot be reached that is said, and nothing else fails for it.
"""

import json
import re
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
LOCK = ROOT / "packaging" / "requirements-bundle.txt"
AUDITOR = (
    str(Path(sys.executable).with_name("uv")),
    "tool",
    "run",
    "--quiet",
    "--from",
    "pip-audit==2.10.1",
    "pip-audit",
)
# What pip-audit, and uv that fetches it, say when nobody answers; anything else that goes wrong is a fault.
UNREACHABLE = re.compile(r"ConnectionError|ConnectTimeout|ReadTimeout|ProxyError|ServiceError|error sending request")


def main(lock: Path = LOCK, auditor: Sequence[str] = AUDITOR) -> int:
    """Ask; return 0 if nothing is known or nobody can be asked, 1 with the findings, or with what went wrong."""
    with tempfile.TemporaryDirectory() as folder:
        everything, answer = Path(folder, "lock.txt"), Path(folder, "answer.json")
        everything.write_text(without_markers(lock.read_text("utf-8")), "utf-8")
        words = (
            "--vulnerability-service",
            "osv",
            "--disable-pip",
            "--require-hashes",
            "--progress-spinner",
            "off",
            "--format",
            "json",
        )
        asked = subprocess.run(  # noqa: S603 - our own words
            [*auditor, *words, "--output", str(answer), "--requirement", str(everything)],
            capture_output=True,
            text=True,
            check=False,
        )
        found = findings(answer.read_text("utf-8")) if answer.exists() else []
    last = (asked.stderr.strip().splitlines() or ["it said nothing"])[-1][:200]
    if found:
        print("audit: known faults of the bundle's parts:", *found, sep="\n  ")
    elif asked.returncode == 0:
        print("audit: no faults are known of the bundle's parts")
        return 0
    elif UNREACHABLE.search(asked.stderr):
        print(f"audit: skipped: the database of vulnerabilities cannot be reached ({last})")
        return 0
    else:
        print(f"audit: failed: {last}", file=sys.stderr)
    return 1


def without_markers(lock: str) -> str:
    """Return the lock for all systems at once: what is for Windows alone is asked about everywhere."""
    return re.sub(r"(?m)^(\S+==\S+) ; .*?( \\)?$", r"\1\2", lock)


def findings(answer: str) -> list[str]:
    """Return a line for each vulnerability."""
    return [
        f"{part['name']} {part['version']}: {fault['id']} (fixed in {', '.join(fault['fix_versions']) or 'none'})"
        for part in json.loads(answer)["dependencies"]
        for fault in part.get("vulns", ())
    ]


if __name__ == "__main__":
    sys.exit(main())
