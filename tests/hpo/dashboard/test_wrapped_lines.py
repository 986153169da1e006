import io

from hpo.dashboard.wrapped_lines import STYLE, wrapped_lines


class Answer:
    """What a route of the dashboard returns."""

    def __init__(self, content_type, body):
        self.content_type, self.body, self.content_length = content_type, body, None


def test_a_page_that_is_read_from_a_file_gets_the_style_once_and_its_new_length():
    file = io.BytesIO(b"<html><head></head><body></head></body></html>")
    answer = wrapped_lines(lambda: Answer("text/html; charset=UTF-8", file))()
    assert answer.body == b"<html><head>" + STYLE + b"<body></head></body></html>"
    assert answer.content_length == len(answer.body)
    assert file.closed


def test_every_other_answer_stays_as_it_is():
    script = Answer("application/javascript", io.BytesIO(b"</head>"))
    unchanged = Answer("text/html; charset=UTF-8", "")  # 304: the browser has the page
    for answer in (script, unchanged, {"studies": []}):
        assert wrapped_lines(lambda answer=answer: answer)() is answer
    assert script.body.read() == b"</head>"
    assert (unchanged.body, unchanged.content_length) == ("", None)


def test_a_route_keeps_its_arguments_and_name():
    def studies(number, *, all):
        return number, all

    assert wrapped_lines(studies)(3, all=True) == (3, True)
    assert wrapped_lines(studies).__name__ == "studies"
