"""A card shows how training went, however short it was, and counts in words that fit the number."""

from pathlib import Path

from solfa.xp.card import curve_svg, write_card

EPOCH = {"train": {"loss": 3.0}, "valid": {"loss": 2.5}}


def test_a_curve_is_drawn_after_two_epochs_and_points_after_one() -> None:
    two = curve_svg([EPOCH, {"train": {"loss": 1.0}, "valid": {"loss": None}}], "loss")
    assert two is not None and two.count("<polyline") == 1 and two.count("<circle") == 1
    one = curve_svg([EPOCH], "loss")
    assert one is not None and one.count("<circle") == 2 and "valid 2.5" in one and "nan" not in one
    assert curve_svg([], "loss") is None and curve_svg([EPOCH], "bits") is None


def test_a_card_says_what_it_is_told(tmp_path: Path) -> None:
    write_card(
        tmp_path,
        title="piano",
        what="A model.",
        tag="text-to-audio",
        facts={"started from": "base (sha256 12)"},
        data_facts={"licences": {"CC0": 1, "CC-BY": 2}},
        history=[EPOCH],
        metric=None,
        use="import solfa",
    )
    card = (tmp_path / "README.md").read_text()
    assert "| started from | base (sha256 12) |" in card
    assert "| CC0 | 1 clip |" in card and "| CC-BY | 2 clips |" in card
    assert "curve.svg" in card and (tmp_path / "curve.svg").is_file()
    assert "pipeline_tag: text-to-audio\n" in card


def test_a_model_that_reads_no_text_has_no_task_on_the_hub(tmp_path: Path) -> None:
    plain = {"title": "waves", "what": "A model.", "facts": {}, "data_facts": {}, "history": [], "metric": None}
    write_card(tmp_path, **plain, tag=None, use="import solfa")
    head = (tmp_path / "README.md").read_text().split("---")[1]
    assert "pipeline_tag" not in head and head.startswith("\nlibrary_name: solfa\ntags:\n")
