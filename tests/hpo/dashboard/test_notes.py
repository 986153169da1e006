from hpo.dashboard.figures import as_markdown
from hpo.dashboard.notes import literal, table, with_section


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
