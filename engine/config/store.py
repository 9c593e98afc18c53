"""Where settings come from: default < the user's TOML file < environment < `--set`."""

import os
import re
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import platformdirs
import tomlkit
import tomlkit.exceptions

from engine.config.settings import Settings, spec, specs
from engine.config.sharing import once_free
from engine.config.spec import Value
from engine.errors import SettingsError

PREFIX = "ZAT_SCS_"
_APP = "zat-scs"


def config_file() -> Path:
    """Return where this user's settings lie unless told otherwise."""
    return Path(platformdirs.user_config_dir(_APP, appauthor=False)) / "settings.toml"


def data_folder() -> Path:
    """Return the folder for what is kept between runs, such as the index of saved contexts."""
    return Path(platformdirs.user_data_dir(_APP, appauthor=False))


def state_folder() -> Path:
    """Return the folder for the ledger, the lock and logs."""
    return Path(platformdirs.user_state_dir(_APP, appauthor=False))


def cache_folder() -> Path:
    """Return the folder for what can be made again, such as the model of the benchmark."""
    return Path(platformdirs.user_cache_dir(_APP, appauthor=False))


@dataclass(frozen=True, slots=True)
class Loaded:
    """Settings in force, with where each changed one came from.

    `sources`: NAME → "file", "environment" or "--set". `problems`: what was wrong in the file, one sentence each.
    """

    settings: Settings
    sources: Mapping[str, str]
    problems: tuple[str, ...]
    path: Path


def load(path: Path | None = None, environ: Mapping[str, str] | None = None, sets: Sequence[str] = ()) -> Loaded:
    """Merge all sources. Mistakes in the file are reported and defaulted; elsewhere they raise SettingsError."""
    path = config_file() if path is None else path
    values, problems = _from_file(path)
    sources = dict.fromkeys(values, "file")
    outside = _from_environment(os.environ if environ is None else environ)
    sources |= dict.fromkeys(outside, "environment")
    given = _from_sets(sets)
    sources |= dict.fromkeys(given, "--set")
    outside |= given
    values, more = _without_broken_order(values, outside, path)
    sources = {name: source for name, source in sources.items() if name in values or name in outside}
    try:
        settings = Settings().replace({**values, **outside})
    except SettingsError as error:
        who = " and ".join(sorted({sources[name] for name in Settings.ordered if name in sources}))
        raise SettingsError(f"{who}: {error}") from None
    return Loaded(settings, sources, (*problems, *more), path)


def save(path: Path, changes: Mapping[str, Value]) -> None:
    """Write changed settings into the user's file, keeping comments, order and unknown text.

    A value equal to the default is taken out. Atomic, readable by the owner only. Raises SettingsError.
    """
    checked = {name: spec(name).check(value) for name, value in changes.items()}
    try:
        document = _read(path)
    except FileNotFoundError:
        document = tomlkit.document()
    except SettingsError as error:
        raise SettingsError(f"{path}: not written, since it cannot be read: {error}") from None
    for name, value in checked.items():
        if value == spec(name).default:
            document.pop(name, None)
        else:
            document[name] = value
    try:
        target = path.resolve() if path.is_symlink() else path  # a link into a folder of dotfiles stays a link
        write_private(target, tomlkit.dumps(document).encode("utf-8"))
    except (OSError, UnicodeEncodeError) as error:
        raise SettingsError(f"{path}: not written: {error}") from None


def write_private(path: Path, content: bytes) -> None:
    """Replace a file in one step: after a crash either the old or the new one is there. Mode 0600, synced."""
    path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    descriptor, temporary = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")  # mkstemp gives 0600
    try:
        with os.fdopen(descriptor, "wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        once_free(lambda: Path(temporary).replace(path))
        _sync_folder(path.parent)
    except BaseException:
        Path(temporary).unlink(missing_ok=True)
        raise


def _sync_folder(folder: Path) -> None:
    """Let the new name outlive a power cut, too; Windows opens no folders."""
    if os.name != "posix":
        return
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _read(path: Path) -> tomlkit.TOMLDocument:
    """Parse the file; line ends stay as they are, a byte-order mark (some Windows editors) is left out.

    Raises FileNotFoundError, else SettingsError with the reason.
    """
    try:
        return tomlkit.parse(path.read_bytes().decode("utf-8-sig"))
    except FileNotFoundError:
        raise
    except (OSError, UnicodeDecodeError) as error:
        raise SettingsError(str(error)) from None
    except tomlkit.exceptions.TOMLKitError as error:
        reason = re.sub('".*"', "(not shown)", str(error), flags=re.DOTALL)  # the line it quotes may hold the API key
        bare = isinstance(error, tomlkit.exceptions.UnexpectedCharError)  # `on`, as `--set` takes it
        hint = "; a text stands in quotes, a switch is true or false" if bare else ""
        raise SettingsError(f"{reason}{hint}") from None


def _from_file(path: Path) -> tuple[dict[str, Value], list[str]]:
    values: dict[str, Value] = {}
    problems: list[str] = []
    try:
        document = _read(path).unwrap()
    except FileNotFoundError:
        return values, problems
    except SettingsError as error:
        return values, [f"{path}: cannot be read, so defaults are used: {error}"]
    for name, raw in document.items():
        try:
            values[name] = spec(name).check(raw)
        except SettingsError as error:
            problems.append(f"{path}: {error}; the default is used" if _known(name) else f"{path}: {error}")
    return values, problems


def _known(name: str) -> bool:
    return any(candidate.name == name for candidate in specs())


def _from_environment(environ: Mapping[str, str]) -> dict[str, Value]:
    values: dict[str, Value] = {}
    for variable in sorted(environ):
        if variable.startswith(PREFIX):
            name = variable.removeprefix(PREFIX)
            try:
                values[name] = spec(name).parse(environ[variable])
            except SettingsError as error:
                raise SettingsError(f"environment {variable}: {error}") from None
    return values


def _from_sets(sets: Sequence[str]) -> dict[str, Value]:
    values: dict[str, Value] = {}
    for item in sets:
        name, equals, text = item.partition("=")
        if not equals:
            shown = re.match(r"\w*", item)  # what follows may be a secret
            raise SettingsError(f"--set {shown[0] if shown else ''}: expected NAME=VALUE")
        try:
            values[name] = spec(name).parse(text)
        except SettingsError as error:
            raise SettingsError(f"--set {name}: {error}") from None
    return values


def _without_broken_order(
    values: dict[str, Value], outside: Mapping[str, Value], path: Path
) -> tuple[dict[str, Value], list[str]]:
    """Drop the file's thresholds where they, not those from outside, break the order."""
    try:
        Settings().replace({**values, **outside})
    except SettingsError:
        pass
    else:
        return values, []
    try:
        Settings().replace(values)
    except SettingsError as error:
        kept = {name: value for name, value in values.items() if name not in Settings.ordered}
        return kept, [f"{path}: {error}; the defaults are used for all three"]
    return values, []
