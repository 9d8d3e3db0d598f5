"""What a run's tags say of how it was executed."""

import pytest

from labkit.tracking.mlflow.facts import Facts, Setting
from labkit.tracking.record import Edition


@pytest.mark.parametrize(("counts", "told"), [([], None), ([1], None), ([2], "2"), ([2, 2, 1], "2, 1"), ([None], None)])
def test_how_many_processes_shared_a_batch_is_a_tag_where_it_was_not_one(
    edition: Edition, counts: list[int | None], told: str | None
) -> None:
    (run,) = edition.runs()
    run.update(sessions=[{"runtime": {} if count is None else {"data_parallel": count}} for count in counts])
    assert Facts.of(run, run.record(), Setting.of(edition)).tags.get("data_parallel") == told
