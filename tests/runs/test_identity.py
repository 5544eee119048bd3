from asbc.runs.identity import run_id


def rule(target, **parameters):
    return {"methods": {"nnk_sigma": {"weights": "nnk", "bandwidth": {"_target_": target, **parameters}}}}


def test_a_moved_module_leaves_the_id_as_it_was():
    ids = {run_id(rule(f"asbc.{place}SpectralBandwidth", gamma=1.0), "data") for place in ("", "bandwidth.", "a.b.c.")}
    assert len(ids) == 1
    # The same in a list, and at the top of the settings.
    assert run_id({"steps": [{"_target_": "asbc.Fixed"}]}, "") == run_id(
        {"steps": [{"_target_": "asbc.old.Fixed"}]}, ""
    )
    assert run_id({"_target_": "asbc.Fixed"}, "") == run_id({"_target_": "asbc.old.Fixed"}, "")


def test_another_class_another_parameter_or_another_project_is_another_run():
    ids = [
        run_id(rule("asbc.SpectralBandwidth", gamma=1.0), "data"),
        run_id(rule("asbc.Perplexity", gamma=1.0), "data"),
        run_id(rule("asbc.SpectralBandwidth", gamma=2.0), "data"),
        run_id(rule("mine.SpectralBandwidth", gamma=1.0), "data"),
        run_id(rule("yours.SpectralBandwidth", gamma=1.0), "data"),
        run_id(rule("asbc_extras.SpectralBandwidth", gamma=1.0), "data"),
    ]
    assert len(set(ids)) == len(ids)


def test_only_targets_are_shortened():
    assert run_id({"path": "asbc.a.b"}, "") != run_id({"path": "asbc.b"}, "")
