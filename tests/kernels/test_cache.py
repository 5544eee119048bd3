from asbc.kernels import _drop_stale_cache


def test_compiled_code_goes_when_any_source_changes(tmp_path):
    (tmp_path / "a.py").write_text("one")
    (tmp_path / "b.py").write_text("two")
    _drop_stale_cache(tmp_path)
    cached = tmp_path / "__pycache__" / "a.fn.nbi"
    cached.write_text("compiled")
    _drop_stale_cache(tmp_path)
    assert cached.exists()
    (tmp_path / "b.py").write_text("three")
    _drop_stale_cache(tmp_path)
    assert not cached.exists()
