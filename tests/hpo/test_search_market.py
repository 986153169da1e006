"""The market of a search: what its reader and the leak guards doubt is said before the search starts."""

from hpo.search_market import load_market

HEADER = "timestamp,open,high,low,close,volume\n"


def test_the_readers_warnings_are_said_before_those_of_the_guards(make_search, tmp_path):
    """A 5:4 split, told by the reader; and opens that repeat the close, told by a guard."""
    closes = [100.0 + day % 2 for day in range(150)] + [80.0 + day % 2 for day in range(150)]
    rows = []
    for day, close in enumerate(closes):
        opened = 80.0 if day == 150 else closes[max(day - 1, 0)]
        rows.append(
            f"{1_600_000_000 + 86_400 * day},{opened},{max(opened, close)},{min(opened, close)},{close},1"
        )
    path = tmp_path / "bars.csv"
    path.write_text(HEADER + "\n".join(rows))
    said = []
    load_market(make_search(trainer={"data": {"path": str(path)}}), said.append)
    assert "close to 4/5" in said[0]
    assert "same-bar fill" in said[-1]
    assert all(line.startswith("warning: ") for line in said)
