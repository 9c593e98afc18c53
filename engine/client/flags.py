"""What the command line of a server tells. Pure."""

import functools
import re
from collections.abc import Iterator

_FLAG = re.compile(r"--?[A-Za-z]")  # a value may be a negative number
_LONG = {
    "-ctk": "--cache-type-k",
    "-ctv": "--cache-type-v",
    "-fa": "--flash-attn",
    "-kvu": "--kv-unified",
    "-no-kvu": "--no-kv-unified",
    "-np": "--parallel",
    "-gan": "--grp-attn-n",
    "-gaw": "--grp-attn-w",
}
_SHAPING = {*_LONG.values(), "--kv-unified-per-slot", "--swa-full", "--override-kv"}
_SHAPING_KINDS = ("--rope-", "--yarn-", "--lora", "--control-vector")


def flag(command_line: tuple[str, ...], *names: str) -> str | None:
    """Return the value of a command-line flag, in either form; None if it is not given."""
    value = None
    for word, following in zip(command_line, (*command_line[1:], ""), strict=False):
        name, equals, rest = _parted(word)
        if name in names:
            value = rest if equals else following
    return value


def shaping(command_line: tuple[str, ...]) -> Iterator[str]:
    """Yield the flags that change the form of a slot file, or what the keys and values in it mean, with their values.

    By their long names, all of them, in their order: of some the last one counts, others add up. --parallel is one:
    without it the slots share one cache.
    """
    wanted = False
    for word in command_line:
        if _FLAG.match(word):
            name, equals, rest = _parted(word)
            name = _LONG.get(name, name)
            wanted = name in _SHAPING or name.startswith(_SHAPING_KINDS)
            if wanted:
                yield f"{name}{equals}{rest}".replace("=", " ", 1)
        elif wanted:
            yield word


@functools.lru_cache(maxsize=8)  # asked at each look
def is_own(command_line: tuple[str, ...], model_path: str) -> bool:
    """Tell whether this starts the server that has this model, and not a program that passes everything on to it.

    It names the program, or the model as the server itself does. Flags alone tell nothing: ssh has an -m, too.
    """
    if not command_line:
        return False
    program = re.split(r"[/\\]", command_line[0])[-1].lower().removesuffix(".exe")
    ends = [(word, (f"/{word}", f"\\{word}")) for word in command_line if word]
    return program == "llama-server" or any(model_path == word or model_path.endswith(tail) for word, tail in ends)


def _parted(word: str) -> tuple[str, str, str]:
    """Return name, equals sign and value of a flag; llama-server takes underscores for dashes, too."""
    name, equals, rest = word.partition("=")
    return (name.replace("_", "-") if name.startswith("--") else name), equals, rest
