"""What the documents show: commands, blocks of other kinds, sentences of the program, links."""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[2]
DOCUMENTS = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "resources" / "docs").glob("*.md"))]
_FENCE = re.compile(r"^( *)```(\w*)\n(.*?)^\1```$", re.MULTILINE | re.DOTALL)
_CODE = re.compile(r"`([^`\n]+)`")
_COMMAND = re.compile(
    r"(\w+=\S* )*((zat-scs|make)$|(zat-scs|make|llama-server|sudo|systemctl|docker|\.venv/bin/\S+) \S)"
)


@dataclass(frozen=True)
class Block:
    """One fenced block. `kind`: the word behind its fence."""

    document: str
    kind: str
    text: str

    @property
    def commands(self) -> list[str]:
        """Its lines without comments; what a backslash continues is one."""
        lines = [re.sub(r"\s+# .*", "", line).strip() for line in self.text.replace("\\\n", " ").splitlines()]
        return [" ".join(line.split()) for line in lines if line]


def name_of(document: Path) -> str:
    """Return the path as people say it."""
    return document.relative_to(ROOT).as_posix()


def blocks() -> Iterator[Block]:
    """Yield all fenced blocks."""
    for document in DOCUMENTS:
        for indent, kind, text in _FENCE.findall(document.read_text("utf-8")):
            yield Block(name_of(document), kind, re.sub(rf"^{indent}", "", text, flags=re.MULTILINE))


def prose(document: Path) -> str:
    """Return a document without its fenced blocks."""
    return _FENCE.sub("", document.read_text("utf-8"))


def spans(document: Path) -> list[str]:
    """Return all that a document's prose shows as code."""
    return [span.replace("\\|", "|") for span in _CODE.findall(re.sub(r"\s*\n\s*", " ", prose(document)))]


def commands() -> dict[str, str]:
    """Return each command that a document shows, in a block or in a sentence, and one document that does."""
    found = {line: block.document for block in blocks() if block.kind == "sh" for line in block.commands}
    for document in DOCUMENTS:
        found |= {span: name_of(document) for span in spans(document) if _COMMAND.match(span) and not is_usage(span)}
    return found


def is_usage(span: str) -> bool:
    """Tell whether it says how a command may be used, as in the README's table, and is none to be typed."""
    return re.search(r" \[|FILE\.\.\.| ARGS$", span) is not None


def usages() -> list[str]:
    """Return the first column of the README's table of commands."""
    table = (ROOT / "README.md").read_text("utf-8").partition("\n## Commands\n")[2].partition("\n## ")[0]
    return [row.replace("\\|", "|") for row in re.findall(r"^\| `(zat-scs[^`]*)` \|", table, re.MULTILINE)]


def anchors(document: Path) -> set[str]:
    """Return what can be linked to in a document."""
    heads = re.findall(r"^#+ (.*)$", prose(document), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", head.lower()).replace(" ", "-") for head in heads}


def links(document: Path) -> list[str]:
    """Return where a document's links and pictures lead to within this project."""
    return [target for target in re.findall(r"\]\(([^)\s]+)\)", prose(document)) if "://" not in target]
