"""`location-monitor register`: the documents state the figures of `check`, and the entry has the registry's fields."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import replace
from datetime import date
from fractions import Fraction
from pathlib import Path
from typing import Any
from xml.etree import ElementTree as ET

import pytest
import yaml
from click.testing import CliRunner
from jsonschema import Draft202012Validator  # type: ignore[import-untyped]  # it ships no type information

from monitor.cli import main
from monitor.config.sections import SigningSettings
from monitor.config.valid_config import ValidConfig, load_valid_config
from monitor.operate.check.compute_report import compute_report
from monitor.operate.register.entry import build_entry, to_yaml
from monitor.operate.register.figures import (
    CURATOR_TYPES,
    OPEN,
    SECTORS,
    Publisher,
    collect_figures,
    format_factor,
)
from monitor.operate.register.pages import write_assessment, write_notice
from monitor.privacy.alarm_chances import compute_belief, compute_mean_noise, find_threshold
from monitor.privacy.epsilon import format_epsilon
from monitor.time.instants import DAY, HOUR, MINUTE
from monitor.values.belief_about_one_person import PRIORS
from monitor.values.wording import format_percent, spell_duration, spell_rhythm
from tests.kinds.examples import LENGTHS, MONITORS
from tests.kit.signed import SIGNER

ROOT = Path(__file__).parents[3]
FIELDS = yaml.safe_load((Path(__file__).parent / "registry-fields.yaml").read_text(encoding="utf-8"))
KIT = ROOT / "tests" / "kit" / "configs"
CONFIG = KIT / "demo.yaml"
NOBODY = Publisher(date(2026, 11, 22))


def read(folder: Path) -> dict[str, str]:
    """Return the text of each file by its name."""
    return {path.name: path.read_text(encoding="utf-8") for path in sorted(folder.iterdir())}


@pytest.fixture(scope="module")
def every_kind(tmp_path_factory: pytest.TempPathFactory) -> ValidConfig:
    """The demo's configuration with a monitor of each other kind."""
    tree = yaml.safe_load(CONFIG.read_text(encoding="utf-8"))
    timed = {"at": ["18:00"], "timezone": "UTC", "reporting_horizon": "1d", "epsilon": "1/3"}
    tree["clock"]["origin"] = "2026-01-05T00:00:00Z"
    tree["privacy"]["epsilon"] = "100"
    tree["monitors"] += [
        {"name": "busiest", "kind": "hot_spots", "top": 3, **timed},
        MONITORS[LENGTHS] | timed,
        {"name": "bounds", "kind": "at_times", "threshold": 30, "at_least": {"epsilon": "1/7"}, **timed},
    ]
    folder = tmp_path_factory.mktemp("every-kind")
    tree["locations"]["file"] = str(ROOT / "config" / "demo-locations.csv")
    (folder / "every-kind.yaml").write_text(yaml.safe_dump(tree), encoding="utf-8")
    return load_valid_config(folder / "every-kind.yaml", {})


@pytest.fixture(params=["demo.yaml", "city.yaml", "secure.yaml", "every kind"])
def valid(request: pytest.FixtureRequest) -> ValidConfig:
    """Each example configuration, and one with every kind of monitor."""
    if request.param == "every kind":
        found: ValidConfig = request.getfixturevalue("every_kind")
        return found
    return load_valid_config(ROOT / "config" / request.param, {})


def build_documents(valid: ValidConfig) -> list[str]:
    """Return the texts of the entry, without the line breaks of YAML, the notice and the assessment."""
    figures = collect_figures(valid)
    entry = "\n".join(find_texts(build_entry(figures, NOBODY)))
    return [entry, write_notice(figures, NOBODY), write_assessment(figures, NOBODY)]


def find_texts(tree: Any) -> Iterator[str]:
    """Yield every scalar of a tree."""
    if isinstance(tree, dict | list):
        for part in tree.values() if isinstance(tree, dict) else tree:
            yield from find_texts(part)
    else:
        yield str(tree)


def test_entry_has_the_registrys_fields(valid: ValidConfig) -> None:
    """An entry is valid by the fields of the registry, also after it was written and read as YAML."""
    validator = Draft202012Validator(FIELDS, format_checker=Draft202012Validator.FORMAT_CHECKER)
    validator.validate(yaml.safe_load(to_yaml(build_entry(collect_figures(valid), NOBODY))))


def test_choices_are_those_of_the_registry() -> None:
    """The options offer the kinds of curators and the sectors that the registry knows."""
    basic = FIELDS["properties"]["deployment"]["properties"]["basic"]["properties"]
    assert list(CURATOR_TYPES) == basic["data_curators"]["items"]["properties"]["data_curator_type"]["enum"]
    assert list(SECTORS) == basic["data_product_sector"]["enum"]


def test_documents_state_the_figures_of_check(valid: ValidConfig) -> None:
    """Each document has the stated ε, the worst case, the period, and the question of each monitor.

    The entry and the assessment have the chances at an empty place, and the mean noise with its bound at 95 %.
    """
    report = compute_report(valid)
    documents = entry, notice, assessment = build_documents(valid)
    stated, total, period = format_epsilon(report.stated), format_epsilon(report.total), spell_duration(report.period)
    assert f"Stated for any {period}: ε = {stated}. The worst case of this configuration is {total} = " in entry
    assert f"Within any {period} nobody who is reported at one place at a time pays more than ε = {stated}," in notice
    assert f"| you are everywhere you could be, for {period} | {total} |" in notice
    assert f"Stated limit for any {period}: ε = {stated}. Worst case of this configuration: ε = {total}." in assessment
    for each in report.monitors:
        amounts = f"{format_epsilon(each.epsilon)} | {format_epsilon(each.charge.amount)} | {each.charge.reason}"
        assert f"| {each.name} | {each.kind} | {amounts} |" in assessment
        assert each.explanation in entry
        for odds in (odds for odds in each.odds if odds.people == 0):
            chance = f"{format_percent(odds.per_update)} in one update and {format_percent(odds.over_updates)} in"
            mean, below = compute_mean_noise(odds.epsilon), find_threshold(odds.epsilon, 1, 0.05)
            width = f"{mean:,.2g} people on average and fewer than {below}"
            assert all(figure in text for figure in (chance, width) for text in (entry, assessment))
    assert all(monitor.words.ask() in text for monitor in collect_figures(valid).monitors for text in documents)


def test_one_visit_pays_the_largest_share(every_kind: ValidConfig) -> None:
    """One visit pays a place's share, ε of a time, the larger ε with lower bounds, and ε of lengths."""
    paid = {each.report.name: each.report.one_visit for each in collect_figures(every_kind).monitors}
    assert paid == {
        "places": Fraction(1, 5),
        "midday": Fraction(1, 7),
        "busiest": Fraction(1, 3),
        "lengths": Fraction(1, 3),
        "bounds": Fraction(1, 3),
    }


def test_one_visit_to_a_weighted_place() -> None:
    """If places have weights, one visit pays the largest share."""
    valid = load_valid_config(KIT / "city.yaml", {})
    paid = {each.report.name: each.report.one_visit for each in collect_figures(valid).monitors}
    assert paid["hubs"] == Fraction(2) * 6 / 10


def test_retention_is_that_of_the_topics() -> None:
    """Visits are kept for the widest window, F, four slots and a day; answers for a period longer."""
    figures = collect_figures(load_valid_config(CONFIG, {}))
    assert figures.input_kept == 7 * DAY + 2 * HOUR + 4 * HOUR + DAY
    assert figures.output_kept == 7 * DAY + 2 * HOUR + 7 * DAY + 3 * HOUR + DAY
    assert "| 8 days 6 hours |" in write_notice(figures, NOBODY)


def test_published_epsilon_is_never_too_low(every_kind: ValidConfig) -> None:
    """An ε that is not a binary float is rounded up."""
    config = every_kind.config.model_copy(
        update={"privacy": every_kind.config.privacy.model_copy(update={"epsilon": Fraction(301, 3)})}
    )
    changed = ValidConfig(config, every_kind.locations, every_kind.parameters, every_kind.charges)
    published = build_entry(collect_figures(changed), NOBODY)["deployment"]["privacy_loss"]["privacy_parameters"]
    assert Fraction(published["epsilon"]) >= Fraction(301, 3)
    assert published["epsilon"] == pytest.approx(301 / 3)


def test_words_follow_the_kinds(every_kind: ValidConfig) -> None:
    """A one-sided answer makes the variant a custom one. The notice explains consent only if it has lower bounds."""
    entry = build_entry(collect_figures(every_kind), NOBODY)["deployment"]
    assert entry["dp_variant"]["variant_name"] == "Custom"
    assert "Input metric" in entry["privacy_loss"]["privacy_unit_details"]
    assert "Two-sided geometric noise" in entry["implementation"]["mechanisms"]
    assert "If you agreed" in write_notice(collect_figures(every_kind), NOBODY)
    assert "If you agreed" not in write_notice(collect_figures(load_valid_config(CONFIG, {})), NOBODY)


def test_notice_draws_the_table_of_beliefs(valid: ValidConfig) -> None:
    """The picture has a point for each row of the table, at the chances before and after, and words for both axes."""
    figures = collect_figures(valid)
    notice = write_notice(figures, NOBODY)
    text = notice[notice.index("<svg") : notice.index("</svg>") + 6]
    assert "\n\n" not in text  # it would end the picture in Markdown
    picture, name = ET.fromstring(text), "{http://www.w3.org/2000/svg}"  # noqa: S314  # our own
    places = [(float(one.attrib["cx"]), float(one.attrib["cy"])) for one in picture.iter(f"{name}circle")]
    after = [compute_belief(figures.report.stated, before) for before in PRIORS]
    expected = [(56 + 200 * x, 212 - 200 * y) for x, y in zip(PRIORS, after, strict=True)]
    assert places == [pytest.approx(one, abs=0.06) for one in expected]
    assert all(format_percent(one) in (picture.findtext(f"{name}desc") or "") for one in (*PRIORS, *after))
    words = {one.text for one in picture.iter(f"{name}text")}
    assert {"chance before any answer", "chance after all answers, at most", "50 %"} <= words


def test_public_key_is_stated(valid: ValidConfig) -> None:
    """The notice and the entry state the public key, if there is one."""
    key = str(SIGNER.verifier)
    signing = SigningSettings(public_key=key)
    signed = collect_figures(replace(valid, config=valid.config.model_copy(update={"signing": signing})))
    assert key in write_notice(signed, NOBODY)
    assert key in to_yaml(build_entry(signed, NOBODY))
    assert "They are signed" not in write_notice(collect_figures(valid), NOBODY)


def test_factors_and_rhythms_are_readable() -> None:
    """A factor has three digits, rounded up because it is a limit, or is a power if it would be very long."""
    amounts = [Fraction(0), Fraction(1, 1000), Fraction(1, 2), Fraction(3), Fraction(12), Fraction(100, 3)]
    factors = ["1 time", "1.01 times", "1.65 times", "20.1 times", "162,755 times", "e^33.3334 times"]
    assert [format_factor(epsilon) for epsilon in amounts] == factors
    assert (spell_rhythm(HOUR), spell_rhythm(15 * MINUTE)) == ("every hour", "every 15 minutes")


def invoke(*words: str | Path) -> Any:
    return CliRunner().invoke(main, ["register", "--config", str(CONFIG), *map(str, words)])


def test_command_writes_three_files(tmp_path: Path) -> None:
    """The command creates the folder, and reports what is left to fill in."""
    given = ("--region", "The town", "--contact", "privacy@example.org")  # with them, the notice is complete
    result = invoke("--out", tmp_path / "new", "--curator", "Health office", *given)
    assert result.exit_code == 0, result.output
    written = read(tmp_path / "new")
    assert sorted(written) == ["assessment.md", "notice.md", "registry-entry.yaml"]
    for name, text in written.items():
        left = f"{text.count(OPEN)} places to fill in" if name != "notice.md" else "complete"
        assert f"{name}: {left}" in result.output
        assert "Health office" in text


def test_entry_as_json_is_the_same(tmp_path: Path) -> None:
    """With --json the entry is the same tree, as JSON."""
    for folder, options in (("a", ()), ("b", ("--json",))):
        assert invoke("--out", tmp_path / folder, "--published", "2026-01-05", *options).exit_code == 0
    as_yaml = yaml.safe_load((tmp_path / "a" / "registry-entry.yaml").read_text(encoding="utf-8"))
    assert json.loads((tmp_path / "b" / "registry-entry.json").read_text(encoding="utf-8")) == as_yaml


def test_edited_drafts_are_kept(tmp_path: Path) -> None:
    """Files that exist are replaced only with --overwrite."""
    (tmp_path / "notice.md").write_text("edited", encoding="utf-8")
    refused = invoke("--out", tmp_path)
    assert refused.exit_code == 2
    assert "notice.md" in refused.output
    assert read(tmp_path) == {"notice.md": "edited"}
    assert invoke("--out", tmp_path, "--overwrite").exit_code == 0
    assert (tmp_path / "notice.md").read_text(encoding="utf-8") != "edited"


def test_folder_that_cannot_be_written(tmp_path: Path) -> None:
    """If --out cannot be created, the command fails with the path."""
    (tmp_path / "file").write_text("", encoding="utf-8")
    result = invoke("--out", tmp_path / "file" / "out")
    assert result.exit_code == 1
    assert "cannot be written" in result.output
