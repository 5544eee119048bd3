"""One small page with everything on it, written by the command, and a browser to drive it if one is installed."""

import shutil

import numpy as np
import pytest

from asbc.explore.command import main
from tests.conftest import curved_clouds

EVIL = "<script>window.evil = 1</script>"
IMAGE = "<img src=x onerror='window.evil = 2'>"


def save_clouds(folder):
    """120 vectors with labels, texts and images. Some labels are missing or wrong, and all names are hostile."""
    from PIL import Image

    X, y = curved_clouds(n=120)
    X = X.astype(np.float32)
    X[110] = X[109]  # a copy
    X[50] += 40 * np.random.default_rng(0).normal(size=X.shape[1])  # an outlier, whatever the metric
    names = np.array([EVIL, IMAGE, 'quote " & <b>', "</script><script>window.evil = 3</script>", "plain", "{{7*7}}"])
    labels = names[y]
    labels[5], labels[7] = names[4], ""
    np.save(folder / "vectors.npy", X)
    np.save(folder / "labels.npy", labels)
    (folder / "texts.txt").write_text("".join(f"text {i} {EVIL} ${{x}}\n" for i in range(120)))
    (folder / "pictures").mkdir()
    for i in range(120):
        Image.new("RGB", (40, 30), (2 * i, 90, 255 - 2 * i)).save(folder / "pictures" / f"{i:03d}<b>.png")
    return folder


@pytest.fixture(scope="session")
def made(tmp_path_factory):
    """Folder with ``explore.html`` (labels and texts) of the clouds."""
    folder = save_clouds(tmp_path_factory.mktemp("explore"))
    words = [folder / "vectors.npy", "--labels", folder / "labels.npy", "--texts", folder / "texts.txt"]
    words += ["--metric", "euclidean", "--quiet", "--title", f"Clouds {EVIL}", "--out", folder / "explore.html"]
    assert main([str(word) for word in words]) == 0
    return folder


@pytest.fixture(scope="session")
def browser(tmp_path_factory):
    """Headless Chromium; tests that ask for it are skipped where it is not installed."""
    webdriver = pytest.importorskip("selenium.webdriver")
    binary = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
    driver = shutil.which("chromedriver")
    if binary is None or driver is None:
        pytest.skip("Chromium and its driver are not installed")
    downloads = tmp_path_factory.mktemp("downloads")
    options = webdriver.ChromeOptions()
    options.binary_location = binary
    for word in (
        "--headless=new",
        "--no-sandbox",
        "--disable-gpu",
        "--disable-dev-shm-usage",
        "--window-size=1280,1300",
    ):
        options.add_argument(word)
    options.add_argument("--disable-background-networking")
    options.add_experimental_option("prefs", {"download.default_directory": str(downloads)})
    options.set_capability("goog:loggingPrefs", {"browser": "ALL", "performance": "ALL"})
    opened = webdriver.Chrome(options=options, service=webdriver.ChromeService(driver))
    opened.downloads = downloads
    yield opened
    opened.quit()
