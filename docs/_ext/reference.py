"""Sphinx extension that writes the references of commands and settings from the parsers and from `conf/`.

A page asks for them with a comment, ``<!-- commands -->`` or ``<!-- settings -->``, and likewise for CHANGELOG.md and
CONTRIBUTING.md. Text up to ``<!-- end of commands -->`` is what GitHub shows instead.
"""

from __future__ import annotations

import argparse
import re
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from textwrap import fill
from unittest import mock

ROOT = Path(__file__).resolve().parents[2]
CONF, TRAIN = ROOT / "conf", ROOT / "asbc" / "train" / "conf"
PARSED = {  # commands with options
    "asbc-build": "asbc.outofcore.command",
    "asbc-explore": "asbc.explore.command",
    "asbc-report": "asbc.report.command",
    "asbc-upload": "asbc.runs.wandb",
}
COMPOSED = {  # commands with a config
    "asbc": CONF / "config.yaml",
    "asbc-embed": CONF / "embed.yaml",
    "asbc-pretrain": TRAIN / "config.yaml",
}


def table(columns: list[str], rows: list[list[str]]) -> str:
    """Return a Markdown table."""
    lines = [columns, ["---"] * len(columns), *rows]
    return "\n".join("| " + " | ".join(cell.replace("|", "\\|") for cell in line) + " |" for line in lines) + "\n"


# ------------------------------------------------------------------------------------------------------ commands


class _Found(Exception):
    pass


def parser_of(module: str) -> argparse.ArgumentParser:
    """Return the parser that the command in `module` uses."""

    def stop(parser, *_, **__):
        raise _Found(parser)

    with mock.patch.object(argparse.ArgumentParser, "parse_args", stop):
        try:
            import_module(module).main()
        except _Found as found:
            return found.args[0]
    raise RuntimeError(f"{module}.main() parses no arguments")


def _option(action: argparse.Action) -> list[str]:
    value = action.metavar or (
        "{" + ",".join(map(str, action.choices)) + "}" if action.choices else action.dest.upper()
    )
    takes = "" if action.nargs == 0 else f" {value}"
    name = f"{', '.join(action.option_strings)}{takes}" if action.option_strings else action.metavar or action.dest
    empty = action.default is None or action.default is False or action.default in ([], argparse.SUPPRESS)
    default = "" if empty else f"`{action.default}`"
    text = re.sub(r"\s*\((?:default: )?%\(default\)s\)|\s*\(default: [^()]*\)$", "", action.help or "")
    return [f"`{name}`", default, text]


def groups(folder: Path) -> str:
    """Return the groups of a folder of configs with their options, as `asbc --help` lists them."""
    lines = []
    for group in sorted(each for each in folder.iterdir() if each.is_dir() and each.name != "hydra"):
        line = f"{group.name}: {', '.join(sorted(path.stem for path in group.glob('*.yaml')))}"
        lines.append(fill(line, 80, subsequent_indent="  "))
    return "\n".join(lines) + "\n"


def commands() -> str:
    """Return the reference of all commands as Markdown."""
    from omegaconf import OmegaConf

    pages = []
    for name, module in PARSED.items():
        parser = parser_of(module)
        parts = [f"## {name}\n", f"{parser.description}\n"]
        for group in parser._action_groups:
            rows = [_option(action) for action in group._group_actions if action.dest != "help"]
            if rows:
                title = (group.title or "").removeprefix("positional ")
                parts.append(f"**{title}**{': ' + group.description if group.description else ''}\n")
                parts += [table(["option", "default", "meaning"], rows)]
        if parser.epilog:
            parts.append(f"{parser.epilog}\n")
        pages.append((name, "\n".join(parts)))
    for name, path in COMPOSED.items():
        text = OmegaConf.to_container(OmegaConf.load(path))["hydra"]["help"]
        shown = text.get("template") or text["header"]
        shown = shown.replace("$APP_CONFIG_GROUPS", groups(path.parent)).strip()
        pages.append(
            (name, f"## {name}\n\n```text\n{shown}\n```\n\nAll settings: [configuration](configuration.md).\n")
        )
    return "\n".join(text for _, text in sorted(pages))


# ------------------------------------------------------------------------------------------------------ settings


def head(path: Path) -> str:
    """Return the comment at the top of a config, without its commands."""
    lines = []
    for line in path.read_text().splitlines():
        if line.startswith("# @package"):
            continue
        if not line.startswith("#"):
            break
        if not line.startswith("#   "):
            lines.append(line[1:].strip())
    return " ".join(lines)


def settings(path: Path, prefix: str = "") -> Iterator[list[str]]:
    """Yield key, value and comment of the settings in a config, by their names on the command line."""
    parents: list[tuple[int, str]] = []
    pending: list[str] = []  # comment lines above a key
    hidden = -1  # indentation of a part that is not shown
    text = path.read_text()
    package = re.search(r"^# @package (\S+)$", text, re.M)
    if package:
        prefix = "" if package[1] == "_global_" else f"{package[1]}."
    for line in re.sub(r"\A(#.*\n)+", "", text).splitlines():
        indent = len(line) - len(line.lstrip())
        if not line.strip() or 0 <= hidden < indent:
            pending = []
            continue
        hidden = -1
        if line.lstrip().startswith("#"):
            pending.append(line.strip()[1:].strip())
            continue
        found = re.match(r"\s*([\w/@]+):\s*(.*?)\s*(?:(?<=\s)#\s*(.*))?$", line)
        if not found:
            pending = []
            continue
        key, value, comment = found.groups()
        while parents and parents[-1][0] >= indent:
            parents.pop()
        parents.append((indent, key))
        said = " ".join([*pending, comment or ""]).strip()
        pending = []
        if key in ("defaults", "hydra"):
            hidden = indent
        elif key not in ("_target_", "_partial_") and (value or said):
            full = prefix + ".".join(name for _, name in parents)
            other = re.fullmatch(r"\$\{(?:oc\.select:\w+,\$\{)?([\w.]+)\}+", value)  # the value of another setting
            yield [f"`{full}`", f"as `{other[1]}`" if other else f"`{value}`" if value else "", said]


def _group(folder: Path, name: str) -> str:
    """Return the options of one group, and their settings under a fold."""
    from asbc.configs import composed_methods

    paths = sorted(folder.rglob("*.yaml"))
    options = {f"`{path.relative_to(folder).with_suffix('').as_posix()}`": path for path in paths}
    parts = [f"### {name}\n", table([f"`{name}=`", "what it is"], [[key, head(path)] for key, path in options.items()])]
    if name == "method":
        others = ", ".join(f"`{each}`" for each in composed_methods())
        parts.append(f"Each rule of `bandwidth` with Gaussian and with NNK weights is a method, too: {others}.\n")
    rows = [[key, *row] for key, path in options.items() for row in settings(path, f"{name}.")]
    if rows:
        parts += [f":::{{dropdown}} Settings of `{name}`\n", table(["option", "setting", "value", "meaning"], rows)]
        parts.append(":::\n")
    return "\n".join(parts)


def configuration() -> str:
    """Return the reference of all settings as Markdown."""
    parts = []
    for title, path in (("asbc", CONF / "config.yaml"), ("asbc-pretrain", TRAIN / "config.yaml")):
        parts += [f"## {title}\n", table(["setting", "default", "meaning"], list(settings(path)))]
        folders = sorted(each for each in path.parent.iterdir() if each.is_dir())
        for folder in folders:
            inner = sorted(each for each in folder.iterdir() if each.is_dir()) if folder.name == "hydra" else [folder]
            parts += [_group(each, each.relative_to(path.parent).as_posix()) for each in inner]
    return "\n".join(parts)


# ------------------------------------------------------------------------------------------------------ pages


def of_repository(name: str) -> str:
    """Return a page at the top of the repository, with links that work in the site."""
    return (ROOT / name).read_text().replace("](docs/", "](")


WRITERS = {
    "commands": commands,
    "settings": configuration,
    "changelog": lambda: of_repository("CHANGELOG.md"),
    "contributing": lambda: of_repository("CONTRIBUTING.md"),
}


def _fill(app, docname: str, source: list[str]) -> None:
    """Write what a page asks for, and let links to pages of the repository lead to their copies in the site."""
    for name, write in WRITERS.items():
        mark = f"<!-- {name} -->"
        if mark in source[0]:
            before, _, rest = source[0].partition(mark)
            source[0] = before + write() + rest.partition(f"<!-- end of {name} -->")[2]
    source[0] = re.sub(
        r"\]\((?:\.\./)*(CHANGELOG|CONTRIBUTING)\.md", lambda found: f"](/{found[1].lower()}.md", source[0]
    )


def _skip(app, what, name, obj, skip, options) -> bool | None:
    """Leave out the methods that scikit-learn adds for metadata routing."""
    return True if re.fullmatch(r"set_\w+_request|get_metadata_routing", name) else None


def setup(app) -> dict:
    app.connect("source-read", _fill)
    app.connect("autodoc-skip-member", _skip)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
