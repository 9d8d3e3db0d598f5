"""The address of the UI in pages: the store's own, or the last that the UI had."""

from pathlib import Path

from labkit.tracking.mlflow import charts_page, sync
from labkit.tracking.mlflow.place import base, keep, lead
from labkit.tracking.mlflow.sidecar import lead_pages
from labkit.tracking.record import Edition


def test_a_server_is_its_own_place_and_a_file_has_the_usual_port_until_the_ui_kept_another(tmp_path: Path) -> None:
    store = f"sqlite:///{tmp_path}/mlflow.db"
    assert base("http://server:8080/") == "http://server:8080"
    assert base(store) == "http://127.0.0.1:5000"
    keep(store, "http://127.0.0.1:5017")
    assert base(store) == "http://127.0.0.1:5017"
    assert base(f"sqlite:///{tmp_path}/another.db") == "http://127.0.0.1:5000"


def test_a_damaged_note_of_the_place_counts_as_none(tmp_path: Path) -> None:
    (tmp_path / "mlflow.db.ui.json").write_text("{")
    assert base(f"sqlite:///{tmp_path}/mlflow.db") == "http://127.0.0.1:5000"


def test_only_links_to_a_ui_on_this_machine_are_led_elsewhere(tmp_path: Path) -> None:
    page = tmp_path / "report.html"
    kept = "http://server:5000/#/experiments/1 http://127.0.0.1:9/docs"
    page.write_text(f"http://127.0.0.1:5000/#/experiments/1 {kept}")
    lead(page, "http://127.0.0.1:5017")
    assert page.read_text() == f"http://127.0.0.1:5017/#/experiments/1 {kept}"


def test_pages_that_another_store_shows_stay_as_they_are(edition: Edition, uri: str) -> None:
    sync(edition, uri)
    page = edition.path / "report.html"
    page.write_text(charts_page(edition))
    lead_pages(edition.path.parents[1], "sqlite:////another.db", "http://127.0.0.1:5017")
    assert page.read_text() == charts_page(edition)
    lead_pages(edition.path.parents[1], uri, "http://127.0.0.1:5017")
    assert page.read_text().startswith("http://127.0.0.1:5017/#/experiments/")
