"""The page in a real browser: hover, lasso, colours, search, download, and names that would like to be markup."""

import csv
import io
import json
import re

import numpy as np
import pandas as pd
import pytest

import asbc
from asbc.explore import explore, write_page
from asbc.explore.command import main, read_source
from asbc.report.command import make_report
from tests.conftest import curved_clouds
from tests.explore.conftest import EVIL
from tests.report.small import rows_of, write_run

selenium = pytest.importorskip("selenium")
from selenium.webdriver.common.action_chains import ActionChains  # noqa: E402
from selenium.webdriver.common.by import By  # noqa: E402
from selenium.webdriver.common.keys import Keys  # noqa: E402
from selenium.webdriver.support.select import Select  # noqa: E402
from selenium.webdriver.support.wait import WebDriverWait  # noqa: E402

READY = "return document.body.dataset.ready === 'yes'"
MODELS = """
const source = Bokeh.documents[0].get_model_by_name('nodes');
const plot = Bokeh.documents[0].get_model_by_name('map');
const points = Bokeh.documents[0].get_model_by_name('points');
"""
# Where a node is on the screen.
PLACE = (
    MODELS
    + """
const view = Bokeh.index.find_one_by_id ? Bokeh.index.find_one_by_id(plot.id) : Bokeh.index[plot.id];
const box = view.canvas_view.el.getBoundingClientRect();
const frame = view.frame;
return [box.left + frame.x_scale.compute(source.data.x[arguments[0]]),
        box.top + frame.y_scale.compute(source.data.y[arguments[0]])];
"""
)


@pytest.fixture(scope="module")
def opened(made, browser):
    browser.get((made / "explore.html").as_uri())
    WebDriverWait(browser, 60).until(lambda b: b.execute_script(READY))
    # Drawn, so that places are known.
    WebDriverWait(browser, 60).until(lambda b: all(np.isfinite(b.execute_script(PLACE, 0))))
    return browser


@pytest.fixture
def page(opened):
    """The page as it opens."""
    Select(element(opened, "colour")).select_by_value("label")
    opened.execute_script("window.scrollTo({top: 0, behavior: 'instant'}); document.getElementById('clear').click()")
    until(opened, lambda: chosen(opened) == [] and opened.execute_script("return window.scrollY") == 0)
    return opened


def chosen(page):
    return page.execute_script(MODELS + "return Array.from(source.selected.indices)")


def place(page, node):
    return page.execute_script(PLACE, node)


def until(page, test):
    return WebDriverWait(page, 30).until(lambda _: test())


def element(page, name):
    return page.find_element(By.ID, name)


def shadow_texts(page):
    """All text that is on the page, tooltips in shadow roots included."""
    return page.execute_script(
        """
        const walk = (node) => (node.shadowRoot ? walk(node.shadowRoot) : '') + Array.from(node.childNodes).map(
          (child) => child.nodeType === 3 ? child.data
            : ['SCRIPT', 'STYLE'].includes(child.nodeName) ? '' : walk(child)).join(' ');
        return walk(document.body);
        """
    )


def move_to(page, x, y):
    """The mouse's way to a place of the window, to be performed."""
    actions = ActionChains(page, duration=10)
    actions.w3c_actions.pointer_action.move_to_location(round(x), round(y))
    return actions


def test_a_hover_shows_id_label_and_text(page, made):
    table = pd.read_parquet(made / "explore.parquet")
    x, y = place(page, 50)  # the outlier: nothing is near it
    move_to(page, x, y).perform()
    said = until(page, lambda: (text := shadow_texts(page)) and "text 50" in text and text)
    assert table["label"][50] in said and EVIL in said


def test_a_hover_shows_one_node_where_several_lie(page):
    shown = """
        const found = [];
        const walk = (node) => { for (const e of node.querySelectorAll('*')) if (e.shadowRoot) {
          found.push(...[...e.shadowRoot.querySelectorAll('strong')].map((s) => s.textContent));
          walk(e.shadowRoot); } };
        walk(document);
        return found;
        """
    page.execute_script(MODELS + "source.data.x[30] = source.data.x[31]; source.data.y[30] = source.data.y[31];")
    page.execute_script(MODELS + "source.data.x[30] += 1e-3; source.change.emit()")
    until(page, lambda: abs(place(page, 30)[0] - place(page, 31)[0]) < 1)
    move_to(page, *place(page, 31)).perform()
    (node,) = until(page, lambda: set(page.execute_script(shown)) & {"30", "31"} and page.execute_script(shown))
    assert node in ("30", "31")


def test_nothing_in_names_labels_or_texts_is_markup(page):
    # Every control that shows them has been used once, then nothing of theirs has run and no element is theirs.
    element(page, "search").send_keys("text")
    until(page, lambda: len(chosen(page)) == 120)
    move_to(page, *place(page, 50)).perform()
    until(page, lambda: "text 50" in shadow_texts(page))
    assert page.execute_script("return window.evil") is None
    assert page.execute_script("return document.querySelectorAll('main b, main img[src=x], main script').length") == 0
    assert page.find_element(By.TAG_NAME, "h1").text == f"Clouds {EVIL}" and page.title == f"Clouds {EVIL}"
    assert "49" not in {cell.text for cell in page.find_elements(By.CSS_SELECTOR, ".tag")}  # {{7*7}} stays as it is
    assert any(cell.text == "{{7*7}}" for cell in page.find_elements(By.CSS_SELECTOR, "#labels .node"))


def requests(browser):
    """Addresses that the browser has asked for since the last call, other than files and data in the page."""
    entries = [json.loads(entry["message"])["message"] for entry in browser.get_log("performance")]
    sent = [entry["params"]["request"]["url"] for entry in entries if entry["method"] == "Network.requestWillBeSent"]
    return [address for address in sent if not address.startswith(("data:", "blob:", "file:"))]


def test_no_errors_and_no_requests(page):
    assert [entry for entry in page.get_log("browser") if entry["level"] == "SEVERE"] == []
    assert requests(page) == []


def test_the_lasso_fills_the_table_and_the_download_has_it_all(page, made):
    table = pd.read_parquet(made / "explore.parquet")
    page.execute_script(MODELS + "plot.toolbar.tools.find((tool) => tool.type === 'LassoSelectTool').active = true")
    # Around the whole map, by its corners.
    box = page.execute_script(
        MODELS
        + "const view = Bokeh.index.find_one_by_id ? Bokeh.index.find_one_by_id(plot.id) : Bokeh.index[plot.id];"
        + "const box = view.canvas_view.el.getBoundingClientRect(), inner = view.frame.bbox;"
        + "return [box.left + inner.left, box.top + inner.top, box.left + inner.right, box.top + inner.bottom]"
    )
    left, top, right, bottom = box[0] + 3, box[1] + 3, box[2] - 3, box[3] - 3
    actions = move_to(page, left, top)
    pointer = actions.w3c_actions.pointer_action
    pointer.pointer_down()
    for x, y in ((right, top), (right, bottom), (left, bottom), (left, top + 5)):
        pointer.move_to_location(int(x), int(y))
    pointer.pointer_up()
    actions.perform()
    until(page, lambda: len(chosen(page)) == 120)
    assert element(page, "count").text == "120"
    assert len(page.find_elements(By.CSS_SELECTOR, "#rows tbody tr")) == 120
    element(page, "download").click()
    file = page.downloads / "chosen.csv"
    until(page, file.is_file)
    until(page, lambda: file.stat().st_size > 0)
    rows = list(csv.DictReader(io.StringIO(file.read_bytes().decode(), newline="")))
    assert [int(row["node"]) for row in rows] == list(range(120))
    assert [row["label"] for row in rows] == table["label"].fillna("").tolist()
    assert [row["text"] for row in rows] == table["text"].tolist()
    np.testing.assert_allclose([float(row["dimension"]) for row in rows], table["dimension"], rtol=1e-5)
    element(page, "clear").click()
    until(page, lambda: chosen(page) == [])


def test_ids_are_copied(page):
    page.execute_cdp_cmd("Browser.grantPermissions", {"permissions": ["clipboardReadWrite", "clipboardSanitizedWrite"]})
    page.execute_script(MODELS + "source.selected.indices = [3, 50]")
    element(page, "copy").click()
    until(page, lambda: element(page, "copy").text == "Copied")
    read = "const done = arguments[0]; navigator.clipboard.readText().then(done, (error) => done(String(error)))"
    assert page.execute_async_script(read) == "3\n50"


def test_colours_are_switched(page):
    select = Select(element(page, "colour"))
    keys = [option.get_attribute("value") for option in select.options]
    assert keys == ["label", "cluster", "dimension", "sigma", "density", "suspicion", "component"]
    seen = set()
    for key in keys:
        select.select_by_value(key)
        field = page.execute_script(MODELS + "return points.glyph.fill_color.field")
        assert field in (key, f"number_of_{key}")
        legends = page.find_elements(By.CSS_SELECTOR, ".legend")
        assert [e.get_attribute("data-colour") for e in legends if e.is_displayed()] == [key]
        # What is drawn changes too.
        canvas = MODELS + (
            "const view = Bokeh.index.find_one_by_id ? Bokeh.index.find_one_by_id(plot.id) : Bokeh.index[plot.id];"
            "return view.canvas_view.primary.canvas.toDataURL()"
        )
        seen.add(until(page, lambda canvas=canvas: (url := page.execute_script(canvas)) not in seen and url))
    assert len(seen) == len(keys)


def test_search_by_id_label_and_text(page, made):
    table = pd.read_parquet(made / "explore.parquet")
    box = element(page, "search")

    def look_for(text):
        box.clear()
        box.send_keys(text)

    look_for("17")
    until(page, lambda: chosen(page) == [17])
    look_for("plain")
    until(page, lambda: chosen(page) == table.index[table["label"] == "plain"].tolist())
    look_for("QUOTE")  # a part of a label, in any case
    until(page, lambda: chosen(page) == table.index[table["label"] == 'quote " & <b>'].tolist())
    look_for("text 101")
    until(page, lambda: chosen(page) == [101])
    look_for("nowhere at all")
    until(page, lambda: element(page, "found").text == "0 nodes")
    assert chosen(page) == []


def test_numbers_and_classes_of_the_page_choose_on_the_map(page, made):
    table = pd.read_parquet(made / "explore.parquet")
    page.execute_script("document.querySelector('#labels .suspects .node').click()")
    (first,) = chosen(page)
    assert first == table["suspicion"].idxmax() == 5
    entry = page.find_element(By.CSS_SELECTOR, ".legend[data-colour=label] button")
    name = entry.find_element(By.TAG_NAME, "span").get_attribute("textContent")
    entry.click()
    assert chosen(page) == table.index[table["label"] == name].tolist()


def read_csv(file):
    return list(csv.DictReader(io.StringIO(file.read_bytes().decode(), newline="")))


def test_labels_are_reviewed_exported_applied_and_the_next_page_starts_from_them(browser, tmp_path):
    X, y = curved_clouds(n=120)
    labels = np.array(["ant", "bee", "cat, tom", 'dog "rex"', "eel", "fox"])[y]
    truth = labels.copy()
    labels[[5, 17, 40, 66, 91, 92]] = truth[[30, 55, 80, 100, 0, 20]]
    np.save(tmp_path / "x.npy", X)
    np.save(tmp_path / "y.npy", labels)
    words = [tmp_path / "x.npy", "--labels", tmp_path / "y.npy", "--metric", "euclidean", "--quiet", "--out"]
    assert main([str(word) for word in [*words, tmp_path / "first.html"]]) == 0

    def open_page(name):
        browser.get((tmp_path / name).as_uri())
        WebDriverWait(browser, 60).until(lambda b: b.execute_script(READY))
        review = browser.execute_script("return JSON.parse(document.getElementById('about').textContent).review")
        assert len(browser.find_elements(By.CSS_SELECTOR, "#suspects tr")) == len(review["nodes"])
        return review["nodes"]

    def pressed():
        return browser.execute_script(
            "return [...document.querySelectorAll('#suspects tr')].map((r) => r.dataset.decision)"
        )

    nodes = open_page("first.html")
    issues = asbc.find_label_issues(asbc.GraphBuilder("blend", metric="euclidean").fit(X), labels)
    assert nodes == issues.order[: issues.doubtful.sum()].tolist() and len(nodes) >= 6
    area = element(browser, "review")
    browser.execute_script("arguments[0].scrollIntoView({behavior: 'instant'}); arguments[0].focus()", area)
    area.send_keys("a", "k", "s", "o")  # the first four by keyboard
    browser.switch_to.active_element.send_keys("gnu", Keys.ENTER)
    button = browser.find_elements(By.CSS_SELECTOR, "#suspects tr")[4].find_element(By.CSS_SELECTOR, ".accept")
    browser.execute_script("arguments[0].click()", button)
    assert pressed()[:5] == ["accept", "keep", "", "other", "accept"]
    assert open_page("first.html") == nodes and pressed()[:5] == ["accept", "keep", "", "other", "accept"], "reloaded"
    assert element(browser, "decided").text == "4 decided: 2 accepted, 1 kept, 1 other"
    browser.execute_script("document.getElementById('export').click()")
    file = browser.downloads / "corrections.csv"
    until(browser, lambda: file.is_file() and file.stat().st_size > 0)
    rows = {int(row["node"]): row for row in read_csv(file)}
    assert set(rows) == {nodes[0], nodes[1], nodes[3], nodes[4]}
    assert all(row["given"] == labels[node] for node, row in rows.items())
    wanted = labels.astype(object)
    wanted[[nodes[0], nodes[4]]] = issues.suggested[[nodes[0], nodes[4]]]
    wanted[nodes[3]] = "gnu"
    assert issues.apply(file).tolist() == wanted.tolist()

    assert main([str(word) for word in [*words, tmp_path / "second.html", "--corrections", file]]) == 0
    assert pd.read_parquet(tmp_path / "second.parquet")["label"].tolist() == wanted.tolist()
    assert nodes[0] not in open_page("second.html")
    assert element(browser, "decided").text == "4 decided: 2 accepted, 1 kept, 1 other"
    file.unlink()
    browser.execute_script("document.getElementById('export').click()")
    until(browser, lambda: file.is_file() and file.stat().st_size > 0)
    assert {int(row["node"]): row for row in read_csv(file)} == rows


def test_histograms_and_map_are_linked(page, made):
    table = pd.read_parquet(made / "explore.parquet")
    page.execute_script("window.exploreRange('outlier_score', 0, 1)")
    assert chosen(page) == table.index[table["outlier_score"].astype("float32") <= 1].tolist()
    # The blue copy of a bar is cut to the share of its nodes that are selected.
    cut = "return document.getElementById(arguments[0]).nextElementSibling.firstElementChild.style.clipPath"
    bars = page.execute_script("return JSON.parse(document.getElementById('about').textContent).histograms.dimension")
    where = np.digitize(table["dimension"].astype("float32"), bars["edges"][1:-1])
    fullest = int(np.argmax(bars["counts"]))
    share = np.isin(np.flatnonzero(where == fullest), chosen(page)).sum() / bars["counts"][fullest]
    inset = page.execute_script(cut, f"keep-bar-dimension-{fullest}")
    assert float(re.search(r"inset\(([\d.]+)%", inset)[1]) == pytest.approx(100 * (1 - share), abs=0.01)


def test_a_drag_across_a_histogram_selects_a_range(page, made):
    table = pd.read_parquet(made / "explore.parquet")
    page.execute_script("document.querySelector('figure[data-key=suspicion]').scrollIntoView({behavior: 'instant'})")
    box = page.execute_script("return document.getElementById('keep-area-suspicion').getBoundingClientRect().toJSON()")
    middle = box["left"] + box["width"] / 2
    actions = move_to(page, middle, box["top"] + 5)
    actions.w3c_actions.pointer_action.pointer_down()
    actions.w3c_actions.pointer_action.move_to_location(int(box["right"]) + 2, int(box["top"]) + 9)
    actions.w3c_actions.pointer_action.pointer_up()
    actions.perform()
    until(page, lambda: chosen(page))
    assert int(table["suspicion"].idxmax()) in chosen(page) and 0 < len(chosen(page)) < 120


@pytest.mark.parametrize("width", [400, 1280])
def test_nothing_sticks_out(page, width):
    """No sideways scrolling, and the map has room, on a telephone and on a desk."""
    page.execute_cdp_cmd(
        "Emulation.setDeviceMetricsOverride", {"width": width, "height": 900, "deviceScaleFactor": 1, "mobile": False}
    )
    try:
        wide = until(page, lambda: page.execute_script("return document.documentElement.scrollWidth"))
        assert wide <= width
        assert page.execute_script("return document.querySelector('.plot').clientWidth") > 0.55 * width
    finally:
        page.execute_cdp_cmd("Emulation.clearDeviceMetricsOverride", {})


@pytest.mark.parametrize("kind", ["explore", "report"])
def test_pages_name_no_remote_address_and_forbid_requests(kind, made, browser, tmp_path):
    page = made / "explore.html"
    if kind == "report":
        write_run(tmp_path, "loo", rows_of({"knn": 0.5, "nnk_sigma": 0.6}))
        page = make_report([tmp_path])
    addresses = re.findall(r"https?://[\w.-]+", page.read_text())
    assert set(addresses) <= {"http://www.w3.org"}, "only XML namespaces"
    browser.get_log("performance")
    browser.get(page.as_uri())
    ask = "const done = arguments[0]; fetch('http://127.0.0.1:9/').then(() => done('sent'), (e) => done('refused'))"
    blocked = "document.addEventListener('securitypolicyviolation', (e) => { window.blocked = e.effectiveDirective; });"
    assert browser.execute_async_script(blocked + ask) == "refused"
    assert browser.execute_script("return window.blocked") == "connect-src"
    assert requests(browser) == []
    browser.get_log("browser")  # the violation above


# Left, top, right and bottom of every name on the map, and of the area that nodes are drawn in.
NAMES = (
    MODELS
    + """
const view = Bokeh.index.find_one_by_id ? Bokeh.index.find_one_by_id(plot.id) : Bokeh.index[plot.id];
const {left, top, right, bottom} = view.frame.bbox, {x_scale, y_scale} = view.frame;
const names = Bokeh.documents[0].get_model_by_name('names').data;
const about = JSON.parse(document.getElementById('about').textContent);
const pen = document.createElement('canvas').getContext('2d');
pen.font = about.font;
const boxes = Array.from(names.text).map((text, i) => {
  const [x, y, half] = [x_scale.compute(names.x[i]), y_scale.compute(names.y[i]), pen.measureText(text).width / 2];
  return [x - half, y - 7, x + half, y + 7];
});
return {texts: Array.from(names.text), boxes, frame: [left, top, right, bottom], levels: about.names.map(
  (level) => level.map((name) => name.text))};
"""
)


@pytest.fixture(scope="module")
def clusters(browser, tmp_path_factory):
    """The page of 900 sentences with 30 intents, as it opens."""
    folder, (_, vectors, labels, _) = tmp_path_factory.mktemp("clusters"), read_source("clinc100")
    some = np.isin(labels, np.unique(labels)[:30])
    found = explore(vectors[some], labels[some])
    browser.get(write_page(found, folder / "named.html", title="Named").as_uri())
    WebDriverWait(browser, 60).until(lambda b: b.execute_script(READY))
    return browser, found


@pytest.mark.parametrize("width", [1280, 400])
def test_names_of_clusters_are_on_the_map_and_do_not_overlap(clusters, width):
    page, _ = clusters
    page.execute_cdp_cmd(
        "Emulation.setDeviceMetricsOverride", {"width": width, "height": 900, "deviceScaleFactor": 1, "mobile": False}
    )
    try:
        seen = []
        for zoom in (1, 3):
            page.execute_script(
                MODELS
                + """
                plot.reset.emit();
                const {row} = JSON.parse(document.getElementById('about').textContent).names.at(-1)[0];
                for (const key of arguments[0] > 1 ? ['x', 'y'] : []) {
                  const range = plot[key + '_range'], middle = source.data[key][row];
                  const half = (range.end - range.start) / 2 / arguments[0];
                  range.have_updated_interactively = true;
                  range.setv({start: middle - half, end: middle + half});
                }
                """,
                zoom,
            )
            page.execute_async_script("setTimeout(arguments[0], 500)")  # until all of it is drawn
            names = until(page, lambda: (found := page.execute_script(NAMES)) and found["texts"] and found)
            left, top, right, bottom = names["frame"]
            for i, box in enumerate(names["boxes"]):
                assert left <= box[0] and box[2] <= right and top <= box[1] and box[3] <= bottom
                for other in names["boxes"][:i]:
                    apart = box[0] >= other[2] or other[0] >= box[2] or box[1] >= other[3] or other[1] >= box[3]
                    assert apart, names["texts"]
            seen.append([number for number, level in enumerate(names["levels"]) if set(names["texts"]) <= set(level)])
        assert seen[0] and seen[1] and max(seen[1]) >= max(seen[0])
        assert max(seen[1]) == len(names["levels"]) - 1, "the finest level when zoomed in"
    finally:
        page.execute_cdp_cmd("Emulation.clearDeviceMetricsOverride", {})


def test_a_row_of_the_table_of_clusters_selects_its_nodes(clusters):
    page, found = clusters
    assert element(page, "colour").get_attribute("value") == "cluster"  # 30 classes
    rows = page.find_elements(By.CSS_SELECTOR, ".clusters tbody tr")
    assert len(rows) == len(found.clusters.table)
    for number in (0, len(rows) - 1):
        page.execute_script("arguments[0].cells[1].click()", rows[number])
        assert chosen(page) == np.flatnonzero(found.nodes["cluster"] == number).tolist()
        assert str(found.clusters.table["name"][number]) in rows[number].text
    page.execute_script("document.getElementById('clear').click()")
