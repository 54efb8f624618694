"""The page of the documentation is what the committed results say."""

import json
import shutil

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

pytest.importorskip("torch")

from reproduction import page as pages
from reproduction.advantages import agreement
from reproduction.command import EXPERIMENTS, RESULTS, load
from reproduction.summary import Summary
from tailproof.errors import TailproofError


def test_the_page_is_what_the_committed_results_say():
    assert pages.PAGE.read_text(encoding="utf-8") == pages.page()


def test_every_experiment_has_results_and_a_place_on_the_page():
    template = pages.TEMPLATE.read_text(encoding="utf-8")
    for name in EXPERIMENTS:
        assert load(name).rows
        assert f"{{{{shows {name}}}}}" in template
        assert f"{{{{claims {name}}}}}" in template
        assert (pages.PAGE.parent / "figures" / f"{name}.svg").exists()


def test_a_table_of_regrets_is_recomputed_by_hand():
    results = load("opo")
    cell = {"kappa": 1.0, "df": results.settings["dfs"][0]}
    values = results.values("value", method="fqi", stopping="all", **cell)
    regret = results.settings["best_value"] - values.mean()
    line = next(
        line
        for line in pages.regrets(results).splitlines()
        if line.startswith("| FQI, ridge 20 | 100 iterations")
    )
    assert line.split("|")[3].split("±")[0].strip() == f"{regret:.1f}"


def test_unknown_fields_are_refused(tmp_path, monkeypatch):
    template = tmp_path / "page.md"
    template.write_text("{{nothing ope}}")
    monkeypatch.setattr(pages, "TEMPLATE", template)
    with pytest.raises(TailproofError, match="nothing ope"):
        pages.page()


def test_numbers_without_an_interval_have_none():
    assert pages.plus_minus(Summary(-1.0, -2.0, 0.0)) == "−1.0 ± 1.0"
    assert pages.plus_minus(Summary(1.0, -float("inf"), float("inf"))) == "1.0"


def test_rows_as_published_stand_in_the_table_of_the_study():
    results, alone = pages.joined("iql-table"), load("iql-published")
    head, _, first, *_ = (line.split(" | ") for line in pages.scores(results).splitlines())
    place = head.index("IQL as published")
    few = results.settings["few"]
    scores = [
        row["score"]
        for row in alone.rows
        if row["kappa"] == 0 and row["method"] == "published" and row["dataset"] not in few
    ]
    assert len(scores) == 6
    assert first[place] == f"{sum(scores) / 6:.0f}"
    assert "as published" not in pages.scores(load("iql-table"))


def test_data_sets_with_fewer_seeds_and_noises_join_the_others(tmp_path):
    name, fewer = "advantages", tmp_path / "walker2d"
    fewer.mkdir()
    for kind in ("json", "parquet"):
        shutil.copy(RESULTS / f"{name}.{kind}", tmp_path)
    record = json.loads((RESULTS / f"{name}.json").read_text())
    one = {"datasets": {"walker2d-expert": {}}, "kappas": [100.0]}
    record |= {"settings": {**record["settings"], **one}, "replicates": 1}
    (fewer / f"{name}.json").write_text(json.dumps(record))
    rows = [
        {**row, "dataset": "walker2d-expert", "agreement": 0.5}
        for row in load(name).rows
        if (row["dataset"], row["kappa"], row["replicate"]) == ("hopper-expert", 100.0, 0)
    ]
    pq.write_table(pa.Table.from_pylist(rows), fewer / f"{name}.parquet")
    results, before = pages.joined(name, tmp_path), load(name)
    assert len(agreement(results, "ma", kappa=100.0)) == len(agreement(before, "ma")) + 1
    assert agreement(results, "ma", kappa=100.0)[-1] == 0.5
    assert (agreement(results, "ma", kappa=10.0) == agreement(before, "ma", kappa=10.0)).all()
    assert pages.count(results).endswith("at κ = 100 also walker2d-expert with seeds: 1")
    assert "over 7 data sets" in pages.claims(results)
    assert pages.joined("tradeoff").rows == load("tradeoff").rows
