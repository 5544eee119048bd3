"""The documentation: complete, built without warnings, without broken links."""

import ast
import importlib
import re
import subprocess
import sys
from html.parser import HTMLParser
from urllib.parse import unquote, urlsplit

import pytest

from tests.commands import ROOT
from tests.test_docstrings import PACKAGES

DOCS = ROOT / "docs"
PAGES = [path for path in DOCS.rglob("*.md") if "_build" not in path.parts]


def test_the_api_reference_has_every_public_name():
    text = (DOCS / "api.md").read_text()
    listed = {name for name in re.findall(r"^   ([\w.]+)$", text, re.M)}
    modules = [importlib.import_module(name) for name in PACKAGES]
    top = set(modules[0].__all__)
    wanted = top - {"export", "__version__"}
    for module in modules[1:]:
        room = module.__name__.removeprefix("asbc.")
        wanted |= {f"{room}.{name}" for name in module.__all__ if name not in top}
    assert wanted <= listed, f"not in docs/api.md: {sorted(wanted - listed)}"
    assert {name for name in listed if not name.startswith("export.")} <= wanted


def messages():
    """Strings of asbc with `...` where a value is inserted."""

    def text(node):
        if isinstance(node, ast.JoinedStr):
            return "".join(text(value) for value in node.values)
        return node.value if isinstance(node, ast.Constant) and isinstance(node.value, str) else "..."

    for path in (ROOT / "asbc").rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.JoinedStr | ast.Constant):
                yield text(node)


def test_the_faq_quotes_real_messages():
    quoted = [title for title in re.findall(r"^### `(.+)`$", (DOCS / "faq.md").read_text(), re.M) if "zsh" not in title]
    known = "\n".join(set(messages()))
    assert len(quoted) > 15
    for title in quoted:
        for part in title.split("..."):
            assert part.strip(" ,.;") in known, f"{title!r}: no message has {part!r}"


class Links(HTMLParser):
    """Targets of links and images, and the ids that they may name."""

    def __init__(self, text):
        super().__init__()
        self.targets, self.ids = set(), set()
        self.feed(text)

    def handle_starttag(self, tag, attributes):
        for name, value in attributes:
            if name == "id" and value:
                self.ids.add(value)
            elif name in ("href", "src") and value and tag in ("a", "img", "link", "script"):
                self.targets.add(value)


@pytest.mark.slow
def test_the_site_is_built_without_warnings_and_broken_links(tmp_path):
    for package in ("sphinx", "myst_parser", "numpydoc", "pydata_sphinx_theme", "sphinx_design"):
        pytest.importorskip(package)
    site = tmp_path / "site"
    command = [sys.executable, "-m", "sphinx", "-q", "-W", "--keep-going", "-d", str(tmp_path / "doctrees")]
    done = subprocess.run([*command, str(DOCS), str(site)], cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    written = [path for path in site.rglob("*.html") if path.name != "explore.html" and "_static" not in path.parts]
    pages = {path: Links(path.read_text()) for path in written}
    assert len(pages) > 100
    broken = []
    for page, links in pages.items():
        for target in links.targets:
            parts = urlsplit(target)
            if parts.scheme or parts.netloc:
                # What a page loads is in the site; only links that a reader follows lead elsewhere.
                assert not re.search(r"\.(?:js|css|woff2?)$", parts.path), f"{page}: {target}"
                continue
            path = (page.parent / unquote(parts.path)).resolve() if parts.path else page
            path = path / "index.html" if path.is_dir() else path
            known = pages.get(path)
            if not path.exists() or (known and parts.fragment and unquote(parts.fragment) not in known.ids):
                broken.append(f"{page.relative_to(site)}: {target}")
    assert not broken, "\n".join(sorted(broken))
    text = (site / "configuration.html").read_text()
    assert "neighbors.metric" in text and "evaluate.lp.alpha" in text
    assert "--symmetrize" in (site / "commands.html").read_text()


@pytest.mark.parametrize("path", [*PAGES, ROOT / "README.md", ROOT / "CONTRIBUTING.md"], ids=lambda path: path.name)
def test_links_to_files_work_in_the_repository(path):
    text = re.sub(r"^```.*?^```$", "", path.read_text(), flags=re.M | re.S)
    for target in re.findall(r"\]\(([^)\s]+)\)", text):
        if not target.startswith(("http", "#")):
            assert (path.parent / target.partition("#")[0]).resolve().exists(), f"{path.name}: {target}"
