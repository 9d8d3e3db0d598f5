from labkit.report.comparison import compare


def noted(experiment) -> list[tuple[str, str]]:
    return [(note.kind, note.text) for note in compare(experiment.edition).notes]


def test_nothing_in_doubt_is_nothing_to_note(pair) -> None:
    assert noted(pair) == []


def test_survivors_are_counted(pair) -> None:
    pair.at("1e5", 1).update(status="diverged", diverged_at=37, diverged_by="not finite")
    told = "1e5: 2 of 3 survived; mean of survivors (diverged: seed 1 at step 37 (not finite))."
    assert ("diverged", told) in noted(pair)


def test_an_arm_without_survivors_has_no_mean(pair) -> None:
    for seed in range(3):
        pair.at("1e5", seed).update(status="diverged", diverged_at=37)
    (note,) = noted(pair)
    assert note[1].startswith("1e5: none of 3 survived")


def test_a_failure_shows_its_last_line(pair) -> None:
    pair.at("5e5", 0).update(status="failed", error="Traceback\n  File x\nMemoryError: 3 GiB\n")
    assert ("failed", "5e5 seed 0: MemoryError: 3 GiB") in noted(pair)


def test_what_is_missing_is_named_with_how_far_it_came(pair) -> None:
    pair.at("5e5", 0).update(status="paused", step=40)
    pair.description["seeds"] = [0, 1, 2, 3]
    pair.arm("5e5")
    (kind, text), *_ = noted(pair)
    waiting = "baseline seed 3, 1e5 seed 3, 5e5 seed 0 (paused, step 40 of 100), 5e5 seed 3"
    assert (kind, text) == ("missing", f"4 of 12 runs have no result yet: {waiting}.")


def test_a_difference_over_fewer_seeds_than_the_mean_is_said(pair) -> None:
    pair.at("baseline", 1).update(status="diverged", diverged_at=3)
    texts = [text for _, text in noted(pair)]
    told = "1e5 and 5e5: the difference rests on the 2 seeds that the baseline ended too; the mean is of all 3."
    assert told in texts


def test_a_metric_that_no_record_has_is_said(pair) -> None:
    pair.description["metric"] = "val/accuracy"
    pair.arm("5e5")
    assert ("missing", "val/accuracy is not in the record of baseline, 1e5, 5e5.") in noted(pair)


def test_more_than_four_epochs_are_data_limited(pair) -> None:
    for run in pair.edition.runs():
        run.update(epochs=4.0)
    assert noted(pair) == []
    for run in pair.edition.runs():
        run.update(epochs=6.2)
    assert noted(pair) == [("data-limited", "6.2 epochs over the data, more than 4 (every arm).")]


def test_budgets_within_one_per_cent_are_equal(pair) -> None:
    pair.arm("1e5", params=171_000, tokens=100_900)
    assert noted(pair) == []


def test_unequal_budgets_are_said_with_what_was_matched(pair) -> None:
    pair.arm("1e5", params=187_000, tokens=95_000)
    assert noted(pair) == [
        (
            "budget",
            "1e5 has 10.0 % more parameters, 5.0 % fewer training FLOPs and 5.0 % fewer tokens than the baseline "
            "(matched on: none).",
        )
    ]


def test_arms_whose_budgets_are_as_unequal_are_told_of_together(pair) -> None:
    for name in ("1e5", "5e5"):
        pair.arm(name, tokens=95_000)
    told = "1e5 and 5e5 have 5.0 % fewer training FLOPs and 5.0 % fewer tokens than the baseline (matched on: none)."
    assert noted(pair) == [("budget", told)]


def test_runs_of_unequal_conditions_are_named(pair) -> None:
    for seed in range(3):
        pair.at("5e5", seed).update(device="NVIDIA H200")
    pair.at("1e5", 2).update(mode="fast", versions={"torch": "2.12.0"})
    assert noted(pair) == [
        ("conditions", "the mode differs: exact (8 runs); fast (1e5 seed 2)."),
        ("conditions", "the device differs: cpu (6 runs); NVIDIA H200 (5e5)."),
        ("conditions", "the PyTorch version differs: 2.11.0 (8 runs); 2.12.0 (1e5 seed 2)."),
    ]


def test_another_number_of_processes_is_a_condition_and_before_there_was_one_it_was_one(pair) -> None:
    pair.at("1e5", 0).update(runtime={"threads": 1})
    pair.at("1e5", 1).update(runtime={"data_parallel": 1})
    assert noted(pair) == []
    pair.at("5e5", 0).update(runtime={"data_parallel": 2})
    assert noted(pair) == [("conditions", "the data parallelism differs: 1 (2 runs); 2 (5e5 seed 0).")]


def test_equal_arms_that_are_not_equally_fast_on_a_cpu_are_explained(pair) -> None:
    for seed in range(3):
        final = pair.at("5e5", seed).record()["final"]
        pair.at("5e5", seed).update(final=final | {"perf/tokens_per_s": 41_500.0})
    assert noted(pair) == []
    for seed in range(3):
        final = pair.at("5e5", seed).record()["final"]
        pair.at("5e5", seed).update(final=final | {"perf/tokens_per_s": 40_000.0})
    words = "tokens/s of arms of equal cost differ by up to 13 % (baseline 45.2k, 5e5 40.0k)"
    told = "on a CPU, speed depends on what else ran, so the tables leave it out."
    assert noted(pair) == [("speed", f"{words}: {told}")]
    found = compare(pair.edition)
    for headers, rows, _ in (found.rows(), found.brief_rows()):
        at = next(at for at, header in enumerate(headers) if header in ("tok/s", "tokens/s"))
        assert {row[at] for row in rows} == {"-"}
    assert found.as_json()["arms"][2]["tokens_per_s"] is None
    pair.arm("5e5", flops_per_token=1.2e6)
    assert [note for note in noted(pair) if note[0] == "speed"] == []
    assert compare(pair.edition).arms[2].tokens_per_s == 40_000.0
    pair.arm("5e5", flops_per_token=1e6)
    for run in pair.edition.runs():
        run.update(device="NVIDIA H200")
    assert noted(pair) == []


def test_a_precision_that_an_arm_declares_is_no_surprise(pair) -> None:
    pair.at("5e5", 0).update(precision="bf16")
    assert len(noted(pair)) == 1
    pair.arm("5e5", changes={"precision": ["fp32", "bf16"]})
    assert [note for note in noted(pair) if note[0] == "conditions"] == []


def test_a_source_that_changed_between_runs_is_named(pair) -> None:
    pair.at("5e5", 0).update(sources={"experiments/theta.py": "bb"})
    assert noted(pair) == [
        ("conditions", "the source experiments/theta.py was changed between runs: aa (8 runs); bb (5e5 seed 0).")
    ]


def test_what_runs_noted_themselves_is_passed_on(pair) -> None:
    for seed in range(3):
        pair.at("5e5", seed).update(notes=["evaluation.beyond: x4 not measured"])
    assert noted(pair) == [("conditions", "evaluation.beyond: x4 not measured (5e5).")]


def test_left_out_runs_are_said(pair) -> None:
    pair.arm("5e5", fingerprint="f" * 16)
    assert noted(pair)[-1][0] == "left out"
    assert noted(pair)[-1][1].startswith("3 recorded runs of other definitions of 5e5")


def test_a_long_list_is_counted(synthetic) -> None:
    experiment = synthetic(seeds=list(range(12)))
    experiment.arm("baseline")
    assert noted(experiment)[0][1].endswith("baseline seed 5, 6 more.")


def test_runs_of_other_data_than_the_latest_are_no_part_of_it_and_one_note_says_so(pair) -> None:
    for seed in range(3):
        pair.at("5e5", seed).update(data={"hash": "beef" * 4}, started=1.0)
    found = compare(pair.edition)
    assert found.arms[2].difference.n == 0
    assert found.arms[1].difference.n == 3
    text = "3 runs of other data than the latest: 5e5 seed 0 (beefbeef), 5e5 seed 1 (beefbeef), 5e5 seed 2 (beefbeef)"
    assert noted(pair) == [("left out", f"{text}; not compared, and the same command trains them anew.")]


def test_data_that_an_arm_declares_is_compared(pair) -> None:
    pair.arm("5e5", changes={"tokenizer": ["byte", "bpe(512)"]})
    for seed in range(3):
        pair.at("5e5", seed).update(data={"hash": "beef"})
    assert compare(pair.edition).arms[2].difference.n == 3
