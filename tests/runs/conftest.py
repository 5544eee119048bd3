import pytest


@pytest.fixture
def no_account(monkeypatch, tmp_path):
    """W&B as on a machine where nobody has logged in."""
    for name in ("WANDB_API_KEY", "WANDB_MODE", "WANDB_DIR"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    monkeypatch.setenv("NETRC", str(tmp_path / "home" / "netrc"))
    (tmp_path / "home").mkdir()
