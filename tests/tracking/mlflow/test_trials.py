from labkit.tracking.mlflow.trials import is_sweep, of_trials

DESCRIPTION = {
    "kind": "sweep",
    "objectives": [["val/loss", "minimize"], ["perf/tokens_per_s", "maximize"]],
    "arms": [
        {"varied": {}},
        {"varied": {"model.norm": "rms", "optimizer.lr": 0.1}},
        {"varied": {"model.norm": "layer", "optimizer.lr": 0.2, "model.position.rope.theta": 1e3}},
    ],
}
NAMES = {"model.norm": "norm", "optimizer.lr": "lr", "model.position.rope.theta": "theta"}
STATE = {
    "groupBy": {"groupByKeys": []},
    "compareRunSections": ["old"],
    "compareRunCharts": ["old"],
    "autoRefreshEnabled": True,
}


def test_a_sweeps_trials_stand_alone_with_parallel_coordinates_first() -> None:
    view = of_trials(STATE, DESCRIPTION, NAMES)
    assert view["groupBy"] is None
    assert view["autoRefreshEnabled"]
    first, *others = view["compareRunCharts"]
    assert (first["type"], first["selectedParams"]) == ("PARALLEL", ["norm", "lr"])  # theta is only one's
    assert first["selectedMetrics"] == ["final/val_loss", "final/perf_tokens_per_s"]
    assert [chart["uuid"] for chart in others[:-1]] == ["labkit-by-lr", "labkit-by-theta", "labkit-front"]
    assert others[-1] == "old"
    sections = {section["uuid"]: section.get("columns") for section in view["compareRunSections"][:-1]}
    assert sections == {"labkit-trials": 1, "labkit-choices": 2}
    assert {chart["metricSectionId"] for chart in view["compareRunCharts"][:-1]} == sections.keys()
    assert view["orderByKey"] == "metrics.`final/val_loss`"
    assert view["orderByAsc"]


def test_only_a_sweep_is_one() -> None:
    assert is_sweep(DESCRIPTION)
    assert not is_sweep({"arms": []})
