"""Reads the stack manifests of Atmos with their imports and inheritance. Read-only; runs nothing."""

from __future__ import annotations

import functools
import posixpath
import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Final

import yaml
from msgspec import Struct, field

from holdfast.hcl.eval.code import Code
from holdfast.stacks.listing import ROOT

CONFIG_FILES: Final = ("atmos.yaml", ".atmos.yaml")
_ENDINGS: Final = (".yaml", ".yml")
_SYSTEM_CONFIG: Final = "rootfs/usr/local/etc/atmos"
_MOST_PARTS: Final = 200_000


class Tagged(Struct, frozen=True):
    """A value that a function of Atmos computes: `!terraform.output vpc id`."""

    function: str
    text: str


class Manifest(Struct, frozen=True, kw_only=True):
    """A stack file with everything that it imports."""

    path: str
    name: str
    """Its path below the stacks, without the ending."""
    content: Mapping[str, object]
    given_name: object = None
    """The name that the file itself gives to its stack."""
    problems: tuple[str, ...] = ()


class AtmosConfig(Struct, frozen=True, kw_only=True):
    path: str
    settings: Mapping[str, object] = field(default_factory=dict)
    base: str = ROOT

    def setting(self, *keys: str) -> object:
        value: object = self.settings
        for key in keys:
            value = value.get(key) if isinstance(value, Mapping) else None
        return value

    def folder(self, *keys: str, default: str) -> str:
        path = self.setting(*keys, "base_path")
        return posixpath.normpath(posixpath.join(self.base, path if isinstance(path, str) else default))


class _Loader(yaml.SafeLoader):
    pass


def _tagged(loader: yaml.SafeLoader, suffix: str, node: yaml.Node) -> object:
    text = loader.construct_scalar(node) if isinstance(node, yaml.ScalarNode) else ""
    return text if suffix == "literal" else Tagged(suffix, str(text))


_Loader.add_multi_constructor("!", _tagged)


def read_config(code: Code, paths: Iterable[str]) -> AtmosConfig | None:
    """The configuration nearest to the top."""
    files = [path for path in paths if posixpath.basename(path) in CONFIG_FILES]
    if not files:
        return None
    path = min(files, key=lambda path: (path.count("/"), path))
    content, _ = _load(code, path)
    folder = posixpath.dirname(path)
    base = content.get("base_path")
    above = "" if folder == _SYSTEM_CONFIG else folder
    return AtmosConfig(
        path=path,
        settings=content,
        base=posixpath.normpath(posixpath.join(above, base if isinstance(base, str) else "")) or ROOT,
    )


def read_manifests(code: Code, config: AtmosConfig, paths: Iterable[str]) -> list[Manifest]:
    """The stack files that `included_paths` and `excluded_paths` select."""
    top = config.folder("stacks", default="stacks")
    included = texts(config.setting("stacks", "included_paths")) or ["**/*"]
    excluded = texts(config.setting("stacks", "excluded_paths"))
    reader = _Reader(code, top, paths)
    manifests: list[Manifest] = []
    for path in reader.files:
        name = path.removeprefix(f"{top}/")
        if not _matches(name, included) or _matches(name, excluded):
            continue
        reader.problems.clear()
        manifests.append(
            Manifest(
                path=path,
                name=_stem(name),
                content=reader.read(path),
                given_name=_load(code, path)[0].get("name"),
                problems=tuple(reader.problems),
            )
        )
    return manifests


class _Reader:
    def __init__(self, code: Code, top: str, paths: Iterable[str]) -> None:
        self._code, self._top = code, top
        self.files = [path for path in paths if path.startswith(f"{top}/") and path.endswith(_ENDINGS)]
        self._stems = {_stem(path): path for path in self.files}
        self.problems: list[str] = []

    def read(self, path: str, above: tuple[str, ...] = ()) -> Mapping[str, object]:
        """The file with its imports, which it overrides."""
        content, problem = _load(self._code, path)
        if problem is not None:
            self.problems.append(f"{path}: {problem}.")
        merged: Mapping[str, object] = {}
        imports = content.get("import")
        for item in imports if isinstance(imports, list) else ():
            for imported in self._imported(item, path):
                if imported not in above and imported != path:
                    merged = deep_merge(merged, self.read(imported, (*above, path)))
        own = {key: value for key, value in content.items() if key != "import"}
        return deep_merge(merged, own)

    def _imported(self, item: object, path: str) -> Sequence[str]:
        wanted = item.get("path") if isinstance(item, Mapping) else item
        if isinstance(item, Mapping) and item.get("context"):
            self.problems.append(f"{path} imports {wanted} with a context, which Holdfast does not evaluate.")
            return ()
        if not isinstance(wanted, str) or "{{" in wanted or "://" in wanted or "::" in wanted:
            self.problems.append(f"{path} imports {wanted}, which only Atmos can find.")
            return ()
        folder = posixpath.dirname(path) if wanted.startswith(".") else self._top
        whole = posixpath.normpath(posixpath.join(folder, wanted))
        if _stem(whole) in self._stems:
            return [self._stems[_stem(whole)]]
        found = [file for file in self.files if _matches(file, (whole,))]
        if not found and not (isinstance(item, Mapping) and item.get("skip_if_missing") is True):
            self.problems.append(f"{path} imports {wanted}, which does not exist.")
        return found


def _load(code: Code, path: str) -> tuple[Mapping[str, object], str | None]:
    content = code.content(path)
    try:
        document = yaml.load(content or b"", Loader=_Loader)  # noqa: S506 - a safe loader with more tags
        plain = _plain(document, [_MOST_PARTS])
    except (yaml.YAMLError, ValueError, RecursionError) as error:
        return {}, f"not valid YAML ({type(error).__name__})"
    return (plain, None) if isinstance(plain, Mapping) else ({}, None)


def _plain(value: object, left: list[int]) -> object:
    """Mappings with texts as keys. Raises ValueError if it is huge, which aliases can make it."""
    left[0] -= 1
    if left[0] < 0:
        raise ValueError("too large")
    if isinstance(value, Mapping):
        return {str(key): _plain(item, left) for key, item in value.items()}
    if isinstance(value, list):
        return [_plain(item, left) for item in value]
    return value if isinstance(value, str | int | float | Tagged | None) else str(value)


def deep_merge(below: object, above: object) -> Mapping[str, object]:
    """Mappings are merged key by key; everything else is replaced, lists too."""
    lower = below if isinstance(below, Mapping) else {}
    upper = above if isinstance(above, Mapping) else {}
    result = dict(lower)
    for key, value in upper.items():
        both = isinstance(value, Mapping) and isinstance(result.get(key), Mapping)
        result[key] = deep_merge(result[key], value) if both else value
    return result


def texts(value: object) -> list[str]:
    return [item for item in value if isinstance(item, str)] if isinstance(value, list) else []


def _stem(path: str) -> str:
    return path.rpartition(".")[0] if path.endswith(_ENDINGS) else path


def _matches(path: str, globs: Iterable[str]) -> bool:
    """With or without its ending."""
    return any(_glob(glob).fullmatch(text) for glob in globs for text in (path, _stem(path)))


@functools.cache
def _glob(pattern: str) -> re.Pattern[str]:
    parts = re.split(r"(\*\*/|\*\*|\*|\?)", pattern)
    known = {"**/": "(?:.*/)?", "**": ".*", "*": "[^/]*", "?": "[^/]"}
    return re.compile("".join(known.get(part) or re.escape(part) for part in parts))
