import subprocess
import sys

import optuna
import pytest
from optuna_dashboard import get_note, save_note

from hpo.dashboard.figures import as_markdown
from hpo.dashboard.notes import literal, table, with_section, write_section


@pytest.fixture(params=["study", "trial"])
def subject(request):
    study = optuna.create_study()
    others = study.ask(), study.ask()
    for other in others:
        save_note(other, "another trial's")
    return study if request.param == "study" else study.ask()


def versions(study):
    attributes = study._storage.get_study_system_attrs(study._study_id)
    return sorted(value for name, value in attributes.items() if name.endswith("note_ver"))


def test_the_dashboard_reads_what_is_written_however_long(subject):
    for body in ("short", "long " * 2000, "words " * 500, "x" * 2000, "short again"):
        write_section(subject, "Own", body)
        assert get_note(subject) == f"## Own\n\n{body.strip()}\n"


def test_what_people_write_in_the_dashboard_stays_and_its_version_is_counted_on(subject):
    save_note(subject, "my own words " * 400)
    write_section(subject, "Own", "body")
    assert get_note(subject) == f"{('my own words ' * 400).rstrip()}\n\n## Own\n\nbody\n"
    study = subject if isinstance(subject, optuna.Study) else subject.study
    assert versions(study) == [1, 1, 2]
    write_section(subject, "Own", "body")
    assert versions(study) == [1, 1, 2]


def test_the_pages_of_a_search_need_no_import_of_the_dashboard():
    code = (
        "import optuna, sys, hpo.driver; from hpo.dashboard.notes import write_section; "
        "write_section(optuna.create_study().ask(), 'Own', 'body'); "
        "sys.exit('optuna_dashboard' in sys.modules or 'sklearn' in sys.modules)"
    )
    assert subprocess.run([sys.executable, "-W", "ignore", "-c", code], check=False).returncode == 0


def test_a_section_is_appended_and_later_replaced_while_the_rest_stays():
    first = with_section("", "Search", "old")
    assert first == "## Search\n\nold\n"
    people = f"my own words\n\n{first}\n## Ideas\n\nmore words\n"
    assert with_section(people, "Search", "new") == (
        "my own words\n\n## Search\n\nnew\n\n## Ideas\n\nmore words\n"
    )
    assert with_section("my own words", "Search", "new") == "my own words\n\n## Search\n\nnew\n"


def test_writing_the_same_section_twice_changes_nothing():
    once = with_section(with_section("", "Search", "a"), "Verdict", "b")
    assert with_section(with_section(once, "Search", "a"), "Verdict", "b") == once


def test_a_heading_that_only_begins_alike_is_another_section():
    note = with_section("", "Trial 12", "twelve")
    assert with_section(note, "Trial 1", "one") == "## Trial 12\n\ntwelve\n\n## Trial 1\n\none\n"


def test_markup_in_a_users_words_is_escaped():
    assert literal("a|b *c* <d>\n`e`") == r"a\|b \*c\* \<d\> \`e\`"


def test_a_fragment_of_the_page_becomes_paragraphs_and_tables():
    html = (
        '<div class="big"><div class="figure">1.2 <small>&plusmn; 0.4</small></div>'
        "<p>of <b>trial 3</b></p></div>"
        "<table><tr><th></th><th>Sharpe</th></tr><tr><th>held</th><td>0.5</td></tr></table><p>end</p>"
    )
    assert as_markdown(html) == (
        "1.2 \N{PLUS-MINUS SIGN} 0.4\n\nof **trial 3**\n\n"
        + table(["", "Sharpe"], [["held", "0.5"]])
        + "\n\nend"
    )
